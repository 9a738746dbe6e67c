/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport with a bad link, for tests: the command= of an ssh place.
 *
 * usage: badlink FAULT [PROGRAM] ARGUMENT...
 *
 * Runs PROGRAM with the arguments, or without a program (the arguments begin with
 * a dash) the last one of them by sh here, as ssh would there, and relays between
 * it and stdin, a socket. FAULT: see fault.h. Ends when the program has.
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/badlink/fault.h"

static void
start(int argc, char **argv, int end)
{
    char shell[] = "/bin/sh", option[] = "-c";
    char *by_shell[] = {shell, option, argv[argc - 1], NULL};
    char **words = argv[2][0] == '-' ? by_shell : argv + 2;
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (dup2(end, 0) == 0 && dup2(end, 1) == 1) {
        execvp(words[0], words);
    }
    perror(words[0]);
    _exit(127);
}

int
main(int argc, char **argv)
{
    int pair[2], status = 0;
    char text[200];
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    /* A session ends its transport by SIGTERM; what it runs ends by its input. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 3 || fy_fault_check(argv[1], &why) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        (void)fprintf(stderr, "badlink: %s\n", text);
        return 255;
    }
    pid_t child = fork();
    if (child == 0) {
        start(argc, argv, pair[1]);
    }
    close(pair[1]);
    close(1); /* the same socket as stdin */
    if (child < 0 || fy_fault_run(argv[1], pair[0], 0, &why)) {
        (void)fprintf(stderr, "badlink: %s\n", text);
        return 255;
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 255;
}
