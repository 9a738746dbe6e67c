/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a running sshfs reaches its host, from its command line in /proc, so that
 * a mount on another port or with a key of its own needs no configuration.
 * Believes only processes of this user and of root, and refuses a mount whose
 * process it cannot tell for certain: another port may be another machine.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proxy/mounts.h"

enum {
    CMDLINE_MAX_BYTES = 64 << 10
};

/* What one command line says. */
struct learned {
    struct fy_place place; /* port, options, config, command only */
    bool owners_differ, unlike, bad;
    const char *source, *point;
};

static bool
copy(char *to, size_t capacity, const char *text)
{
    size_t n = strlen(text);
    if (n >= capacity) {
        return false;
    }
    memcpy(to, text, n + 1);
    return true;
}

/* The value of "name=value", or NULL. */
static const char *
value_of(const char *option, const char *name)
{
    size_t n = strlen(name);
    return strncmp(option, name, n) == 0 && option[n] == '=' ? option + n + 1
                                                             : NULL;
}

static bool
is_among(const char *option, const char *const *names)
{
    size_t n = strcspn(option, "=");
    for (; *names; names++) {
        if (strlen(*names) == n && memcmp(*names, option, n) == 0) {
            return true;
        }
    }
    return false;
}

/* One of a comma-separated list. */
static void
learn_option(const char *option, struct learned *out)
{
    static const char *const unlike[] = {
        "follow_symlinks", "transform_symlinks", "modules",
        "subdir",          "directport",         "passive",
        "slave",           "sftp_server",        NULL};
    static const char *const owners[] = {"uid",     "gid",     "umask", "idmap",
                                         "uidfile", "gidfile", NULL};
    const char *value = strchr(option, '=');
    if (is_among(option, unlike)) {
        out->unlike = true;
    } else if (is_among(option, owners)) {
        out->owners_differ =
            out->owners_differ || strcmp(option, "idmap=none") != 0;
    } else if ((value = value_of(option, "port"))) {
        out->bad =
            out->bad || !copy(out->place.port, sizeof out->place.port, value);
    } else if ((value = value_of(option, "ssh_command"))) {
        out->bad = out->bad ||
                   !copy(out->place.command, sizeof out->place.command, value);
    } else if (option[0] >= 'A' && option[0] <= 'Z' && strchr(option, '=')) {
        /* Those of ssh are spelt like that and no others are. */
        value = value_of(option, "IdentityFile");
        if (value && *value != '/' && *value != '~' && *value != '%') {
            return; /* relative to a folder that nobody knows any more */
        }
        if (out->place.noptions ==
            sizeof out->place.options / sizeof out->place.options[0]) {
            out->bad = true;
            return;
        }
        out->bad = out->bad || !copy(out->place.options[out->place.noptions++],
                                     sizeof out->place.options[0], option);
    }
}

/* FUSE's lists: a backslash takes the next character as it is. */
static void
learn_list(const char *list, struct learned *out)
{
    char option[1024];
    size_t used = 0;
    for (;; list++) {
        if (*list == ',' || !*list) {
            option[used] = '\0';
            learn_option(option, out);
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
            out->bad = true;
            return;
        }
        option[used++] = *list;
    }
}

/* The value of "-pVALUE" or "-p VALUE"; *at moves on. */
static const char *
argument(const char **at, const char *end)
{
    if ((*at)[2]) {
        return *at + 2;
    }
    const char *next = *at + strlen(*at) + 1;
    if (next >= end) {
        return "";
    }
    *at = next;
    return next;
}

static void
learn_words(const char *at, const char *end, struct learned *out)
{
    at += strlen(at) + 1; /* argv[0] */
    bool options = true;
    for (; at < end; at += strlen(at) + 1) {
        if (options && strcmp(at, "--") == 0) {
            options = false;
        } else if (options && strncmp(at, "-o", 2) == 0) {
            learn_list(argument(&at, end), out);
        } else if (options && strncmp(at, "-p", 2) == 0) {
            out->bad = !copy(out->place.port, sizeof out->place.port,
                             argument(&at, end)) ||
                       out->bad;
        } else if (options && strncmp(at, "-F", 2) == 0) {
            const char *value = argument(&at, end);
            out->bad =
                out->bad ||
                (*value != '/' && *value != '~' &&
                 strcmp(value, "none") != 0) ||
                !copy(out->place.config, sizeof out->place.config, value);
        } else if (options && at[0] == '-' && at[1]) {
            continue; /* -f -s -C -d -1: nothing of where it goes */
        } else if (!out->source) {
            out->source = at;
        } else if (!out->point) {
            out->point = at;
        }
    }
}

/* sshfs was perhaps given a relative path, and has left its folder since. */
static bool
is_point(const char *given, const char *point)
{
    char plain[PATH_MAX];
    size_t n = given ? strlen(given) : 0;
    while (n > 1 && given[n - 1] == '/') {
        n--;
    }
    if (!n || n >= sizeof plain) {
        return false;
    }
    memcpy(plain, given, n);
    plain[n] = '\0';
    if (strcmp(plain, point) == 0) {
        return true;
    }
    const char *last = strrchr(plain, '/');
    last = last ? last + 1 : plain;
    /* Through a link, or relative: the same name is all that is left of it;
     * the source is compared as well. */
    const char *name = strrchr(point, '/') + 1;
    return strcmp(last, name) == 0 || strcmp(last, ".") == 0 ||
           strcmp(last, "..") == 0;
}

static bool
is_exact(const char *given, const char *point)
{
    size_t n = strlen(point);
    return strncmp(given, point, n) == 0 &&
           strspn(given + n, "/") == strlen(given + n);
}

/* The bytes of proc/PID/NAME, NUL-terminated; 0 when it cannot be read. */
static size_t
read_process(const char *proc, const char *pid, const char *name, char *out,
             size_t capacity, uid_t *owner)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s/%s", proc, pid, name);
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC)
                                              : -1;
    if (fd < 0) {
        return 0;
    }
    struct stat about;
    size_t used = 0;
    if (fstat(fd, &about) == 0) {
        *owner = about.st_uid;
        ssize_t got;
        while (used < capacity - 1 &&
               (got = read(fd, out + used, capacity - 1 - used)) > 0) {
            used += (size_t)got;
        }
    }
    close(fd);
    out[used] = '\0';
    return used;
}

/* What is found so far, and how well its mount point fits. */
struct search {
    struct learned best;
    unsigned found;
    bool exact;
};

static void
consider(const struct learned *learned, bool exact, struct search *search)
{
    if (search->found && search->exact && !exact) {
        return;
    }
    if (search->found && search->exact == exact) {
        /* Two that agree (sshfs runs in threads, never twice) are one. */
        struct fy_place a = learned->place, b = search->best.place;
        if (!fy_place_same_host(&a, &b) ||
            learned->owners_differ != search->best.owners_differ ||
            learned->unlike != search->best.unlike) {
            search->found++;
        }
        return;
    }
    search->best = *learned;
    search->found = 1;
    search->exact = exact;
}

/* One pass over the processes. `learned' and `cmdline' are only room. */
static void
look(const char *proc, const char *point, const char *source,
     struct learned *learned, char *cmdline, struct search *search)
{
    DIR *folder = opendir(proc);
    struct dirent *entry;
    memset(search, 0, sizeof *search);
    while (folder && (entry = readdir(folder))) {
        char comm[32];
        uid_t owner;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
            !read_process(proc, entry->d_name, "comm", comm, sizeof comm,
                          &owner) ||
            strcmp(comm, "sshfs\n") != 0 || (owner && owner != getuid())) {
            continue;
        }
        size_t n = read_process(proc, entry->d_name, "cmdline", cmdline,
                                CMDLINE_MAX_BYTES, &owner);
        if (!n || n == CMDLINE_MAX_BYTES - 1) {
            continue;
        }
        memset(learned, 0, sizeof *learned);
        learn_words(cmdline, cmdline + n, learned);
        if (learned->source && strcmp(learned->source, source) == 0 &&
            is_point(learned->point, point)) {
            consider(learned, is_exact(learned->point, point), search);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

bool
fy_sshfs_learn(const char *point, const char *source, const char *proc,
               struct fy_mount *mount)
{
    struct search *search = malloc(sizeof *search);
    struct learned *learned = malloc(sizeof *learned);
    char *cmdline = malloc(CMDLINE_MAX_BYTES);
    bool usable = false;
    if (!search || !learned || !cmdline) {
        goto free_all;
    }
    look(proc, point, source, learned, cmdline, search);
    for (unsigned again = 0; search->found > 1 && again < 3; again++) {
        /* One may be ending: unmounted just now. */
        const struct timespec pause = {0, 30000000};
        nanosleep(&pause, NULL);
        look(proc, point, source, learned, cmdline, search);
    }
    if (search->found == 1 && !search->best.bad && !search->best.unlike) {
        const struct fy_place *place = &search->best.place;
        strcpy(mount->place.port, place->port);
        strcpy(mount->place.config, place->config);
        strcpy(mount->place.command, place->command);
        memcpy(mount->place.options, place->options, sizeof place->options);
        mount->place.noptions = place->noptions;
        mount->owners_differ = search->best.owners_differ;
        usable = true;
    }
free_all:
    free(cmdline);
    free(learned);
    free(search);
    return usable;
}
