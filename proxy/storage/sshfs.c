/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a running sshfs reaches its host, from its command line in /proc, so that
 * a mount on another port or with a key of its own needs no configuration; and
 * for how long it shows what it remembers.
 * Refuses a mount whose process it cannot tell for certain: another port may be
 * another machine, and some options start a program (mount_process.c).
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proxy/storage/mounts.h"

/* Of sshfs 3.7: what it keeps, and what it lets the kernel keep. */
static const double cache_s = 20, kernel_s = 1, margin_s = 0.5;
/* Longer than this nobody waits for what is shown to end. */
static const double longest_s = 3600;

enum {
    /* Told also where the mount is left alone. */
    SHOWN = FY_MOUNT_OWNERS_DIFFER | FY_MOUNT_MODES_DIFFER |
            FY_MOUNT_MAPS_USERS | FY_MOUNT_ONE_USER | FY_MOUNT_FOLLOWS_LINKS |
            FY_MOUNT_OTHER_FILES,
};

/* What one command line says. */
struct learned {
    struct fy_place place; /* port, options, config, command only */
    unsigned traits;       /* of SHOWN and FY_MOUNT_KEEPS */
    bool left_alone, bad, shows_links, keeps_none;
    bool commands; /* some option may start a program, or choose the host */
    double own_s[3], kernel_s[2]; /* 0: not said */
    const char *source, *point;
    pid_t pid;
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

static void
learn_seconds(const char *value, double *out, struct learned *learned)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds >= 0)) {
        learned->bad = true;
    } else {
        *out = seconds;
    }
}

/*
 * How long names and attributes live; the old names of these options too. What
 * an open file was is not asked for again with kernel_cache, with auto_cache
 * only if size or time differ, and no refresh reaches names that are known to
 * be missing.
 */
static bool
learn_cache(const char *option, struct learned *out)
{
    static const struct {
        const char *name;
        unsigned own, kernel; /* bits of which */
    } timeouts[] = {
        {"dcache_timeout", 7, 0},      {"cache_timeout", 7, 0},
        {"dcache_stat_timeout", 1, 0}, {"cache_stat_timeout", 1, 0},
        {"dcache_link_timeout", 2, 0}, {"cache_link_timeout", 2, 0},
        {"dcache_dir_timeout", 4, 0},  {"cache_dir_timeout", 4, 0},
        {"entry_timeout", 0, 1},       {"attr_timeout", 0, 2},
        {"ac_attr_timeout", 0, 2},
    };
    static const char *const caches[] = {"dir_cache=no", "dcache=no",
                                         "cache=no"};
    static const char *const stays[] = {"kernel_cache", "auto_cache",
                                        "negative_timeout", NULL};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        const char *value = value_of(option, timeouts[i].name);
        double seconds = 0;
        if (!value) {
            continue;
        }
        learn_seconds(value, &seconds, out);
        for (unsigned n = 0; n < 3; n++) {
            if (timeouts[i].own >> n & 1 && seconds > out->own_s[n]) {
                out->own_s[n] = seconds;
            }
            if (n < 2 && timeouts[i].kernel >> n & 1 &&
                seconds > out->kernel_s[n]) {
                out->kernel_s[n] = seconds;
            }
        }
        return true;
    }
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        if (strcmp(option, caches[i]) == 0) {
            out->keeps_none = true;
            return true;
        }
    }
    if (is_among(option, stays)) {
        const char *value = value_of(option, "negative_timeout");
        out->traits |= !value || strtod(value, NULL) != 0 ? FY_MOUNT_KEEPS : 0;
        return true;
    }
    return false;
}

/* Until nothing of what the kernel was told is older. */
static double
kernel_forgets_after(const struct learned *learned)
{
    double kernel = kernel_s;
    for (unsigned i = 0; i < 2; i++) {
        kernel = learned->kernel_s[i] > kernel ? learned->kernel_s[i] : kernel;
    }
    return kernel;
}

/* Until nothing of what it showed is older. */
static double
forgets_after(const struct learned *learned)
{
    double own = learned->keeps_none ? 0 : cache_s;
    for (unsigned i = 0; i < 3 && !learned->keeps_none; i++) {
        own = learned->own_s[i] > own ? learned->own_s[i] : own;
    }
    return own + kernel_forgets_after(learned) + margin_s;
}

/* Owners and modes as they are shown. Of a uid= libfuse tells sshfs nothing: what
 * chown(2) names is what is written there. */
static bool
learn_owners(const char *option, struct learned *out)
{
    static const char *const owners[] = {"uid",     "gid",     "umask", "idmap",
                                         "uidfile", "gidfile", NULL};
    static const char *const users[] = {"uid", "idmap", "uidfile", NULL};
    if (!is_among(option, owners)) {
        return false;
    }
    if (strcmp(option, "idmap=none") != 0) {
        out->traits |= FY_MOUNT_OWNERS_DIFFER;
        out->traits |= value_of(option, "umask") ? FY_MOUNT_MODES_DIFFER : 0;
        out->traits |= is_among(option, users) ? FY_MOUNT_MAPS_USERS : 0;
        out->traits |= value_of(option, "uid") ? FY_MOUNT_ONE_USER : 0;
    }
    return true;
}

/* Why files may be others than on the host, and who else may answer. */
static bool
learn_unlike(const char *option, struct learned *out)
{
    static const char *const follows[] = {"follow_symlinks",
                                          "transform_symlinks", NULL};
    static const char *const unlike[] = {"modules", "subdir", NULL};
    static const char *const others[] = {"directport",  "passive",   "slave",
                                         "sftp_server", "max_conns", NULL};
    bool follow = is_among(option, follows), other = is_among(option, unlike);
    if (!follow && !other && !is_among(option, others)) {
        return false;
    }
    out->traits |= follow ? FY_MOUNT_FOLLOWS_LINKS : 0;
    out->traits |= other ? FY_MOUNT_OTHER_FILES : 0;
    out->left_alone = true;
    return true;
}

/* One of a comma-separated list. */
static void
learn_option(const char *option, struct learned *out)
{
    static const char *const harmless[] = {"AddressFamily",
                                           "Compression",
                                           "ConnectTimeout",
                                           "IdentitiesOnly",
                                           "IdentityFile",
                                           "LogLevel",
                                           "Port",
                                           "ServerAliveCountMax",
                                           "ServerAliveInterval",
                                           "TCPKeepAlive",
                                           NULL};
    const char *value = strchr(option, '=');
    if (learn_cache(option, out) || learn_owners(option, out) ||
        learn_unlike(option, out)) {
        return;
    }
    if (strcmp(option, "no_contain_symlinks") == 0) {
        out->shows_links = true;
    } else if (strcmp(option, "contain_symlinks") == 0) {
        out->shows_links = false;
    } else if ((value = value_of(option, "port"))) {
        out->bad =
            out->bad || !copy(out->place.port, sizeof out->place.port, value);
    } else if ((value = value_of(option, "ssh_command"))) {
        out->commands = true;
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
        out->commands = out->commands || !is_among(option, harmless);
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
            out->commands = true;
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

/* What is found so far, and how certain it is. `learned' is only room. */
struct search {
    const struct fy_mount_line *line;
    struct learned best, learned;
    unsigned found, certain;
};

static void
choose(const struct learned *learned, unsigned certain, struct search *search)
{
    if (search->found && search->certain > certain) {
        return;
    }
    if (search->found && search->certain == certain) {
        /* Two that agree (sshfs runs in threads, never twice) are one. */
        struct fy_place a = learned->place, b = search->best.place;
        if (!fy_place_same_host(&a, &b) ||
            learned->traits != search->best.traits ||
            learned->left_alone != search->best.left_alone ||
            learned->shows_links != search->best.shows_links ||
            forgets_after(learned) > forgets_after(&search->best)) {
            search->found++;
        }
        return;
    }
    search->best = *learned;
    search->found = 1;
    search->certain = certain;
}

/* Its name and user alone do not tell whose words it was given. */
static void
consider(const char *cmdline, size_t n, pid_t pid, enum fy_serves how,
         void *data)
{
    struct search *search = data;
    struct learned *learned = &search->learned;
    const char *point = search->line->point;
    memset(learned, 0, sizeof *learned);
    learn_words(cmdline, cmdline + n, learned);
    learned->pid = pid;
    if (!learned->source ||
        strcmp(learned->source, search->line->source) != 0 ||
        (how != FY_SERVES_THIS && !is_point(learned->point, point))) {
        return;
    }
    learned->bad = learned->bad || (learned->commands && how < FY_SERVES_SOME);
    choose(learned, how == FY_SERVES_THIS ? 2 : is_exact(learned->point, point),
           search);
}

static void
look(const char *proc, struct search *search)
{
    /* As fstab starts it: the first 15 bytes of its name are kept. */
    static const char *const names[] = {"sshfs", "mount.fuse.sshf", NULL};
    search->found = 0;
    fy_mount_processes(search->line, proc, names, consider, search);
}

bool
fy_sshfs_learn(const struct fy_mount_line *line, const char *proc,
               struct fy_mount *mount)
{
    struct search *search = calloc(1, sizeof *search);
    bool usable = false;
    if (!search) {
        return false;
    }
    search->line = line;
    look(proc, search);
    for (unsigned again = 0; search->found > 1 && again < 3; again++) {
        /* One may be ending: unmounted just now. */
        const struct timespec pause = {0, 30000000};
        nanosleep(&pause, NULL);
        look(proc, search);
    }
    if (search->found == 1) {
        /* Also of what is given by --mount, however it is reached. */
        fy_mount_show(mount, SHOWN, search->best.traits);
    }
    if (search->found == 1 && !search->best.bad && !search->best.left_alone) {
        const struct fy_place *place = &search->best.place;
        strcpy(mount->place.port, place->port);
        strcpy(mount->place.config, place->config);
        strcpy(mount->place.command, place->command);
        memcpy(mount->place.options, place->options, sizeof place->options);
        mount->place.noptions = place->noptions;
        double seconds = forgets_after(&search->best);
        bool keeps =
            search->best.traits & FY_MOUNT_KEEPS || seconds > longest_s;
        fy_mount_show(mount, FY_MOUNT_HIDES_LINKS | FY_MOUNT_KEEPS,
                      (search->best.shows_links ? 0 : FY_MOUNT_HIDES_LINKS) |
                          (keeps ? FY_MOUNT_KEEPS : 0));
        mount->forgets_ms = keeps ? 0 : (uint32_t)(seconds * 1000);
        mount->pid = search->best.pid;
        mount->kernel_ms =
            keeps ? 0 : (uint32_t)(kernel_forgets_after(&search->best) * 1000);
        usable = true;
    }
    free(search);
    return usable;
}
