/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client may not bring along: variables and names that make a program do
 * something else than its annotation says, and, where folders are exported (the
 * client may be anybody), programs and files that are not the system's. The
 * annotation speaks of argv; the loader, the C library and interpreters listen to
 * the environment before the program sees any of it. Refuses; nothing is taken
 * out, since the program would then be another one than on the client.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/sandbox/policy.h"
#include "proxy/storage/tools.h"

/* Of a shell that a tool may start, and of the C library. Some systems set them for
 * everybody, so only where the client may be anybody. */
static const char *const shells[] = {"ENV",      "BASH_FUNC_*",    "SHELLOPTS",
                                     "BASHOPTS", "GLIBC_TUNABLES", "NLSPATH",
                                     "TZDIR"};

/* Of what runs a tool that is a script; likewise. */
static const char *const interpreters[] = {
    "PERL5OPT", "PERL5LIB", "PERLLIB", "PERL5DB", "PYTHON*",
    "RUBYOPT",  "RUBYLIB",  "NODE_*",  "LUA_*",
};

/* Where the system's programs and their parts are; not /opt, where data may be
 * as well. */
static const char *const system_folders[] = {
    "/usr",   "/bin",    "/sbin",      "/lib",      "/lib32",
    "/lib64", "/libx32", "/nix/store", "/gnu/store"};

/* What the system's programs read beside it; the rest of /etc may be secret. */
static const char *const settings[] = {
    "/etc/ld.so.cache",   "/etc/passwd",          "/etc/group",
    "/etc/localtime",     "/etc/nsswitch.conf",   "/etc/locale.alias",
    "/etc/magic",         "/etc/magic.mime",      "/etc/mime.types",
    "/etc/gitconfig",     "/etc/gitattributes",   "/etc/fonts",
    "/etc/alternatives",  "/etc/ssl/openssl.cnf", "/etc/ImageMagick-6",
    "/etc/ImageMagick-7", "/etc/DIR_COLORS",      "/etc/terminfo",
    "/etc/timezone",
};

const char *const *
fy_refuse_settings(size_t *out_n)
{
    *out_n = sizeof settings / sizeof settings[0];
    return settings;
}

int
fy_refuse_environment(const struct fy_stage_spec *spec, bool limited,
                      unsigned *out_reason, struct fy_buffer *why)
{
    char name[80];
    bool is_script = memchr(spec->tool.identity.at, '+', spec->tool.identity.n);
    for (uint32_t i = 0; i < spec->envc; i++) {
        const char *entry = spec->env[i].at;
        const char *value = memchr(entry, '=', spec->env[i].n);
        if (!value || value == entry) {
            /* Programs differ in what they take it for. */
            return fy_refuse(out_reason, FY_STAGE_OTHER_TOOL, why,
                             "a malformed variable", NULL, NULL);
        }
        /* gettext() makes a path of it; a catalogue's texts are formats. */
        bool leads_away =
            strncmp(entry, "LANGUAGE=", 9) == 0 && strchr(value, '/');
        if (value[1] && (leads_away || fy_loads_code(entry) ||
                         (limited && fy_variable_is_listed(
                                         entry, shells,
                                         sizeof shells / sizeof shells[0])) ||
                         (limited && is_script &&
                          fy_variable_is_listed(entry, interpreters,
                                                sizeof interpreters /
                                                    sizeof interpreters[0])))) {
            (void)snprintf(name, sizeof name, "%.*s", (int)(value - entry),
                           entry);
            return fy_refuse(out_reason, FY_STAGE_OTHER_TOOL, why, name,
                             " may make the program another one there", NULL);
        }
    }
    return 0;
}

/*
 * Many programs in one file (busybox, git) choose by their own name: the one
 * that the annotation was chosen by.
 */
int
fy_refuse_name(const struct fy_stage_spec *spec, unsigned *out_reason,
               struct fy_buffer *why)
{
    const char *path = fy_path_name(spec->tool.path.at);
    const char *name = spec->argc ? fy_path_name(spec->argv[0].at) : "";
    return strcmp(path, name) == 0
               ? 0
               : fy_refuse(out_reason, FY_STAGE_NOT_PARSED, why, path,
                           " is started by another name: ", name);
}

static bool
is_system_path(const char *path)
{
    for (size_t i = 0; i < sizeof system_folders / sizeof system_folders[0];
         i++) {
        if (fy_path_is_beneath(path, system_folders[i])) {
            return true;
        }
    }
    return false;
}

bool
fy_refuse_program(int fd)
{
    char link[40], path[PATH_MAX];
    struct stat about;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || fstat(fd, &about) != 0) {
        return false;
    }
    path[n] = '\0';
    return is_system_path(path) && about.st_uid == 0 &&
           !(about.st_mode & (S_IWGRP | S_IWOTH));
}

bool
fy_refuse_mount(const char *mount)
{
    size_t n = strlen(mount);
    if (n < 2 || strstr(mount, "//") || strstr(mount, "/./") ||
        strstr(mount, "/../") || is_system_path(mount) ||
        fy_path_is_beneath(mount, "/etc")) {
        return false;
    }
    for (size_t i = 0; i < sizeof system_folders / sizeof system_folders[0];
         i++) {
        if (fy_path_is_beneath(system_folders[i], mount)) {
            return false;
        }
    }
    return true;
}

static bool
is_apart(const char *search, const struct fy_seen *seen, unsigned nseen)
{
    char folder[PATH_MAX], beneath[PATH_MAX];
    size_t n;
    for (bool more = true; more; search += n + 1) {
        n = strcspn(search, ":");
        more = search[n] != '\0';
        (void)snprintf(folder, sizeof folder, "%.*s", (int)n, search);
        if (folder[0] != '/' || n >= sizeof folder) {
            return false;
        }
        for (unsigned i = 0; i < nseen; i++) {
            if (fy_client_relative(seen[i].mount, folder, beneath,
                                   sizeof beneath)) {
                return false;
            }
        }
    }
    return true;
}

bool
fy_refuse_search(const struct fy_stage_spec *spec, const struct fy_seen *seen,
                 unsigned nseen)
{
    static const char name[] = "PATH=";
    for (uint32_t i = 0; i < spec->envc; i++) {
        const char *entry = spec->env[i].at;
        if (strncmp(entry, name, sizeof name - 1) == 0 &&
            !is_apart(entry + sizeof name - 1, seen, nseen)) {
            return false;
        }
    }
    return true;
}

char *
fy_refuse_shorten(const char *search)
{
    /* An empty one would name the working folder. */
    static const char start[] = "PATH=/usr/bin:/bin";
    char folder[PATH_MAX];
    char *entry = malloc(sizeof start + 1 + strlen(search)), *to = entry;
    size_t n = 0;
    bool more = entry;
    if (entry) {
        strcpy(entry, start);
        to = entry + 5;
    }
    for (; more; search += n + 1) {
        n = strcspn(search, ":");
        more = search[n] != '\0';
        (void)snprintf(folder, sizeof folder, "%.*s/", (int)n, search);
        if (n < sizeof folder - 1 && is_system_path(folder) &&
            !strstr(folder, "/../")) {
            to += sprintf(to, "%s%.*s", to == entry + 5 ? "" : ":", (int)n,
                          search);
        }
    }
    return entry;
}

static bool
is_in_home(const char *path, const char *home)
{
    return *home == '/' && home[strspn(home, "/")] &&
           fy_path_is_beneath(path, home);
}

int
fy_refuse_open(const char *path, const char *home)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    if (!is_in_home(path, home)) {
        return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    }
    int folder = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return -1;
    }
    how.resolve |= RESOLVE_BENEATH;
    size_t n = strlen(home);
    /* A slash at the end of HOME is not in `path'. */
    while (home[n - 1] == '/') {
        n--;
    }
    path += n;
    path += strspn(path, "/");
    int fd =
        (int)syscall(SYS_openat2, folder, *path ? path : ".", &how, sizeof how);
    int cause = errno;
    close(folder);
    errno = cause;
    return fd;
}

enum fy_refuse_config
fy_refuse_config(const char *path, const char *home)
{
    if (is_system_path(path) || is_in_home(path, home)) {
        return FY_STRICT_COMPARED;
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (fy_path_is_beneath(path, settings[i])) {
            return FY_STRICT_COMPARED;
        }
    }
    return strstr(path, "/.") && strncmp(path, "/etc/", 5) != 0 &&
                   strncmp(path, "/dev/", 5) != 0 &&
                   strncmp(path, "/proc/", 6) != 0 &&
                   strncmp(path, "/sys/", 5) != 0
               ? FY_STRICT_MISSING
               : FY_STRICT_NOT;
}

/* A program that does more on a terminal (git's pager runs what PAGER says). */
int
fy_refuse_terminal(const struct fy_stage_spec *spec,
                   const struct fy_invocation *invocation, unsigned *out_reason,
                   struct fy_buffer *why)
{
    bool has = spec->in.kind == FY_STREAM_PTY ||
               spec->out.kind == FY_STREAM_PTY ||
               spec->err.kind == FY_STREAM_PTY;
    return has && fy_invocation_is(invocation, FY_TRAIT_TERMINAL)
               ? fy_refuse(out_reason, FY_STAGE_ODD_STREAM, why,
                           invocation->command, " depends on its terminal",
                           NULL)
               : 0;
}
