/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the decision log, see explain.h.
 */
#include "config.h"

#include "pager/base/explain.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/lines.h"

/* A word without a lock: a handler of the program may interrupt here. */
static unsigned lines;
static char lines_path[PATH_MAX]; /* empty: nothing is to be told */

void
fy_explain_to(const char *path)
{
    if (path && strlen(path) < sizeof lines_path) {
        strcpy(lines_path, path);
    }
}

bool
fy_explains(void)
{
    return lines_path[0] != '\0';
}

bool
fy_explain_is_full(void)
{
    return __atomic_load_n(&lines, __ATOMIC_RELAXED) >= FY_EXPLAIN_LINES;
}

bool
fy_explain_count(void)
{
    return !fy_explain_is_full() &&
           __atomic_fetch_add(&lines, 1, __ATOMIC_RELAXED) < FY_EXPLAIN_LINES;
}

void
fy_explain_write(const char *line, size_t bytes)
{
    (void)fy_lines_append(lines_path, line, bytes);
}

void
fy_explain_line(const char *text)
{
    char line[1024];
    int saved = errno;

    if (fy_explains() && fy_explain_count()) {
        int n =
            snprintf(line, sizeof line, "pid=%ld: %s\n", (long)getpid(), text);
        if (n > 0) {
            fy_explain_write(line, (size_t)n < sizeof line ? (size_t)n
                                                           : sizeof line - 1);
        }
    }
    errno = saved;
}
