/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the options of `ferry mount' by one table: those of mount(8), those
 * that people know from sshfs, ferry's own. Options of ssh begin with a
 * capital and are passed on to it.
 */
#include "config.h"

#include "tools/mount/mount.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    NOTHING, /* of fstab and mount(8), or always true of a mount of ferry */
    KERNEL,  /* passed on to mount(2) */
    YES,     /* the flag `at' is set */
    NO,      /* it is not */
    SECONDS, /* `at' is their number, `bytes' of units in one */
    TEXT,    /* of `bytes', at `at' */
    IDMAP,
    COMPRESSION,
    NEVER, /* `text' says why */
};

#define AT(field) .at = offsetof(struct fy_mount_request, field)
#define TEXT_AT(field) \
    AT(field), .bytes = sizeof(((struct fy_mount_request *)NULL)->field)

static const char told[] =
    "nothing has to be forgotten: the storage tells of each change";
static const char as_there[] = "files are shown as the storage has them";

static const struct row {
    const char *name;
    enum kind kind;
    size_t at, bytes;
    const char *text;
} rows[] = {
    {"defaults", .kind = NOTHING},
    {"rw", .kind = NO, AT(read_only)},
    {"ro", .kind = YES, AT(read_only)},
    {"auto", .kind = NOTHING},
    {"noauto", .kind = NOTHING},
    {"user", .kind = NOTHING},
    {"users", .kind = NOTHING},
    {"nouser", .kind = NOTHING},
    {"owner", .kind = NOTHING},
    {"group", .kind = NOTHING},
    {"nofail", .kind = NOTHING},
    {"_netdev", .kind = NOTHING},
    {"comment", .kind = NOTHING},
    {"relatime", .kind = NOTHING},
    {"suid", .kind = YES, AT(devices)},
    {"dev", .kind = YES, AT(devices)},
    {"nosuid", .kind = KERNEL},
    {"nodev", .kind = KERNEL},
    {"exec", .kind = KERNEL},
    {"noexec", .kind = KERNEL},
    {"atime", .kind = KERNEL},
    {"noatime", .kind = KERNEL},
    {"nodiratime", .kind = KERNEL},
    {"allow_other", .kind = YES, AT(allow_other)},
    {"default_permissions", .kind = NOTHING},
    {"nonempty", .kind = YES, AT(nonempty)},
    {"strict", .kind = YES, AT(strict)},
    {"async", .kind = YES, AT(async)},
    {"sync", .kind = NO, AT(async)},
    {"ac", .kind = SECONDS, AT(ac_ms), 1000},
    {"soft", .kind = SECONDS, AT(soft_seconds), 1},
    {"hard", .kind = NOTHING},
    {"reconnect", .kind = NOTHING},
    {"idmap", .kind = IDMAP},
    {"compression", .kind = COMPRESSION},
    {"port", .kind = TEXT, TEXT_AT(place.port)},
    {"ssh_command", .kind = TEXT, TEXT_AT(place.command)},
    {"ferry", .kind = TEXT, TEXT_AT(place.ferry)},
    {"uid", .kind = NEVER,
     .text = "idmap=user shows your files there as yours"},
    {"gid", .kind = NEVER,
     .text = "idmap=user shows your files there as yours"},
    {"umask", .kind = NEVER, .text = as_there},
    {"follow_symlinks", .kind = NEVER, .text = as_there},
    {"transform_symlinks", .kind = NEVER, .text = as_there},
    {"password_stdin", .kind = NEVER,
     .text = "ssh is never asked for a password; use a key"},
    {"cache", .kind = NEVER, .text = told},
    {"dir_cache", .kind = NEVER, .text = told},
    {"kernel_cache", .kind = NEVER, .text = told},
    {"auto_cache", .kind = NEVER, .text = told},
    {"cache_timeout", .kind = NEVER, .text = told},
    {"dcache_timeout", .kind = NEVER, .text = told},
    {"entry_timeout", .kind = NEVER, .text = told},
    {"attr_timeout", .kind = NEVER, .text = told},
    {NULL},
};

/* Files that ssh would look for in its working folder, which is not the user's. */
static const char *const files[] = {"IdentityFile", "CertificateFile",
                                    "UserKnownHostsFile", NULL};

static int
wrong(struct fy_buffer *why, const char *option, const char *text)
{
    fy_buffer_printf(why, "option '%s'%s", option, text);
    return FY_ERR_INVALID;
}

static int
add_ssh(const char *option, struct fy_place *place, struct fy_buffer *why)
{
    char *to = place->options[place->noptions];
    const size_t room = sizeof place->options[0];
    const char *value = strchr(option, '=') + 1;
    char real[PATH_MAX];
    bool file = false;
    if (place->noptions == sizeof place->options / room) {
        return wrong(why, option,
                     ": more options of ssh than there is room for; "
                     "put some into ~/.ssh/config");
    }
    for (size_t i = 0; files[i]; i++) {
        size_t n = strlen(files[i]);
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): of n bytes */
        bool ends = strncasecmp(option, files[i], n) == 0 && option[n] == '=';
        file = file || ends;
    }
    file = file && *value && !strchr("/~%", *value) && realpath(value, real);
    int n = snprintf(to, room, "%.*s%s", (int)(value - option), option,
                     file ? real : value);
    if (n < 0 || (size_t)n >= room) {
        return wrong(why, option, " is too long");
    }
    place->noptions++;
    return 0;
}

static int
add_kernel(const char *option, struct fy_mount_request *out,
           struct fy_buffer *why)
{
    size_t used = strlen(out->kernel);
    int n = snprintf(out->kernel + used, sizeof out->kernel - used, "%s%s",
                     used ? "," : "", option);
    return n < 0 || (size_t)n >= sizeof out->kernel - used
               ? wrong(why, option, ": too many options")
               : 0;
}

static int
take_seconds(const struct row *row, const char *option, const char *value,
             unsigned *to, struct fy_buffer *why)
{
    char *end;
    double seconds = value ? strtod(value, &end) : 0;
    if (!value || end == value || *end || !(seconds >= 0) || seconds > 1e6) {
        return wrong(why, option, ": expected a number of seconds");
    }
    double units = seconds * (double)row->bytes;
    *to = units > 0 && units < 1 ? 1 : (unsigned)units;
    return 0;
}

static int
take_row(const struct row *row, const char *option,
         struct fy_mount_request *out, struct fy_buffer *why)
{
    const char *value = strchr(option, '=');
    char *at = (char *)out + row->at;
    value += value ? 1 : 0;
    switch (row->kind) {
    case NOTHING:
        return 0;
    case KERNEL:
        return add_kernel(option, out, why);
    case YES:
    case NO:
        *(bool *)at = row->kind == YES;
        return value ? wrong(why, option, ": expected no value") : 0;
    case SECONDS:
        return take_seconds(row, option, value, (unsigned *)at, why);
    case TEXT:
        if (!value || !*value || strlen(value) >= row->bytes) {
            return wrong(why, option, ": a value that is missing or too long");
        }
        strcpy(at, value);
        return 0;
    case IDMAP:
        out->numbers = value && strcmp(value, "none") == 0;
        return !value || (!out->numbers && strcmp(value, "user") != 0)
                   ? wrong(why, option, ": expected idmap=user or idmap=none")
                   : 0;
    case COMPRESSION:
        if (!value || (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)) {
            return wrong(why, option, ": expected yes or no");
        }
        return add_ssh(*value == 'y' ? "Compression=yes" : "Compression=no",
                       &out->place, why);
    case NEVER:
        break;
    }
    (void)wrong(why, option, " is not supported: ");
    fy_buffer_add(why, row->text);
    return FY_ERR_INVALID;
}

static int
take(const char *option, struct fy_mount_request *out, struct fy_buffer *why)
{
    size_t n = strcspn(option, "=");
    if (!*option || strncmp(option, "x-", 2) == 0 ||
        strncmp(option, "X-", 2) == 0) {
        return 0; /* for others: systemd, desktops */
    }
    if (option[0] >= 'A' && option[0] <= 'Z' && option[n]) {
        return add_ssh(option, &out->place, why);
    }
    for (const struct row *row = rows; row->name; row++) {
        if (strlen(row->name) == n && memcmp(row->name, option, n) == 0) {
            return take_row(row, option, out, why);
        }
    }
    return wrong(why, option, " is unknown");
}

int
fy_mount_words(const char *list, struct fy_mount_request *out,
               struct fy_buffer *why)
{
    char option[512];
    size_t used = 0;
    for (;; list++) {
        if (*list != ',' && *list) {
            list += *list == '\\' && list[1];
            if (used + 1 == sizeof option) {
                option[32] = '\0';
                return wrong(why, option, "... is too long");
            }
            option[used++] = *list;
            continue;
        }
        option[used] = '\0';
        used = 0;
        int status = take(option, out, why);
        if (status || !*list) {
            return status;
        }
    }
}
