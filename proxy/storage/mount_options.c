/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the options of a mount say, by a table of the mount's kind. An option that the
 * table does not have means nothing here.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/storage/mounts.h"

bool
fy_option_is(const char *option, const char *name)
{
    size_t n = strcspn(option, "=");
    return strlen(name) == n && memcmp(name, option, n) == 0;
}

/* One of the words of a row, or zero where "0" is the first of them. */
static bool
is_value(const char *value, const char *words)
{
    char *end;
    if (words[0] == '0' && strtod(value, &end) == 0 && end != value && !*end) {
        return true;
    }
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (strlen(value) == n && memcmp(value, words, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Of what is said more than once, the longest counts. */
static void
take_seconds(const char *value, unsigned timers, struct fy_mount_said *said)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds >= 0)) {
        said->facts |= FY_SAID_BAD;
        return;
    }
    for (unsigned i = 0; i < FY_MOUNT_TIMERS; i++) {
        if ((timers >> i & 1) &&
            (!(said->timers >> i & 1) || seconds > said->seconds[i])) {
            said->seconds[i] = seconds;
            said->timers |= 1U << i;
        }
    }
}

bool
fy_mount_option(const struct fy_mount_option *rows, const char *option,
                struct fy_mount_said *said)
{
    const char *value = option + strcspn(option, "=");
    while (rows->name && !fy_option_is(option, rows->name)) {
        rows++;
    }
    if (!rows->name) {
        return false;
    }
    value += *value == '=';
    if ((rows->only && !is_value(value, rows->only)) ||
        (rows->never && is_value(value, rows->never))) {
        return true;
    }
    said->traits = (said->traits | rows->traits) & ~rows->takes;
    said->facts |= rows->facts;
    if (rows->timers) {
        take_seconds(value, rows->timers, said);
    }
    if (rows->bytes > 0) {
        said->facts |= strlen(value) < rows->bytes ? 0 : FY_SAID_BAD;
        (void)strncat(memset((char *)&said->place + rows->at, 0, rows->bytes),
                      value, rows->bytes - 1);
    }
    return true;
}

void
fy_mount_options(const struct fy_mount_option *rows, const char *list,
                 void (*other)(const char *option, struct fy_mount_said *said),
                 struct fy_mount_said *said)
{
    char option[1024];
    size_t used = 0;
    for (;; list++) {
        if (*list == ',' || !*list) {
            option[used] = '\0';
            if (!fy_mount_option(rows, option, said) && other) {
                other(option, said);
            }
            used = 0;
            if (!*list) {
                return;
            }
            continue;
        }
        if (*list == '\\' && list[1]) {
            list++;
        }
        if (used + 1 == sizeof option) {
            said->facts |= FY_SAID_BAD;
            return;
        }
        option[used++] = *list;
    }
}

double
fy_mount_longest(const struct fy_mount_said *said, unsigned timers,
                 double least)
{
    for (unsigned i = 0; i < FY_MOUNT_TIMERS; i++) {
        if ((said->timers & timers) >> i & 1) {
            least = said->seconds[i] > least ? said->seconds[i] : least;
        }
    }
    return least;
}
