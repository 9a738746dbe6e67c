/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into tools and what they start by environment.py: the name of each
 * variable that is asked for is appended to the file FERRY_ASKED.
 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static char *
find(const char *name)
{
    size_t n = strlen(name);
    for (char **each = environ; each && *each; each++) {
        if (strncmp(*each, name, n) == 0 && (*each)[n] == '=') {
            return *each + n + 1;
        }
    }
    return NULL;
}

static char *
ask(const char *name)
{
    const char *path = find("FERRY_ASKED");
    char line[256];
    size_t n = strlen(name);
    int fd = path && n < sizeof line
                 ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
                 : -1;
    if (fd >= 0) {
        memcpy(line, name, n);
        line[n] = '\n';
        if (write(fd, line, n + 1) < 0) {
            _exit(3);
        }
        close(fd);
    }
    return find(name);
}

char *
getenv(const char *name)
{
    return ask(name);
}

char *
secure_getenv(const char *name)
{
    return ask(name);
}
