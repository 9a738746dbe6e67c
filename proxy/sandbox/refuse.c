/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refuses variables and names that make a program do something else than its annotation
 * says. The annotation speaks of argv; the loader, the C library and interpreters listen
 * to the environment before the program sees any of it. Nothing is taken out, since the
 * program would then be another one than on the client.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/sandbox/policy.h"
#include "proxy/storage/tools.h"

/* Where the system's programs and their parts are; not /opt, where data may be
 * as well. */
static const char *const system_folders[] = {
    "/usr",   "/bin",    "/sbin",      "/lib",      "/lib32",
    "/lib64", "/libx32", "/nix/store", "/gnu/store"};

int
fy_refuse_environment(const struct fy_stage_spec *spec, unsigned *out_reason,
                      struct fy_buffer *why)
{
    char name[80];
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
        if (value[1] && (leads_away || fy_loads_code(entry))) {
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
