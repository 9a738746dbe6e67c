/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of one stage, see the header. One process, one poll loop: it feeds
 * each copy its range by splice(2), so that the bytes of the file are never
 * copied here, and delivers the copies' output in order. Parts are smaller than
 * a copy's share, so that a slow one does not hold the others up for long.
 */
#include "config.h"

#include "common/sha256.h"
#include "proxy/server/split_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    READ_BYTES = 256 << 10,
    PARTS_A_COPY = 4,
    PART_BYTES_DEFAULT = 8 << 20,
    PART_BYTES_MOST = 64 << 20,
    WAITING_BYTES_MOST = 256 << 20, /* output of parts whose turn is to come */
    NEWLINE_SEARCH_BYTES = 64 << 10,
    NEWLINE_FAR_BYTES = 16 << 20,
};

bool
fy_split_possible(const struct fy_invocation *invocation, uint32_t *out_arg)
{
    uint32_t files = 0, arg = 0;
    if (invocation->split != FY_SPLIT_LINES || !invocation->pure ||
        invocation->merge == FY_MERGE_TAIL) {
        return false;
    }
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->kind != FY_USE_FILE || use->access != FY_ACCESS_IN ||
            use->offset || use->is_stdin) {
            return false; /* -f FILE, trees, "-": as they are */
        }
        files++;
        arg = use->arg;
    }
    if (files > 1 || (files == 1) == invocation->reads_stdin) {
        return false;
    }
    /* A command that gets names may print them; one that gets part of stdin
     * leaves the rest there. */
    if (files ? invocation->merge == FY_MERGE_SUM
              : invocation->merge == FY_MERGE_HEAD) {
        return false;
    }
    *out_arg = arg;
    return true;
}

/* ---- delivering ---- */

/* Ends as the command would when its output has no reader. */
static void
broken_pipe(struct fy_split_state *split)
{
    fy_split_kill(split);
    if (split->pipe_action.sa_handler != SIG_IGN) {
        fy_split_die(SIGPIPE);
    }
    fy_split_whole(split); /* meets the error itself, and says so */
}

static void
deliver(struct fy_split_state *split, const char *bytes, size_t n)
{
    if (split->skip_bytes) {
        /* The whole command, after some of its output was delivered. */
        size_t skipped = n < split->skip_bytes ? n : (size_t)split->skip_bytes;
        fy_sha256_add(&split->again, bytes, skipped);
        split->skip_bytes -= skipped;
        if (!split->skip_bytes &&
            !fy_split_hash_equal(&split->again, &split->delivered)) {
            fy_split_differs(split);
        }
        bytes += skipped;
        n -= skipped;
    }
    while (n) {
        ssize_t done = write(STDOUT_FILENO, bytes, n);
        if (done < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
        } else if (done < 0 && errno == EPIPE) {
            broken_pipe(split);
        } else if (done < 0 && errno != EINTR) {
            fy_split_kill(split);
            fy_split_whole(split); /* meets the error itself */
        } else if (done > 0) {
            if (!split->is_whole) {
                fy_sha256_add(&split->delivered, bytes, (size_t)done);
                split->delivered_bytes += (size_t)done;
            }
            bytes += done;
            n -= (size_t)done;
        }
    }
}

/* Where the output of parts goes: out, or into the command that ends it. */
static void
forward(struct fy_split_state *split, const char *bytes, size_t n)
{
    if (split->job->invocation->merge != FY_MERGE_HEAD &&
        split->job->invocation->merge != FY_MERGE_UNIQ) {
        deliver(split, bytes, n);
        return;
    }
    struct fy_split_part *last = &split->last;
    while (n && last->in_fd >= 0) {
        ssize_t done = write(last->in_fd, bytes, n);
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        } else if (errno == EAGAIN) {
            /* The part wants to be read from before it takes more. */
            struct pollfd fds[2] = {
                {.fd = last->in_fd, .events = POLLOUT},
                {.fd = last->out_fd, .events = POLLIN},
            };
            (void)poll(fds, 2, -1);
            if (fds[1].revents) {
                fy_split_read_last(split);
            }
        } else if (errno != EINTR) {
            fy_split_close(&last->in_fd); /* head has seen enough */
            split->enough = true;
        }
    }
}

void
fy_split_read_last(struct fy_split_state *split)
{
    static char block[READ_BYTES];
    struct fy_split_part *last = &split->last;
    ssize_t n = read(last->out_fd, block, sizeof block);
    if (n > 0) {
        deliver(split, block, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        fy_split_close(&last->out_fd);
    }
}

/* A number on a line of its own, as `grep -c' and `wc -l' print it. */
static bool
add_number(struct fy_split_state *split, const struct fy_split_part *part)
{
    const char *end = part->output + part->noutput;
    uint64_t value = 0;
    const char *c = part->output;
    for (; c < end && *c >= '0' && *c <= '9' && value < UINT64_MAX / 16; c++) {
        value = 10 * value + (uint64_t)(*c - '0');
    }
    if (c == part->output || c + 1 != end || *c != '\n') {
        return false;
    }
    split->sum += value;
    return true;
}

/* Passes on output of the part at the head; true when it is done with. */
static bool
flush_head(struct fy_split_state *split, struct fy_split_part *part)
{
    bool adds = split->job->invocation->merge == FY_MERGE_SUM;
    if (!adds && part->noutput) {
        size_t n = part->noutput;
        part->noutput = 0;
        split->waiting_bytes -= n;
        forward(split, part->output, n);
    }
    if (!part->ended) {
        return false;
    }
    if (adds && !add_number(split, part)) {
        fy_split_give_up(split);
    }
    free(part->output);
    part->output = NULL;
    return true;
}

/* ---- the loop ---- */

void
fy_split_feed(struct fy_split_state *split, struct fy_split_part *part)
{
    off_t at = (off_t)part->begin;
    size_t left = (size_t)(part->end - part->begin);
    ssize_t n = left ? splice(split->file, &at, part->in_fd, NULL, left,
                              SPLICE_F_NONBLOCK | SPLICE_F_MOVE)
                     : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        /* Done; or the file shrank, or the copy wants no more. */
        if (left && (n == 0 || errno != EPIPE)) {
            fy_split_give_up(split);
        }
        fy_split_close(&part->in_fd);
        return;
    }
    part->begin += (uint64_t)n;
    if (part->begin == part->end) {
        fy_split_close(&part->in_fd);
    }
}

static void
collect(struct fy_split_state *split, struct fy_split_part *part)
{
    if (part->room - part->noutput < READ_BYTES) {
        size_t room = 2 * part->room + READ_BYTES;
        char *bigger = realloc(part->output, room);
        if (!bigger) {
            fy_split_give_up(split);
        }
        part->output = bigger;
        part->room = room;
    }
    ssize_t n = read(part->out_fd, part->output + part->noutput, READ_BYTES);
    if (n > 0) {
        part->noutput += (size_t)n;
        split->waiting_bytes += (size_t)n;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        fy_split_close(&part->out_fd);
    }
}

/* A copy that closed its output: how did it end? */
static void
finish(struct fy_split_state *split, struct fy_split_part *part)
{
    int status;
    while (waitpid(part->pid, &status, 0) < 0 && errno == EINTR) {
    }
    part->pid = 0;
    part->ended = true;
    fy_split_close(&part->in_fd);
    split->running--;
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1 ||
        (WEXITSTATUS(status) == 1 && !split->job->status_found)) {
        fy_split_give_up(split);
    }
    split->found = split->found || WEXITSTATUS(status) == 0;
}

static void
poll_parts(struct fy_split_state *split)
{
    struct pollfd *fds = split->fds;
    struct fy_split_part **owners = split->owners;
    nfds_t n = 0;
    bool full = split->waiting_bytes > WAITING_BYTES_MOST;
    for (uint32_t i = split->head; i < split->started; i++) {
        struct fy_split_part *part = &split->parts[i];
        if (part->in_fd >= 0) {
            owners[n] = part;
            fds[n++] = (struct pollfd){.fd = part->in_fd, .events = POLLOUT};
        }
        if (part->out_fd >= 0 && (!full || i == split->head)) {
            owners[n] = part;
            fds[n++] = (struct pollfd){.fd = part->out_fd, .events = POLLIN};
        }
    }
    fds[n] = (struct pollfd){.fd = split->complaints, .events = POLLIN};
    if (poll(fds, n + 1, -1) <= 0) {
        return;
    }
    if (fds[n].revents & POLLIN) {
        fy_split_give_up(split); /* a copy said something on stderr */
    }
    for (nfds_t i = 0; i < n; i++) {
        struct fy_split_part *part = owners[i];
        if (!fds[i].revents) {
            continue;
        }
        if (fds[i].fd == part->in_fd) {
            fy_split_feed(split, part);
        } else if (fds[i].fd == part->out_fd) {
            collect(split, part);
            if (part->out_fd < 0) {
                finish(split, part);
            }
        }
    }
}

static void
run_parts(struct fy_split_state *split)
{
    while (split->head < split->nparts && !split->enough) {
        while (split->started < split->nparts &&
               split->running < split->job->copies &&
               split->waiting_bytes <= WAITING_BYTES_MOST) {
            if (fy_split_start(split, &split->parts[split->started],
                               split->copy_argv)) {
                fy_split_give_up(split);
            }
            split->started++;
            split->running++;
        }
        poll_parts(split);
        while (split->head < split->started &&
               flush_head(split, &split->parts[split->head])) {
            split->head++;
        }
    }
    fy_split_kill_parts(split); /* those that head needs no more */
}

/* The command over the parts' output: waits for its output. */
static int
run_last(struct fy_split_state *split)
{
    int status;
    struct fy_split_part *last = &split->last;
    fy_split_close(&last->in_fd);
    while (last->out_fd >= 0) {
        struct pollfd wait = {.fd = last->out_fd, .events = POLLIN};
        if (poll(&wait, 1, -1) > 0) {
            fy_split_read_last(split);
        }
    }
    while (waitpid(last->pid, &status, 0) < 0 && errno == EINTR) {
    }
    last->pid = 0;
    if (!WIFEXITED(status)) {
        fy_split_give_up(split);
    }
    return WEXITSTATUS(status);
}

/* ---- getting ready ---- */

/* The offset behind the next newline at or after `at'; `size' when there is none
 * that is near: lines that long are not worth the search. */
static uint64_t
next_line(int file, uint64_t at, uint64_t size)
{
    static char block[NEWLINE_SEARCH_BYTES];
    uint64_t end =
        size - at > NEWLINE_FAR_BYTES ? at + NEWLINE_FAR_BYTES : size;
    while (at < end) {
        ssize_t n = pread(file, block, sizeof block, (off_t)at);
        if (n <= 0) {
            return size;
        }
        const char *newline = memchr(block, '\n', (size_t)n);
        if (newline) {
            return at + (uint64_t)(newline - block) + 1;
        }
        at += (uint64_t)n;
    }
    return size;
}

static int
cut(struct fy_split_state *split, uint64_t begin, uint64_t size)
{
    const struct fy_split_job *job = split->job;
    uint64_t least =
        job->part_bytes_min ? job->part_bytes_min : PART_BYTES_DEFAULT;
    uint64_t parts_a_copy =
        job->invocation->merge == FY_MERGE_SORT ? 1 : PARTS_A_COPY;
    uint64_t bytes = (size - begin) / (job->copies * parts_a_copy) + 1;
    if (parts_a_copy > 1 && bytes > PART_BYTES_MOST) {
        bytes = PART_BYTES_MOST;
    }
    bytes = bytes < least ? least : bytes;
    if (size <= begin || (size - begin) / 2 < bytes) {
        return FY_ERR_NOFIT;
    }
    uint64_t most = (size - begin) / bytes + 2;
    split->parts = calloc(most, sizeof *split->parts);
    split->fds = calloc(2 * most + 1, sizeof *split->fds);
    split->owners = calloc(2 * most, sizeof(struct fy_split_part *));
    if (!split->parts || !split->fds || !split->owners) {
        return FY_ERR_NOMEM;
    }
    while (begin < size && split->nparts < most) {
        uint64_t end = size - begin > bytes
                           ? next_line(split->file, begin + bytes - 1, size)
                           : size;
        split->parts[split->nparts++] = (struct fy_split_part){
            .begin = begin, .end = end, .in_fd = -1, .out_fd = -1};
        begin = end;
    }
    return split->nparts > 1 ? 0 : FY_ERR_NOFIT;
}

/* argv without the operand: the copies read stdin. */
static int
make_argv(struct fy_split_state *split, uint32_t without)
{
    size_t n = 0, to = 0;
    while (split->job->argv[n]) {
        n++;
    }
    split->copy_argv = calloc(n + 1, sizeof *split->copy_argv);
    if (!split->copy_argv) {
        return FY_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (!without || i != without) {
            split->copy_argv[to++] = split->job->argv[i];
        }
    }
    return 0;
}

/* The value of a variable of the command's environment, or NULL. */
static const char *
variable(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; *env; env++) {
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=') {
            return *env + n + 1;
        }
    }
    return NULL;
}

/* Returns true if newlines and characters are as split_text.c assumes. */
static bool
known_encoding(char *const *env)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *locale = NULL;
    for (size_t i = 0; i < 3 && (!locale || !*locale); i++) {
        locale = variable(env, names[i]);
    }
    return !locale || !*locale || strcmp(locale, "C") == 0 ||
           strcmp(locale, "POSIX") == 0 || strcasestr(locale, "UTF-8") ||
           strcasestr(locale, "utf8");
}

void
fy_split_run(const struct fy_split_job *job)
{
    struct fy_split_state split = {
        .job = job, .file = -1, .complaints = -1, .complaints_in = -1};
    struct stat status;
    uint64_t begin = 0;
    split.last.in_fd = split.last.out_fd = -1;
    if (job->copies < 2 || !fy_split_possible(job->invocation, &split.arg)) {
        return;
    }
    split.file = split.arg ? open(job->argv[split.arg], O_RDONLY | O_CLOEXEC)
                           : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (split.file < 0 || fstat(split.file, &status) ||
        !S_ISREG(status.st_mode)) {
        goto close_file;
    }
    if (!split.arg) {
        off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
        if (at < 0) {
            goto close_file;
        }
        begin = (uint64_t)at;
    }
    if (!known_encoding(job->env) ||
        cut(&split, begin, (uint64_t)status.st_size) ||
        !fy_split_is_text(&split) || make_argv(&split, split.arg) ||
        fy_split_prepare(&split)) {
        goto free_parts;
    }
    if (job->started > 0) {
        close(job->started);
    }
    int code = 0;
    if (job->invocation->merge == FY_MERGE_SORT) {
        code = fy_split_sort(&split);
    } else {
        run_parts(&split);
        if (split.last.pid) {
            code = run_last(&split);
        }
    }
    if (job->invocation->merge == FY_MERGE_SUM) {
        char line[32];
        int n = snprintf(line, sizeof line, "%llu\n",
                         (unsigned long long)split.sum);
        deliver(&split, line, (size_t)n);
    }
    if (!split.arg) {
        (void)lseek(STDIN_FILENO, 0, SEEK_END);
    }
    _exit(job->status_found ? !split.found : code);

free_parts:
    fy_split_unprepare(&split);
    free(split.parts);
    free(split.fds);
    free(split.owners);
    free(split.copy_argv);
close_file:
    fy_split_close(&split.file);
}
