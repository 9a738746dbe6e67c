/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of ferry: one line at a time, and never a lost write.
 */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/plain.h"
#include "tools/tool.h"

void
fy_say(const char *format, ...)
{
    /* One write, so that lines of several processes do not mix. */
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (n < 0) {
        return;
    }
    for (char *c = line; (c = strchr(c, '\n'));) {
        *c = ' ';
    }
    fy_plain(line, "");
    (void)fprintf(stderr, "ferry: %s\n", line);
}

int
fy_usage_error(const char *subcommand)
{
    (void)fprintf(stderr, "Try 'ferry %s%s--help' for more information.\n",
                  subcommand, *subcommand ? " " : "");
    return FY_EXIT_USAGE;
}

int
fy_finish_output(int status)
{
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fclose(stdout) != 0 || failed) {
        fy_say("cannot write the output: %s", strerror(errno ? errno : EIO));
        return FY_EXIT_FAILURE;
    }
    return status;
}
