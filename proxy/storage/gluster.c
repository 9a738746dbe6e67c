/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GlusterFS. A volume's files are those of its bricks only together, and must
 * never be changed there: near the storage they are seen through a mount of the
 * same volume on that host, which its administrator has to have made. Both
 * sides have caches of about two seconds that nothing but time ends for
 * certain (found by experiment, 10.3; names that are gone cannot be made
 * forgotten): so a stage waits before it begins, and after it changed something.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/whole.h"
#include "proxy/storage/mounts.h"

enum {
    VOLFILE_MAX_BYTES = 256 << 10,
};
#define SCHEME "glusterfs://"

/* What the kernel keeps by default, what md-cache and quick-read keep. */
static const double kernel_s = 1, volume_s = 1, margin_s = 0.3;
static const double longest_s = 60;

/* ---- on the client -------------------------------------------------------------- */

bool
fy_gluster_source(const char *source, const char *root, struct fy_place *place)
{
    /* Several servers, a transport, a file instead of a server: not ours. */
    const char *colon = strchr(source, ':');
    size_t n = colon ? (size_t)(colon - source) : 0;
    if (!n || n >= sizeof place->host) {
        return false;
    }
    memcpy(place->host, source, n);
    place->host[n] = '\0';
    if (!fy_place_word(place->host, ".-_")) {
        return false;
    }
    const char *volume = colon + 1 + strspn(colon + 1, "/");
    int used = snprintf(place->path, sizeof place->path, SCHEME "%s/%s%s",
                        place->host, volume, strcmp(root, "/") ? root : "");
    if (!*volume || used < 0 || (size_t)used >= sizeof place->path) {
        return false;
    }
    while (place->path[used - 1] == '/') {
        place->path[--used] = '\0';
    }
    return true;
}

/* What stays cannot be waited for. */
static const struct fy_mount_option options[] = {
    {"--fopen-keep-cache", .never = "0 no off", .traits = FY_MOUNT_KEEPS},
    {"--kernel-writeback-cache", .never = "0 no off", .traits = FY_MOUNT_KEEPS},
    {"--negative-timeout", .never = "0 no off", .traits = FY_MOUNT_KEEPS},
    {"--attribute-timeout", .timers = 1},
    {"--entry-timeout", .timers = 1},
    {NULL},
};

/* The process's words; its last one is the mount point. */
static bool
serves(const char *cmdline, size_t n, const char *point,
       struct fy_mount_said *said)
{
    const char *last = cmdline, *end = cmdline + n;
    for (const char *at = cmdline; at < end; at += strlen(at) + 1) {
        (void)fy_mount_option(options, at, said);
        last = at;
    }
    size_t bytes = strlen(last);
    while (bytes > 1 && last[bytes - 1] == '/') {
        bytes--;
    }
    return strlen(point) == bytes && memcmp(last, point, bytes) == 0;
}

/* What the processes of one mount say. */
struct search {
    const char *point;
    unsigned found;
    bool unusable;
    double longest;
};

static void
consider(const char *cmdline, size_t n, pid_t pid, enum fy_serves how,
         void *data)
{
    (void)pid;
    struct search *search = data;
    struct fy_mount_said said = {0};
    (void)how; /* nothing is run of what it says */
    if (serves(cmdline, n, search->point, &said)) {
        double kernel = fy_mount_longest(&said, 1, kernel_s);
        search->found++;
        search->unusable =
            search->unusable || said.traits || said.facts || kernel > longest_s;
        search->longest = kernel > search->longest ? kernel : search->longest;
    }
}

bool
fy_gluster_learn(const struct fy_mount_line *line, const char *proc,
                 struct fy_mount *mount)
{
    static const char *const names[] = {"glusterfs", "glusterfsd", NULL};
    struct search search = {.point = line->point};
    fy_mount_processes(line, proc, names, consider, &search);
    if (!search.found || search.unusable) {
        return false;
    }
    mount->forgets_ms =
        (uint32_t)((search.longest + volume_s + margin_s) * 1000);
    /* The mount there is looked at by fy_volume_find(). */
    mount->lags_ms = (uint32_t)((kernel_s + volume_s + margin_s) * 1000);
    return true;
}

/* ---- on its host ---------------------------------------------------------------- */

/* The part of `path' behind `folder', "" for itself; NULL: elsewhere. */
static const char *
behind(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    while (n > 0 && folder[n - 1] == '/') {
        n--;
    }
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n])
               ? path + n
               : NULL;
}

/* A mount of this very host, or one that names it as the client does. */
static bool
is_of(const char *source, const char *host, size_t n)
{
    const char *const names[] = {"localhost", "127.0.0.1"};
    char own[256] = "";
    const char *colon = strchr(source, ':');
    size_t bytes = colon ? (size_t)(colon - source) : 0;
    if (bytes == n && memcmp(source, host, n) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (bytes == strlen(names[i]) && memcmp(source, names[i], bytes) == 0) {
            return true;
        }
    }
    return gethostname(own, sizeof own - 1) == 0 && bytes == strlen(own) &&
           memcmp(source, own, bytes) == 0;
}

/*
 * The volume's own options are in the graph that the mount runs with: anything
 * said of how long to remember, and its caches of missing names, are more than
 * the two seconds that a client waits.
 */
static bool
remembers_little(const char *point, struct fy_buffer *why)
{
    static const char *const longer[] = {
        "md-cache-timeout", "cache-timeout", "cache-invalidation",
        "performance/nl-cache", "performance/io-cache"};
    char path[PATH_MAX];
    int n =
        snprintf(path, sizeof path, "%s/.meta/graphs/active/volfile", point);
    int fd = n > 0 && (size_t)n < sizeof path ? open(path, O_RDONLY | O_CLOEXEC)
                                              : -1;
    char *text = malloc(VOLFILE_MAX_BYTES);
    size_t used = 0;
    bool little = fd >= 0 && text &&
                  !fy_read_most(fd, text, VOLFILE_MAX_BYTES - 1, &used) &&
                  used > 0 && used < VOLFILE_MAX_BYTES - 1;
    if (text) {
        text[little ? used : 0] = '\0';
    }
    for (size_t i = 0; little && i < sizeof longer / sizeof *longer; i++) {
        little = !strstr(text, longer[i]);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    if (!little) {
        fy_buffer_add(why, "a volume that is remembered for long: ");
        fy_buffer_add(why, point);
    }
    return little;
}

bool
fy_volume_find(const char *name, const char *mountinfo, char *out,
               size_t capacity, struct fy_buffer *why)
{
    /* The peer's words: they may be shorter than the scheme. */
    bool is_named = strncmp(name, SCHEME, strlen(SCHEME)) == 0;
    const char *host = is_named ? name + strlen(SCHEME) : "";
    struct fy_mount_table table;
    size_t nhost = strcspn(host, "/");
    if (!host[nhost] || fy_mount_table_parse(mountinfo, &table)) {
        fy_buffer_add(why, "no volume: ");
        fy_buffer_add(why, name);
        return false;
    }
    bool found = false;
    for (size_t i = 0; !found && i < table.n; i++) {
        const struct fy_mount_line *line = &table.lines[i];
        const char *colon = strchr(line->source, ':');
        if (strcmp(line->type, "fuse.glusterfs") != 0 || !colon ||
            !is_of(line->source, host, nhost) || strcmp(line->root, "/") != 0) {
            continue;
        }
        const char *rest =
            behind(host + nhost + 1, colon + 1 + strspn(colon + 1, "/"));
        int n = rest ? snprintf(out, capacity, "%s%s", line->point, rest) : -1;
        struct fy_mount facts;
        memset(&facts, 0, sizeof facts);
        found = n > 0 && (size_t)n < capacity &&
                fy_gluster_learn(line, "/proc", &facts) &&
                facts.forgets_ms <= facts.lags_ms &&
                remembers_little(line->point, why);
    }
    fy_mount_table_clear(&table);
    if (!found && !(why && why->used)) {
        fy_buffer_add(why, "no mount there shows ");
        fy_buffer_add(why, name);
    }
    return found;
}
