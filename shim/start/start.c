/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in every process at start: finds FERRY_SETTINGS, sets the mode, hides
 * ferry's own variables from the program (exec gives them to the next one),
 * undoes changes that exporting names has made. Everything else waits for the
 * first call that needs it. Linked with -z initfirst, so that it runs before
 * the constructors of other libraries, which may call ferry or look at the
 * environment.
 */
#include "config.h"

#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "common/debug.h"
#include "shim/arch/x86_64/valgrind.h"
#include "shim/calls/object.h"
#include "shim/calls/shim.h"
#include "shim/programs/exec.h"

#define VARIABLE "FERRY_SETTINGS="
#define PRELOAD  "LD_PRELOAD="

uint8_t fy_mode;
bool fy_valgrind;
unsigned fy_startup_objects;
uintptr_t fy_start_phdr;
unsigned long fy_start_phnum;

/*
 * Copies: programs overwrite their environment (setproctitle). Small enough to
 * stay, with the constructor's variables, on the page that relocation has already
 * made ours (this file is linked first).
 */
static char text_room[1400];
const char *fy_settings_kept = "";
struct fy_hidden_environment fy_hidden;

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

static size_t
length(const char *string)
{
    size_t bytes = 0;
    while (string[bytes]) {
        bytes++;
    }
    return bytes;
}

static char *
copy(char *to, const char *from, size_t bytes)
{
    while (bytes--) {
        *to++ = *from++;
    }
    *to++ = '\0';
    return to;
}

/* One entry of LD_PRELOAD. */
struct part {
    char *start;
    size_t bytes; /* 0: there is none */
};

static bool
is_ours(const struct part *part)
{
    const char *name = part->start + part->bytes;
    while (name > part->start && name[-1] != '/') {
        name--;
    }
    size_t bytes = (size_t)(part->start + part->bytes - name);
    return starts_with(name, "ferry-preload-") ||
           (bytes == sizeof "libferry.so" - 1 &&
            starts_with(name, "libferry.so"));
}

/* Our own entry in the value of LD_PRELOAD. */
static struct part
find_ours(char *value)
{
    struct part part = {value, 0};
    while (*part.start) {
        part.bytes = 0;
        while (part.start[part.bytes] && part.start[part.bytes] != ':' &&
               part.start[part.bytes] != ' ') {
            part.bytes++;
        }
        if (part.bytes && is_ours(&part)) {
            return part;
        }
        part.start += part.bytes + (part.start[part.bytes] != '\0');
    }
    part.bytes = 0;
    return part;
}

/*
 * Keeps both texts: the settings, and LD_PRELOAD with our own entry alone. False
 * without memory; then nothing was changed.
 */
static bool
keep(const char *settings, const struct part *ours)
{
    size_t settings_bytes = length(settings);
    size_t preload_bytes = ours->bytes ? sizeof PRELOAD - 1 + ours->bytes : 0;
    size_t bytes = settings_bytes + preload_bytes + 2;
    char *room = text_room;
    if (bytes > sizeof text_room) {
        room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) {
            return false;
        }
    }
    fy_settings_kept = room + sizeof VARIABLE - 1;
    char *next = copy(room, settings, settings_bytes);
    if (preload_bytes) {
        copy(next, PRELOAD, sizeof PRELOAD - 1);
        copy(next + sizeof PRELOAD - 1, ours->start, ours->bytes);
        fy_hidden = (struct fy_hidden_environment){room, next, settings_bytes,
                                                   preload_bytes};
    }
    return true;
}

/* Takes our entry out of the value of LD_PRELOAD; true when it was all. */
static bool
take_out(const char *value, const struct part *ours)
{
    char *to = ours->start, *from = to + ours->bytes;
    if (!*from && to == value) {
        return true;
    }
    if (*from) {
        from++; /* the separator after it, or the one before */
    } else {
        to--;
    }
    while ((*to++ = *from++) != '\0') {
        continue;
    }
    while (to < from) {
        *to++ = '\0'; /* as blank() */
    }
    return false;
}

/* For who looks into /proc/PID/environ, which shows the bytes themselves. */
static void
blank(char *entry)
{
    while (*entry) {
        *entry++ = '\0';
    }
}

static void
remove_entry(char **entry)
{
    blank(*entry);
    do {
        entry[0] = entry[1];
    } while (*entry++);
}

/*
 * Returns true if the kernel says that this is no setuid program or the like,
 * in which another user's wishes do not count. The auxiliary vector follows
 * the environment; getauxval would have to be bound. False if it is not found:
 * such a program, for which the dynamic linker has removed variables. Notes
 * the program's headers.
 */
static bool
is_plain(char **environment_end)
{
    bool plain = false;
    for (const ElfW(auxv_t) *at = (void *)(environment_end + 1);
         at->a_type != AT_NULL; at++) {
        switch (at->a_type) {
        case AT_SECURE:
            plain = at->a_un.a_val == 0;
            break;
        case AT_PHDR:
            fy_start_phdr = at->a_un.a_val;
            break;
        case AT_PHNUM:
            fy_start_phnum = at->a_un.a_val;
            break;
        default:
            break;
        }
    }
    return plain;
}

/* Behind "KEY=" in the settings, or NULL. */
static const char *
find_value(const char *key)
{
    size_t bytes = length(key);
    for (const char *at = fy_settings_kept; *at; at++) {
        if (starts_with(at, key) && at[bytes] == '=') {
            return at + bytes + 1;
        }
        while (*at && *at != ';') {
            at++;
        }
        if (!*at) {
            break;
        }
    }
    return NULL;
}

static uint8_t
parse_mode(void)
{
    const char *value = find_value("mode");
    return value && value[0] >= '0' && value[0] <= '4' &&
                   (value[1] == ';' || value[1] == '\0')
               ? (uint8_t)(value[0] - '0')
               : 0;
}

static void
start_debug(void)
{
    const size_t bytes = 4096;
    const char *value = find_value("debug");
    uint32_t mask = 0;
    for (; value && *value >= '0' && *value <= '9'; value++) {
        mask = mask * 10 + (uint32_t)(*value - '0');
    }
    if (!mask) {
        return;
    }
    char *file = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file != MAP_FAILED && fy_settings_value("debug_file", file, bytes)) {
        fy_debug_start(mask, file);
    }
}

static void __attribute__((constructor))
start(int argc, char **argv, char **envp)
{
    (void)argc;
    (void)argv;
    char **settings = NULL, **preload = NULL, **end = envp;
    struct part ours = {NULL, 0};
    while (*end) {
        end++;
    }
    bool plain = is_plain(end);
    fy_valgrind = fy_runs_on_valgrind();
    fy_imports_start();
    if (fy_image.model) {
        unsigned ignored;
        fy_startup_objects = fy_patch_start();
        (void)fy_object_startup(&ignored);
    }
    for (char **at = envp; at < end; at++) {
        if (!settings && starts_with(*at, VARIABLE)) {
            settings = at;
        } else if (starts_with(*at, PRELOAD)) {
            preload = at; /* the last one counts */
        }
    }
    if (!settings || !plain) {
        return;
    }
    if (preload) {
        ours = find_ours(*preload + sizeof PRELOAD - 1);
    }
    if (!keep(*settings, &ours)) {
        return;
    }
    start_debug();
    if (fy_image.model) {
        fy_mode = parse_mode();
    }
    if (ours.bytes) {
        bool all = take_out(*preload + sizeof PRELOAD - 1, &ours);
        char **first = preload < settings ? preload : settings;
        char **second = preload < settings ? settings : preload;
        if (all || second == settings) {
            remove_entry(second);
        }
        if (all || first == settings) {
            remove_entry(first);
        }
    }
}
