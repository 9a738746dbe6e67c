/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sort' in parts: each copy sorts a range, and `sort -m' with the stage's own
 * flags reads them all through pipes. Nothing is delivered before every part was
 * read, so that a copy in trouble still means a whole sort.
 */
#include "config.h"

#include "proxy/server/split_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* argv of the merge: the flags, -m, and the copies' pipes as /dev/fd/N. */
static char **
merge_argv(const struct fy_split_state *split, char (*names)[24])
{
    size_t n = 0, to = 1;
    while (split->copy_argv[n]) {
        n++;
    }
    char **argv = calloc(n + split->nparts + 3, sizeof *argv);
    if (!argv) {
        return NULL;
    }
    /* -m first: a "--" among the flags ends them. */
    static char flag[] = "-m";
    argv[0] = split->copy_argv[0];
    argv[to++] = flag;
    for (size_t i = 1; i < n; i++) {
        argv[to++] = split->copy_argv[i];
    }
    for (uint32_t i = 0; i < split->nparts; i++) {
        (void)snprintf(names[i], sizeof names[i], "/dev/fd/%d",
                       split->parts[i].out_fd);
        argv[to++] = names[i];
    }
    return argv;
}

/* The merge reads the copies' pipes; ours are closed. */
static int
start_merge(struct fy_split_state *split)
{
    int out[2];
    pid_t parent = getpid();
    char(*names)[24] = calloc(split->nparts + 1, sizeof *names);
    char **argv = names ? merge_argv(split, names) : NULL;
    int status = FY_ERR_NOMEM;
    if (!argv) {
        goto free_names;
    }
    status = FY_ERR_IO;
    if (pipe2(out, O_CLOEXEC)) {
        goto free_names;
    }
    pid_t pid = fork();
    if (pid == 0) {
        bool good = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                    getppid() == parent && dup2(out[1], STDOUT_FILENO) >= 0 &&
                    dup2(split->complaints_in, STDERR_FILENO) >= 0;
        for (uint32_t i = 0; good && i < split->nparts; i++) {
            good = fcntl(split->parts[i].out_fd, F_SETFD, 0) == 0 &&
                   fcntl(split->parts[i].out_fd, F_SETFL, 0) == 0;
        }
        if (good) {
            sigaction(SIGPIPE, &split->pipe_action, NULL);
            execve(split->job->program, argv, split->job->env);
        }
        _exit(FY_SPLIT_LOST);
    }
    close(out[1]);
    if (pid < 0) {
        close(out[0]);
        goto free_names;
    }
    split->last.pid = pid;
    split->last.out_fd = out[0];
    for (uint32_t i = 0; i < split->nparts; i++) {
        fy_split_close(&split->parts[i].out_fd);
    }
    status = 0;
free_names:
    free(names);
    free(argv);
    return status;
}

/* Feeds all copies and passes on the merged output. */
static void
pump(struct fy_split_state *split)
{
    struct pollfd *fds = split->fds;
    while (split->last.out_fd >= 0) {
        nfds_t n = 0;
        for (uint32_t i = 0; i < split->nparts; i++) {
            if (split->parts[i].in_fd >= 0) {
                split->owners[n] = &split->parts[i];
                fds[n++] = (struct pollfd){.fd = split->parts[i].in_fd,
                                           .events = POLLOUT};
            }
        }
        fds[n] = (struct pollfd){.fd = split->complaints, .events = POLLIN};
        fds[n + 1] =
            (struct pollfd){.fd = split->last.out_fd, .events = POLLIN};
        if (poll(fds, n + 2, -1) <= 0) {
            continue;
        }
        if (fds[n].revents & POLLIN) {
            fy_split_give_up(split);
        }
        for (nfds_t i = 0; i < n; i++) {
            if (fds[i].revents) {
                fy_split_feed(split, split->owners[i]);
            }
        }
        if (fds[n + 1].revents) {
            fy_split_read_last(split);
        }
    }
}

/* The exit status of a process that has ended, or giving up. */
static int
status_of(struct fy_split_state *split, pid_t *pid)
{
    int status;
    while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
    }
    *pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        fy_split_give_up(split);
    }
    return 0;
}

int
fy_split_sort(struct fy_split_state *split)
{
    for (uint32_t i = 0; i < split->nparts; i++) {
        if (fy_split_start(split, &split->parts[i], split->copy_argv)) {
            fy_split_give_up(split);
        }
        split->started++;
    }
    if (start_merge(split)) {
        fy_split_give_up(split);
    }
    pump(split);
    for (uint32_t i = 0; i < split->nparts; i++) {
        (void)status_of(split, &split->parts[i].pid);
    }
    return status_of(split, &split->last.pid);
}
