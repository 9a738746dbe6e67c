/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a running sshfs reaches its host, from its command line in /proc, so that
 * a mount on another port or with a key of its own needs no configuration; and
 * for how long it shows what it remembers.
 * Refuses a mount whose process it cannot tell for certain: another port may be
 * another machine, and some options start a program (mount_process.c).
 */
#include "config.h"

#include <stddef.h>
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

/* Caches with a timeout each: sshfs's three caches, the kernel's two. */
enum {
    STAT = 1 << 0,
    LINK = 1 << 1,
    DIR = 1 << 2,
    OWN = STAT | LINK | DIR,
    ENTRY = 1 << 3,
    ATTR = 1 << 4,
};

#define PLACE(field)                        \
    .at = offsetof(struct fy_place, field), \
    .bytes = sizeof(((struct fy_place *)NULL)->field)

/*
 * sshfs 3.7 and libfuse 3, with the old names of their options. What an open file was is
 * not asked for again with kernel_cache, with auto_cache only if size or time differ, and
 * no refresh reaches names that are known to be missing. Of a uid= libfuse tells sshfs
 * nothing: what chown(2) names is what is written there.
 */
static const struct fy_mount_option options[] = {
    {"dcache_timeout", .timers = OWN},
    {"cache_timeout", .timers = OWN},
    {"dcache_stat_timeout", .timers = STAT},
    {"cache_stat_timeout", .timers = STAT},
    {"dcache_link_timeout", .timers = LINK},
    {"cache_link_timeout", .timers = LINK},
    {"dcache_dir_timeout", .timers = DIR},
    {"cache_dir_timeout", .timers = DIR},
    {"entry_timeout", .timers = ENTRY},
    {"attr_timeout", .timers = ATTR},
    {"ac_attr_timeout", .timers = ATTR},
    {"dir_cache", .only = "no", .facts = FY_SAID_KEEPS_NONE},
    {"dcache", .only = "no", .facts = FY_SAID_KEEPS_NONE},
    {"cache", .only = "no", .facts = FY_SAID_KEEPS_NONE},
    {"kernel_cache", .traits = FY_MOUNT_KEEPS},
    {"auto_cache", .traits = FY_MOUNT_KEEPS},
    {"negative_timeout", .never = "0", .traits = FY_MOUNT_KEEPS},
    {"uid", .traits = FY_MOUNT_OWNERS_DIFFER | FY_MOUNT_MAPS_USERS |
                      FY_MOUNT_ONE_USER},
    {"gid", .traits = FY_MOUNT_OWNERS_DIFFER},
    {"umask", .traits = FY_MOUNT_OWNERS_DIFFER | FY_MOUNT_MODES_DIFFER},
    {"idmap", .never = "none",
     .traits = FY_MOUNT_OWNERS_DIFFER | FY_MOUNT_MAPS_USERS},
    {"uidfile", .traits = FY_MOUNT_OWNERS_DIFFER | FY_MOUNT_MAPS_USERS},
    {"gidfile", .traits = FY_MOUNT_OWNERS_DIFFER},
    {"follow_symlinks", .traits = FY_MOUNT_FOLLOWS_LINKS,
     .facts = FY_SAID_LEFT_ALONE},
    {"transform_symlinks", .traits = FY_MOUNT_FOLLOWS_LINKS,
     .facts = FY_SAID_LEFT_ALONE},
    {"modules", .traits = FY_MOUNT_OTHER_FILES, .facts = FY_SAID_LEFT_ALONE},
    {"subdir", .traits = FY_MOUNT_OTHER_FILES, .facts = FY_SAID_LEFT_ALONE},
    {"directport", .facts = FY_SAID_LEFT_ALONE},
    {"passive", .facts = FY_SAID_LEFT_ALONE},
    {"slave", .facts = FY_SAID_LEFT_ALONE},
    {"sftp_server", .facts = FY_SAID_LEFT_ALONE},
    {"max_conns", .facts = FY_SAID_LEFT_ALONE},
    {"contain_symlinks", .traits = FY_MOUNT_HIDES_LINKS},
    {"no_contain_symlinks", .takes = FY_MOUNT_HIDES_LINKS},
    {"port", PLACE(port)},
    {"ssh_command", .facts = FY_SAID_COMMANDS, PLACE(command)},
    {NULL},
};

/* What one command line says. */
struct learned {
    struct fy_mount_said said;
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

/* Until nothing of what the kernel was told is older. */
static double
kernel_forgets_after(const struct fy_mount_said *said)
{
    return fy_mount_longest(said, ENTRY | ATTR, kernel_s);
}

/* Until nothing of what it showed is older. */
static double
forgets_after(const struct fy_mount_said *said)
{
    double own = said->facts & FY_SAID_KEEPS_NONE
                     ? 0
                     : fy_mount_longest(said, OWN, cache_s);
    return own + kernel_forgets_after(said) + margin_s;
}

/* Those of ssh begin with a capital and have a value, and no others do. */
static void
learn_ssh(const char *option, struct fy_mount_said *said)
{
    static const char *const harmless[] = {
        "AddressFamily",  "Compression",         "ConnectTimeout",
        "IdentitiesOnly", "IdentityFile",        "LogLevel",
        "Port",           "ServerAliveCountMax", "ServerAliveInterval",
        "TCPKeepAlive"};
    struct fy_place *place = &said->place;
    const char *value = strchr(option, '=');
    bool known = false;
    if (option[0] < 'A' || option[0] > 'Z' || !value) {
        return;
    }
    if (fy_option_is(option, "IdentityFile") &&
        (!value[1] || !strchr("/~%", value[1]))) {
        return; /* relative to a folder that is not known any more */
    }
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        known = known || fy_option_is(option, harmless[i]);
    }
    said->facts |= known ? 0 : FY_SAID_COMMANDS;
    if (place->noptions == sizeof place->options / sizeof *place->options ||
        !copy(place->options[place->noptions++], sizeof *place->options,
              option)) {
        said->facts |= FY_SAID_BAD;
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
    struct fy_mount_said *said = &out->said;
    at += strlen(at) + 1; /* argv[0] */
    bool options_end = false;
    for (; at < end; at += strlen(at) + 1) {
        bool is_option = !options_end && at[0] == '-' && at[1];
        if (is_option && strcmp(at, "--") == 0) {
            options_end = true;
        } else if (is_option && at[1] == 'o') {
            fy_mount_options(options, argument(&at, end), learn_ssh, said);
        } else if (is_option && at[1] == 'p') {
            said->facts |= copy(said->place.port, sizeof said->place.port,
                                argument(&at, end))
                               ? 0
                               : FY_SAID_BAD;
        } else if (is_option && at[1] == 'F') {
            const char *value = argument(&at, end);
            bool plain =
                *value == '/' || *value == '~' || strcmp(value, "none") == 0;
            said->facts |= FY_SAID_COMMANDS;
            said->facts |= plain && copy(said->place.config,
                                         sizeof said->place.config, value)
                               ? 0
                               : FY_SAID_BAD;
        } else if (is_option) {
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
        const struct fy_mount_said *a = &learned->said, *b = &search->best.said;
        if (!fy_place_same_host(&a->place, &b->place) ||
            a->traits != b->traits ||
            ((a->facts ^ b->facts) & FY_SAID_LEFT_ALONE) ||
            forgets_after(a) > forgets_after(b)) {
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
    learned->said.traits = FY_MOUNT_HIDES_LINKS; /* its default */
    learn_words(cmdline, cmdline + n, learned);
    learned->pid = pid;
    if (!learned->source ||
        strcmp(learned->source, search->line->source) != 0 ||
        (how != FY_SERVES_THIS && !is_point(learned->point, point))) {
        return;
    }
    if ((learned->said.facts & FY_SAID_COMMANDS) && how < FY_SERVES_SOME) {
        learned->said.facts |= FY_SAID_BAD;
    }
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
        fy_mount_show(mount, SHOWN, search->best.said.traits);
    }
    const struct fy_mount_said *said = &search->best.said;
    if (search->found == 1 &&
        !(said->facts & (FY_SAID_BAD | FY_SAID_LEFT_ALONE))) {
        const struct fy_place *place = &said->place;
        strcpy(mount->place.port, place->port);
        strcpy(mount->place.config, place->config);
        strcpy(mount->place.command, place->command);
        memcpy(mount->place.options, place->options, sizeof place->options);
        mount->place.noptions = place->noptions;
        double seconds = forgets_after(said);
        bool keeps = said->traits & FY_MOUNT_KEEPS || seconds > longest_s;
        fy_mount_show(mount, FY_MOUNT_HIDES_LINKS | FY_MOUNT_KEEPS,
                      said->traits | (keeps ? FY_MOUNT_KEEPS : 0));
        mount->forgets_ms = keeps ? 0 : (uint32_t)(seconds * 1000);
        mount->pid = search->best.pid;
        mount->kernel_ms =
            keeps ? 0 : (uint32_t)(kernel_forgets_after(said) * 1000);
        usable = true;
    }
    free(search);
    return usable;
}
