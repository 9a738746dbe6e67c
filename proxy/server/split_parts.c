/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a stage that is split: copies, and the whole command when
 * the copies were no use. They share the stage's process group, so that a signal
 * to the stage reaches them all, and die with it.
 */
#include "config.h"

#include "proxy/server/split_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sha256.h"

enum {
    PIPE_BYTES = 1 << 20,
    EXIT_DIFFERS = 125,
};

void
fy_split_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* ---- delivered output ---- */

bool
fy_split_hash_equal(struct fy_sha256 *a, struct fy_sha256 *b)
{
    unsigned char one[32], two[32];
    fy_sha256_end(a, one);
    fy_sha256_end(b, two);
    return memcmp(one, two, sizeof one) == 0;
}

/* ---- signals ---- */

int
fy_split_prepare(struct fy_split_state *split)
{
    int ends[2];
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    fy_sha256_start(&split->delivered);
    fy_sha256_start(&split->again);
    if (pipe2(ends, O_CLOEXEC)) {
        return FY_ERR_IO;
    }
    split->complaints = ends[0];
    split->complaints_in = ends[1];
    sigaction(SIGPIPE, &ignore, &split->pipe_action);
    enum fy_merge merge = split->job->invocation->merge;
    if (merge != FY_MERGE_HEAD && merge != FY_MERGE_UNIQ) {
        return 0;
    }
    return fy_split_start(split, &split->last, split->copy_argv);
}

void
fy_split_unprepare(struct fy_split_state *split)
{
    if (split->complaints >= 0) {
        sigaction(SIGPIPE, &split->pipe_action, NULL);
    }
    fy_split_kill(split);
    fy_split_close(&split->complaints);
    fy_split_close(&split->complaints_in);
}

void
fy_split_die(int number)
{
    struct rlimit no_core = {0, 0};
    struct sigaction normal = {.sa_handler = SIG_DFL};
    sigset_t only;
    setrlimit(RLIMIT_CORE, &no_core);
    sigaction(number, &normal, NULL);
    sigemptyset(&only);
    sigaddset(&only, number);
    (void)pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    (void)raise(number);
    _exit(128 + number);
}

void
fy_split_differs(struct fy_split_state *split)
{
    const char *const words[] = {"ferry: ", split->job->argv[0],
                                 ": the parts' output was not the whole's\n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0) {
            break;
        }
    }
    fy_split_kill(split);
    _exit(EXIT_DIFFERS);
}

/* ---- processes ---- */

/* In the child: the command, with the signals that it would have had. */
static void __attribute__((noreturn))
become(const struct fy_split_state *split, char *const *argv)
{
    sigaction(SIGPIPE, &split->pipe_action, NULL);
    execve(split->job->program, argv, split->job->env);
    _exit(FY_SPLIT_LOST);
}

int
fy_split_start(struct fy_split_state *split, struct fy_split_part *part,
               char *const *argv)
{
    int in[2], out[2];
    pid_t parent = getpid();
    if (pipe2(in, O_CLOEXEC)) {
        return FY_ERR_IO;
    }
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]);
        close(in[1]);
        return FY_ERR_IO;
    }
    (void)fcntl(in[1], F_SETPIPE_SZ, PIPE_BYTES);
    (void)fcntl(out[0], F_SETPIPE_SZ, PIPE_BYTES);
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent ||
            dup2(in[0], STDIN_FILENO) < 0 || dup2(out[1], STDOUT_FILENO) < 0 ||
            dup2(split->complaints_in, STDERR_FILENO) < 0) {
            _exit(FY_SPLIT_LOST);
        }
        become(split, argv);
    }
    close(in[0]);
    close(out[1]);
    if (pid < 0 || fcntl(in[1], F_SETFL, O_NONBLOCK) ||
        fcntl(out[0], F_SETFL, O_NONBLOCK)) {
        close(in[1]);
        close(out[0]);
        return FY_ERR_IO;
    }
    part->pid = pid;
    part->in_fd = in[1];
    part->out_fd = out[0];
    return 0;
}

static void
kill_part(struct fy_split_part *part)
{
    fy_split_close(&part->in_fd);
    fy_split_close(&part->out_fd);
    if (part->pid > 0) {
        kill(part->pid, SIGKILL);
        while (waitpid(part->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        part->pid = 0;
    }
}

void
fy_split_kill_parts(struct fy_split_state *split)
{
    for (uint32_t i = 0; i < split->nparts; i++) {
        kill_part(&split->parts[i]);
    }
}

void
fy_split_kill(struct fy_split_state *split)
{
    fy_split_kill_parts(split);
    kill_part(&split->last);
}

/* ---- whole ---- */

void
fy_split_give_up(struct fy_split_state *split)
{
    fy_split_kill(split);
    fy_split_whole(split);
}

/* Reads the whole command's output past the delivered bytes. */
static int
skip_and_pass_on(struct fy_split_state *split, struct fy_split_part *whole)
{
    int status;
    split->is_whole = true;
    split->skip_bytes = split->delivered_bytes;
    split->last = *whole;
    while (split->last.out_fd >= 0) {
        struct pollfd wait = {.fd = split->last.out_fd, .events = POLLIN};
        if (poll(&wait, 1, -1) > 0) {
            fy_split_read_last(split);
        }
    }
    while (waitpid(whole->pid, &status, 0) < 0 && errno == EINTR) {
    }
    split->last.pid = 0;
    return status;
}

void
fy_split_whole(struct fy_split_state *split)
{
    if (!split->delivered_bytes || split->is_whole) {
        become(split, split->job->argv);
    }
    int out[2];
    struct fy_split_part whole = {.in_fd = -1};
    if (pipe2(out, O_CLOEXEC)) {
        _exit(FY_SPLIT_LOST);
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (dup2(out[1], STDOUT_FILENO) < 0) {
            _exit(FY_SPLIT_LOST);
        }
        become(split, split->job->argv);
    }
    close(out[1]);
    if (pid < 0) {
        _exit(FY_SPLIT_LOST);
    }
    whole.pid = pid;
    whole.out_fd = out[0];
    int status = skip_and_pass_on(split, &whole);
    if (WIFSIGNALED(status)) {
        fy_split_die(WTERMSIG(status));
    }
    if (split->skip_bytes) { /* the copy wrote less than the parts had */
        fy_split_differs(split);
    }
    _exit(WEXITSTATUS(status));
}
