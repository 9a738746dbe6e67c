/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs in every process at start: finds FERRY_SETTINGS, sets the mode,
 * undoes what merely exporting names has changed. Everything else waits for
 * the first call that needs it. Linked with -z initfirst, so that it runs
 * before the constructors of other libraries, which may call us.
 */
#include "config.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "shim/object.h"
#include "shim/shim.h"

#define VARIABLE "FERRY_SETTINGS="

uint8_t fy_mode;
unsigned fy_startup_objects;

/*
 * A copy: programs overwrite their environment (setproctitle). Small enough to
 * stay, with what the constructor sets, on the page that relocation has already
 * made ours (this file is linked first).
 */
static char text_room[1400];
static const char *text = "";

/*
 * The constructor calls nothing in libc that it can do without: each function
 * would be looked up and bound, in every process.
 */
static bool
starts_with(const char *string, const char *prefix)
{
    while (*prefix) {
        if (*string++ != *prefix++) {
            return false;
        }
    }
    return true;
}

static void
keep_text(const char *value)
{
    size_t bytes = 0;
    char *room = text_room;
    while (value[bytes]) {
        bytes++;
    }
    if (++bytes > sizeof text_room) {
        room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) {
            return;
        }
    }
    while (bytes--) {
        room[bytes] = value[bytes];
    }
    text = room;
}

static uint8_t
parse_mode(const char *value)
{
    while (*value) {
        if (starts_with(value, "mode=")) {
            return value[5] >= '0' && value[5] <= '4' &&
                           (value[6] == ';' || value[6] == '\0')
                       ? (uint8_t)(value[5] - '0')
                       : 0;
        }
        while (*value && *value++ != ';') {
            continue;
        }
    }
    return 0;
}

static void __attribute__((constructor))
start(int argc, char **argv, char **envp)
{
    (void)argc;
    (void)argv;
    if (!fy_image.model) {
        return;
    }
    fy_startup_objects = fy_patch_start();
    for (char **entry = envp; *entry; entry++) {
        if (!starts_with(*entry, VARIABLE)) {
            continue;
        }
        if (getauxval(AT_SECURE)) {
            break; /* setuid and the like: another's wishes do not count */
        }
        keep_text(*entry + sizeof VARIABLE - 1);
        fy_mode = parse_mode(text);
        break;
    }
}

const char *
fy_settings_text(void)
{
    return text;
}

static int
hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 'a' - 'A';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool
fy_settings_value(const char *key, char *out, size_t capacity)
{
    size_t key_bytes = strlen(key);
    const char *at = text;
    while (strncmp(at, key, key_bytes) != 0 || at[key_bytes] != '=') {
        at = strchr(at, ';');
        if (!at) {
            return false;
        }
        at++;
    }
    size_t used = 0;
    for (at += key_bytes + 1; *at && *at != ';'; at++) {
        char c = *at;
        if (c == '%' && hex(at[1]) >= 0 && hex(at[2]) >= 0) {
            c = (char)(hex(at[1]) * 16 + hex(at[2]));
            at += 2;
        }
        if (used + 1 >= capacity) {
            return false;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return used > 0;
}
