/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings that may be limited to hosts: "tools = host nas box". The field is a text, a line
 * for each host, since hosts are known only when mounts are. No allocation, no locale.
 */
#include "config.h"

#include "common/settings.h"

#include <string.h>

static const char *const tools_words[] = {"carry", "same", "host"};

enum {
    TOOLS_WORDS = sizeof tools_words / sizeof *tools_words
};

/* The number of the word at `text', which ends at a blank or a line's end; TOOLS_WORDS: none. */
static unsigned
find_tools(const char *text)
{
    unsigned i = 0;
    while (i < TOOLS_WORDS &&
           (strcspn(text, " \t\n") != strlen(tools_words[i]) ||
            strncmp(text, tools_words[i], strlen(tools_words[i])) != 0)) {
        i++;
    }
    return i;
}

/* Adds "VALUE HOST" for each of the hosts behind the first word, "VALUE" if there is none. */
static int
add_hosts(const char *value, char *lines, struct fy_buffer *why)
{
    static const char blanks[] = " \t";
    char text[FY_SETTINGS_HOSTS_BYTES];
    struct fy_buffer all;
    size_t word = strcspn(value, blanks);
    const char *at = value + word;
    fy_buffer_start(&all, text, sizeof text);
    fy_buffer_add(&all, lines);
    do {
        at += strspn(at, blanks);
        size_t n = strcspn(at, blanks);
        fy_buffer_add_bytes(&all, value, word);
        fy_buffer_add(&all, n ? " " : "");
        fy_buffer_add_bytes(&all, at, n);
        fy_buffer_add_char(&all, '\n');
        at += n;
    } while (at[strspn(at, blanks)]);
    if (all.overflowed) {
        fy_buffer_add(why, "the hosts are too many");
        return FY_ERR_INVALID;
    }
    memcpy(lines, text, all.used + 1);
    return 0;
}

/* The line for `host', see settings.h; NULL: none. */
static const char *
find_host(const char *lines, const char *host)
{
    const char *found = NULL, *general = NULL;
    size_t n = strlen(host);
    for (size_t length; *lines; lines += length + (lines[length] != '\0')) {
        length = strcspn(lines, "\n");
        size_t word = strcspn(lines, " \n");
        if (word == length) {
            general = lines;
        } else if (length - word - 1 == n &&
                   strncmp(lines + word + 1, host, n) == 0) {
            found = lines;
        }
    }
    return found ? found : general;
}

int
fy_tools_parse(const char *value, void *field, struct fy_buffer *why)
{
    if (*value && find_tools(value) == TOOLS_WORDS) {
        fy_buffer_add(why, "expected carry, same or host, and perhaps hosts");
        return FY_ERR_INVALID;
    }
    *(char *)field = *value ? *(char *)field : '\0';
    return *value ? add_hosts(value, field, why) : 0;
}

enum fy_tools_setting
fy_tools_setting(const char *lines, const char *host)
{
    const char *line = find_host(lines, host);
    return line ? (enum fy_tools_setting)find_tools(line) : FY_TOOLS_CARRY;
}

/* Reads the size that a text begins with. */
static int
read_store(const char *text, uint64_t *out)
{
    char size[32];
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, size, sizeof size);
    fy_buffer_add_bytes(&buffer, text, strcspn(text, " \t\n"));
    return buffer.overflowed ? FY_ERR_INVALID : fy_parse_size(size, out);
}

int
fy_store_parse(const char *value, void *field, struct fy_buffer *why)
{
    uint64_t bytes;
    if (*value && read_store(value, &bytes)) {
        fy_buffer_add(why, "expected a size such as 512MiB, and perhaps hosts");
        return FY_ERR_INVALID;
    }
    *(char *)field = *value ? *(char *)field : '\0';
    return *value ? add_hosts(value, field, why) : 0;
}

uint64_t
fy_store_setting(const char *lines, const char *host)
{
    uint64_t bytes;
    const char *line = find_host(lines, host);
    return line && !read_store(line, &bytes) ? bytes : FY_STORE_BYTES;
}
