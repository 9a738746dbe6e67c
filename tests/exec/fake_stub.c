/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for ferry-stub: writes down that it was started, in the file that
 * stands where the socket should, and execs the original. Static, as that one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int
main(int argc, char **argv)
{
    char line[4096];
    size_t used = 0;
    if (argc < 4) {
        return 125;
    }
    for (int i = 2; i < argc && used < sizeof line - 2; i++) {
        int n = snprintf(line + used, sizeof line - used - 1, "%s%s",
                         i == 2 ? "" : "|", argv[i]);
        used += (size_t)n < sizeof line - used - 1 ? (size_t)n : 0;
    }
    line[used++] = '\n';
    int log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log < 0 || write(log, line, used) != (ssize_t)used) {
        return 125;
    }
    close(log);
    execve(argv[2], argv + 3, environ);
    return 126;
}
