/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry.conf: "name = value" lines over the settings table. A bad file never
 * stops a run; it is said, and its valid lines are used.
 */
#include "config.h"

#include "common/whole.h"
#include "tools/tool.h"

#include "common/trust.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILE_LIMIT_BYTES = 1 << 20,
    COMPLAINTS = 3
};

static const char blanks[] = " \t\r\v\f";

/* Cuts blanks off both ends, in place. */
static char *
trimmed(char *text)
{
    text += strspn(text, blanks);
    size_t n = strlen(text);
    while (n && strchr(blanks, text[n - 1])) {
        n--;
    }
    text[n] = '\0';
    return text;
}

/* Reads one line; `why' gets its error. */
static bool
read_line(char *line, struct fy_settings *settings, struct fy_buffer *why)
{
    line[strcspn(line, "#")] = '\0';
    line = trimmed(line);
    if (!*line) {
        return true;
    }
    char *equals = strchr(line, '=');
    if (!equals) {
        fy_buffer_add(why, "expected 'name = value'");
        return false;
    }
    *equals = '\0';
    char *name = trimmed(line), *value = trimmed(equals + 1);
    char cause[128];
    struct fy_buffer cause_text;
    fy_buffer_start(&cause_text, cause, sizeof cause);
    if (fy_settings_set(settings, FY_SETTING_USER, name, value, &cause_text) ==
        0) {
        return true;
    }
    fy_buffer_printf(why, "'%s': %s", name, cause);
    return false;
}

void
fy_config_read(const char *path, struct fy_settings *settings)
{
    size_t bytes;
    int fd = *path ? fy_trusted_open(path) : FY_ERR_IO;
    char *text = fd >= 0 ? fy_read_open(fd, FILE_LIMIT_BYTES, &bytes) : NULL;
    if (fd == FY_ERR_INVALID) {
        fy_say("%s can be changed by another user or a group; it is left out",
               path);
        return;
    }
    if (!text) {
        if (*path && errno != ENOENT && errno != ENOTDIR) {
            fy_say("cannot read %s: %s; it is left out", path, strerror(errno));
        }
        return;
    }
    unsigned number = 0, bad = 0;
    if (strlen(text) != bytes) {
        fy_say("%s is not a text file; it is left out", path);
        free(text);
        return;
    }
    for (char *line = text, *next; line; line = next) {
        char message[256];
        struct fy_buffer why;
        fy_buffer_start(&why, message, sizeof message);
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        number++;
        if (!read_line(line, settings, &why) && ++bad <= COMPLAINTS) {
            fy_say("%s:%u: %s; the line is left out", path, number, message);
        }
    }
    free(text);
}
