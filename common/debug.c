/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the debug log, see the header. Runs in host programs: no allocation, no
 * lock, no time zone.
 */
#include "config.h"

#include "common/debug.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/lines.h"
#include "common/plain.h"

enum {
    LINE_BYTES = 1024 /* a longer one is cut and ends in "..." */
};

/* Beside what every process of a run writes at its start: no page more. */
uint32_t fy_debug_mask __attribute__((section(".data")));
static const char *file;

/* Texts, not pointers, which the dynamic linker would relocate at every start. */
static const char words[FY_ROOM_COUNT][9] = {
    "calls",  "programs", "engine", "decide",  "plan",    "execute", "memory",
    "device", "client",   "wire",   "storage", "sandbox", "server",  "command",
};

const char *
fy_debug_word(enum fy_room room)
{
    return words[room];
}

const char *
fy_debug_file(void)
{
    return file;
}

void
fy_debug_start(uint32_t mask, const char *path)
{
    file = path;
    __atomic_store_n(&fy_debug_mask, mask, __ATOMIC_RELAXED);
}

void
fy_debug_line(enum fy_room room, const char *format, ...)
{
    static const char cut[] = "...";
    char line[LINE_BYTES + sizeof cut];
    int saved = errno;
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    unsigned day = (unsigned)(now.tv_sec % 86400);
    int n = snprintf(line, LINE_BYTES,
                     "%02u:%02u:%02u.%06ld %d %d %s: ", day / 3600,
                     day / 60 % 60, day % 60, now.tv_nsec / 1000, (int)getpid(),
                     (int)gettid(), words[room]);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + n, (size_t)(LINE_BYTES - n), format, arguments);
    va_end(arguments);
    if (more >= LINE_BYTES - n) {
        strcpy(line + LINE_BYTES - 1, cut);
    }
    fy_plain(line, "");
    size_t bytes = strlen(line);
    line[bytes++] = '\n';
    (void)fy_lines_append(file, line, bytes);
    errno = saved;
}
