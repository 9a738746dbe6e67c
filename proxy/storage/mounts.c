/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of this machine's mounts are another host's files: what the user
 * configured, and what mountinfo names. Refuses mounts of other users, hidden
 * ones, and those that show the files otherwise than their host does. Asks no
 * file system anything but for configured folders, so a dead mount cannot hang
 * it. Long because each kind of mount has its few functions beside its row.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/debug.h"
#include "common/hash.h"
#include "common/path.h"
#include "common/whole.h"
#include "proxy/storage/mounts.h"

enum {
    NFS_DEFAULT_S = 60, /* of acregmax and acdirmax */
    LONGEST_S = 3600    /* a longer one cannot be waited for */
};

static bool
has_ro(const char *options)
{
    return strcmp(options, "ro") == 0 || strncmp(options, "ro,", 3) == 0;
}

/* The line is cut in pieces. */
static bool
parse_line(char *line, struct fy_mount_line *out)
{
    char *rest = NULL;
    char *words[64];
    unsigned n = 0;
    for (char *word = strtok_r(line, " ", &rest); word && n < 64;
         word = strtok_r(NULL, " ", &rest)) {
        words[n++] = word;
    }
    unsigned dash = 6;
    while (dash < n && strcmp(words[dash], "-") != 0) {
        dash++;
    }
    if (n < 10 || dash + 3 >= n) {
        return false;
    }
    unsigned major_number, minor_number;
    if (sscanf(words[0], "%u", &out->id) != 1 ||
        sscanf(words[1], "%u", &out->parent) != 1 ||
        sscanf(words[2], "%u:%u", &major_number, &minor_number) != 2) {
        return false;
    }
    out->device = makedev(major_number, minor_number);
    out->root = words[3];
    out->point = words[4];
    out->type = words[dash + 1];
    out->source = words[dash + 2];
    out->options = words[dash + 3];
    out->read_only = has_ro(words[5]) || has_ro(words[dash + 3]);
    fy_path_unescape(words[3]);
    fy_path_unescape(words[4]);
    fy_path_unescape(words[dash + 1]);
    fy_path_unescape(words[dash + 2]);
    return out->point[0] == '/'; /* else nothing of the program's names it */
}

void
fy_mount_table_clear(struct fy_mount_table *table)
{
    free(table->text);
    free(table->lines);
    table->text = NULL;
    table->lines = NULL;
    table->n = 0;
}

int
fy_mount_table_parse(const char *text, struct fy_mount_table *out)
{
    size_t lines = 1;
    for (const char *at = text; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    struct fy_mount_table table = {.text = strdup(text)};
    table.lines = calloc(lines, sizeof *table.lines);
    if (!table.text || !table.lines) {
        fy_mount_table_clear(&table);
        return FY_ERR_NOMEM;
    }
    char *rest = NULL;
    for (char *line = strtok_r(table.text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (parse_line(line, &table.lines[table.n])) {
            table.n++;
        }
    }
    *out = table;
    return 0;
}

char *
fy_mountinfo_read(void)
{
    size_t bytes;
    return fy_read_file("/proc/self/mountinfo", SIZE_MAX, &bytes);
}

/* Absolute paths without a slash at the end; false when equal. */
static bool
is_beneath(const char *path, const char *folder)
{
    return strcmp(path, folder) != 0 && fy_path_is_beneath(path, folder);
}

static bool
is_ancestor(const struct fy_mount_table *table, unsigned ancestor,
            const struct fy_mount_line *line)
{
    unsigned id = line->parent;
    for (size_t depth = 0; depth < table->n; depth++) {
        if (id == ancestor) {
            return true;
        }
        size_t i = 0;
        while (i < table->n && table->lines[i].id != id) {
            i++;
        }
        if (i == table->n || table->lines[i].parent == id) {
            return false;
        }
        id = table->lines[i].parent;
    }
    return false;
}

/* Another mount lies over it or over a folder on the way to it. */
static bool
is_hidden(const struct fy_mount_table *table, const struct fy_mount_line *line)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct fy_mount_line *other = &table->lines[i];
        if (other != line && fy_path_is_beneath(line->point, other->point) &&
            !is_ancestor(table, other->id, line) &&
            (strcmp(line->point, other->point) != 0 ||
             is_ancestor(table, line->id, other))) {
            return true;
        }
    }
    return false;
}

/* [user@]host:path of sshfs and nfs; host perhaps in brackets. */
static bool
parse_source(const char *source, const char *root, struct fy_place *place)
{
    const char *host = source;
    const char *bracket = strchr(source, '[');
    const char *colon = strchr(source, ':');
    const char *at = NULL;
    if (bracket && colon && bracket < colon) {
        const char *close = strchr(bracket, ']');
        if (!close || close[1] != ':') {
            return false;
        }
        colon = close + 1;
    }
    if (!colon) {
        return false;
    }
    at = memrchr(source, '@', (size_t)(colon - source));
    if (at) {
        size_t n = (size_t)(at - source);
        if (n >= sizeof place->user) {
            return false;
        }
        memcpy(place->user, source, n);
        place->user[n] = '\0';
        host = at + 1;
    }
    size_t n = (size_t)(colon - host);
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    }
    if (n >= sizeof place->host) {
        return false;
    }
    memcpy(place->host, host, n);
    place->host[n] = '\0';
    if ((*place->user && !fy_place_word(place->user, "._-+@\\$")) ||
        !fy_place_word(place->host, ".-_:%")) {
        return false;
    }
    const char *path = colon + 1;
    if (strcmp(root, "/") == 0) {
        root = "";
    }
    int wrote;
    if (*path == '/') {
        wrote = snprintf(place->path, sizeof place->path, "%s%s",
                         strcmp(path, "/") == 0 && *root ? "" : path, root);
    } else if (*path == '~') {
        return false; /* sftp would take it for a name; be sure */
    } else {
        /* sftp begins in the home of the user there. */
        wrote = snprintf(place->path, sizeof place->path, "~%s%s%s",
                         *path ? "/" : "", path, root);
    }
    if (wrote < 0 || (size_t)wrote >= sizeof place->path) {
        return false;
    }
    size_t used = (size_t)wrote;
    while (used > 1 && place->path[used - 1] == '/') {
        place->path[--used] = '\0';
    }
    return true;
}

bool
fy_place_of_source(const char *source, struct fy_place *place)
{
    struct fy_place said;
    memset(&said, 0, sizeof said);
    if (!parse_source(source, "/", &said)) {
        return false;
    }
    strcpy(place->user, said.user);
    strcpy(place->host, said.host);
    strcpy(place->path, said.path);
    place->transport = fy_transport_find("ssh", 3);
    return true;
}

/* A bind mount's process was started for another mount point. */
static bool
learn_sshfs(const struct fy_mount_table *table,
            const struct fy_mount_line *line, const char *proc,
            struct fy_mount *out)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct fy_mount_line *other = &table->lines[i];
        if (other->device == line->device &&
            strcmp(other->source, line->source) == 0 &&
            fy_sshfs_learn(other, proc, out)) {
            return true;
        }
    }
    out->traits |= FY_MOUNT_HIDES_LINKS;
    return false;
}

static bool
learn_ferry(const struct fy_mount_table *table,
            const struct fy_mount_line *line, const char *proc,
            struct fy_mount *out)
{
    (void)table;
    return fy_ferry_learn(line, proc, out);
}

/* The process that serves it says the place. */
static bool
leave_source(const char *source, const char *root, struct fy_place *place)
{
    (void)source;
    (void)root;
    (void)place;
    return true;
}

/* A FUSE server whose options ferry does not know. */
static bool
learn_nothing(const struct fy_mount_table *table,
              const struct fy_mount_line *line, const char *proc,
              struct fy_mount *out)
{
    (void)table;
    (void)line;
    (void)proc;
    (void)out;
    return false;
}

/*
 * For how long the kernel believes what an NFS server said. Only what is not the
 * default is listed; `actimeo' never is, but the four that it stands for.
 */
static bool
learn_nfs(const struct fy_mount_table *table, const struct fy_mount_line *line,
          const char *proc, struct fy_mount *out)
{
    enum {
        FILES = 1 << 0,
        FOLDERS = 1 << 1,
        LEAST = 1 << 2
    };
    static const struct fy_mount_option rows[] = {
        {"noac", .facts = FY_SAID_KEEPS_NONE}, {"acregmax", .timers = FILES},
        {"acdirmax", .timers = FOLDERS},       {"acregmin", .timers = LEAST},
        {"acdirmin", .timers = LEAST},         {NULL},
    };
    struct fy_mount_said said = {0};
    (void)table;
    (void)proc;
    fy_mount_options(rows, line->options, NULL, &said);
    bool told = (said.timers & FILES) && (said.timers & FOLDERS);
    double seconds = fy_mount_longest(&said, FILES | FOLDERS | LEAST,
                                      told ? 0 : NFS_DEFAULT_S);
    if (said.facts & FY_SAID_KEEPS_NONE) {
        return true;
    }
    bool known = !(said.facts & FY_SAID_BAD) && seconds <= LONGEST_S;
    out->forgets_ms = known ? (uint32_t)seconds * 1000 + 500 : 0;
    return known;
}

/* All that is known of a kind of mount. Those without a source are not looked for. */
static const struct kind {
    const char *type; /* `*' at the end: any that begins so */
    unsigned traits;  /* of FY_MOUNT_BY_NUMBER and behind it */
    bool (*source)(const char *source, const char *root,
                   struct fy_place *place);
    /* What this mount shows otherwise, and for how long; false: that cannot be told.
     * NULL: as its host does. */
    bool (*learn)(const struct fy_mount_table *table,
                  const struct fy_mount_line *line, const char *proc,
                  struct fy_mount *out);
} kinds[] = {
    {"fuse.sshfs",
     FY_MOUNT_FUSE | FY_MOUNT_OTHER_ATTRIBUTES | FY_MOUNT_BY_PATH |
         FY_MOUNT_MASKS,
     parse_source, learn_sshfs},
    {"fuse.ferry", FY_MOUNT_FUSE | FY_MOUNT_TOLD | FY_MOUNT_SHOWS_SELF,
     leave_source, learn_ferry},
    {"nfs", /* version 2 or 3 */
     FY_MOUNT_BY_NUMBER | FY_MOUNT_SQUASHES | FY_MOUNT_SYNCS |
         FY_MOUNT_LOSES_FILES,
     parse_source, learn_nfs},
    {"nfs4", FY_MOUNT_BY_NUMBER | FY_MOUNT_SQUASHES | FY_MOUNT_SYNCS,
     parse_source, learn_nfs},
    {"cifs", 0, NULL, NULL},
    {"smb3", 0, NULL, NULL},
    {"9p", 0, NULL, NULL},
    {"ceph", 0, NULL, NULL},
    {"lustre", 0, NULL, NULL},
    {"fuse.*", FY_MOUNT_FUSE | FY_MOUNT_OTHER_ATTRIBUTES, NULL, learn_nothing},
    {"fuse*", FY_MOUNT_FUSE, NULL, learn_nothing},
};

/* NULL: a file system of this machine. */
static const struct kind *
kind_of(const char *type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i].type);
        if (kinds[i].type[n - 1] == '*'
                ? strncmp(type, kinds[i].type, n - 1) == 0
                : strcmp(type, kinds[i].type) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

void
fy_mount_set_type(struct fy_mount *mount, const char *type)
{
    const struct kind *kind = kind_of(type);
    (void)snprintf(mount->type, sizeof mount->type, "%s", type);
    fy_mount_show(mount, ~(unsigned)(FY_MOUNT_BY_NUMBER - 1),
                  kind ? kind->traits : 0);
}

/*
 * What the mount shows otherwise than its host, and for how long. False: nobody
 * can tell; then nothing is changed behind its back.
 */
static bool
describe(const struct fy_mount_table *table, const struct fy_mount_line *line,
         const char *proc, struct fy_mount *out)
{
    const struct kind *kind = kind_of(line->type);
    bool known = !kind || !kind->learn || kind->learn(table, line, proc, out);
    fy_mount_set_type(out, line->type);
    fy_mount_show(out, FY_MOUNT_READ_ONLY,
                  line->read_only ? FY_MOUNT_READ_ONLY : 0);
    if (!known) {
        out->traits |= FY_MOUNT_KEEPS;
        out->forgets_ms = 0;
    }
    return known;
}

static bool
discover_line(const struct fy_mount_table *table,
              const struct fy_mount_line *line, const char *proc,
              struct fy_mount *out)
{
    const struct kind *kind = kind_of(line->type);
    uid_t user;
    if (!kind || !kind->source ||
        ((kind->traits & FY_MOUNT_FUSE) && !fy_mount_user(line, &user)) ||
        strlen(line->point) >= sizeof out->path ||
        !kind->source(line->source, line->root, &out->place)) {
        return false;
    }
    out->place.transport = fy_transport_find("ssh", 3);
    strcpy(out->path, line->point);
    strcpy(out->found_by, "mountinfo");
    out->device = line->device;
    /* A FUSE server that is not understood may show anything. */
    return describe(table, line, proc, out) || !(kind->traits & FY_MOUNT_FUSE);
}

static void
discover(const struct fy_mount_table *table, const char *proc,
         struct fy_mount *out, unsigned *out_n)
{
    for (size_t i = 0; i < table->n && *out_n < FY_MAX_MOUNTS; i++) {
        const struct fy_mount_line *line = &table->lines[i];
        bool known = false;
        for (unsigned j = 0; j < *out_n; j++) {
            known = known || strcmp(out[j].path, line->point) == 0;
        }
        struct fy_mount *mount = &out[*out_n];
        memset(mount, 0, sizeof *mount);
        if (!known && !is_hidden(table, line) &&
            discover_line(table, line, proc, mount)) {
            ++*out_n;
        }
    }
}

void
fy_mounts_discover(const char *mountinfo, const char *proc,
                   struct fy_mount *out, unsigned *out_n)
{
    struct fy_mount_table table;
    if (fy_mount_table_parse(mountinfo, &table) == 0) {
        discover(&table, proc, out, out_n);
        fy_mount_table_clear(&table);
    }
}

bool
fy_mount_at(const char *path, struct fy_mount *out)
{
    struct fy_mount_table table;
    bool found = false;
    char *text = fy_mountinfo_read();
    int status = text ? fy_mount_table_parse(text, &table) : FY_ERR_IO;
    free(text);
    if (status) {
        return false;
    }
    for (size_t i = 0; i < table.n; i++) {
        const struct fy_mount_line *line = &table.lines[i];
        if (strcmp(line->point, path) == 0 && !is_hidden(&table, line) &&
            strlen(path) < sizeof out->path) {
            memset(out, 0, sizeof *out);
            strcpy(out->path, path);
            out->device = line->device;
            (void)describe(&table, line, "/proc", out);
            found = true;
        }
    }
    fy_mount_table_clear(&table);
    return found;
}

/* "DIR=PLACE"; DIR may hold '=' as long as it is no "=scheme://". */
static int
configure(const char *text, const struct fy_mount_table *table,
          struct fy_mount *out, struct fy_buffer *why)
{
    const char *scheme = strstr(text, "://");
    const char *equals =
        scheme ? memrchr(text, '=', (size_t)(scheme - text)) : NULL;
    if (!equals || equals == text || (size_t)(equals - text) >= PATH_MAX) {
        fy_buffer_printf(why, "not DIR=PLACE: \"%s\"", text);
        return FY_ERR_INVALID;
    }
    memset(out, 0, sizeof *out);
    int status = fy_place_parse(equals + 1, &out->place, why);
    if (status) {
        return status;
    }
    char folder[PATH_MAX];
    memcpy(folder, text, (size_t)(equals - text));
    folder[equals - text] = '\0';
    /* A mount point's host is not asked: ssh would be started a round trip later. */
    struct statx about;
    if (!realpath(folder, out->path) ||
        statx(AT_FDCWD, out->path, AT_STATX_DONT_SYNC, STATX_TYPE, &about) !=
            0 ||
        !S_ISDIR(about.stx_mode)) {
        fy_buffer_printf(why, "no folder: %s", folder);
        return FY_ERR_INVALID;
    }
    if (strcmp(out->path, "/") == 0) {
        fy_buffer_add(why, "the root folder cannot be a mount of ferry");
        return FY_ERR_INVALID;
    }
    out->configured = true;
    strcpy(out->found_by, "--mount");
    /* A folder of a local file system is told by its path alone: its device is
     * that of files which are not meant. */
    dev_t device = makedev(about.stx_dev_major, about.stx_dev_minor);
    for (size_t i = 0; i < table->n; i++) {
        const struct fy_mount_line *line = &table->lines[i];
        if (line->device != device || is_hidden(table, line)) {
            continue;
        }
        if (strcmp(line->point, out->path) == 0 ||
            (kind_of(line->type) && is_beneath(out->path, line->point))) {
            out->device = device;
            struct fy_mount seen = *out;
            (void)describe(table, line, "/proc", &seen);
            seen.place = out->place;
            *out = seen;
        }
    }
    return 0;
}

int
fy_mounts_find(const char *const *configured, bool discovery,
               struct fy_mount *out, unsigned *out_n, struct fy_buffer *why)
{
    char *text = fy_mountinfo_read();
    struct fy_mount_table table;
    int status = fy_mount_table_parse(text ? text : "", &table);
    free(text);
    if (status) {
        return status;
    }
    unsigned n = 0;
    for (; configured && *configured; configured++) {
        if (n == FY_MAX_MOUNTS) {
            fy_buffer_add(why, "more mounts than ferry can hold");
            status = FY_ERR_INVALID;
            goto clear;
        }
        status = configure(*configured, &table, &out[n], why);
        if (status) {
            goto clear;
        }
        unsigned same = 0;
        while (strcmp(out[same].path, out[n].path) != 0) {
            same++;
        }
        if (same != n) {
            out[same] = out[n]; /* the later one overrides */
        } else {
            n++;
        }
    }
    if (discovery) {
        discover(&table, "/proc", out, &n);
    }
    for (unsigned i = 0; i < n; i++) {
        fy_debug(STORAGE, "mount %s of %s://%s, found by %s", out[i].path,
                 out[i].place.transport->scheme, out[i].place.host,
                 out[i].found_by);
    }
    *out_n = n;
clear:
    fy_mount_table_clear(&table);
    return status;
}

/* Finds the innermost mount on the way to the path that no other mount hides. */
static struct fy_mount_cover
cover_of(const struct fy_mount_table *table, const char *path)
{
    struct fy_mount_cover cover = {0, 0};
    size_t longest = 0;
    for (size_t i = 0; i < table->n; i++) {
        const struct fy_mount_line *line = &table->lines[i];
        size_t n = strlen(line->point);
        if (n < longest || !fy_path_is_beneath(path, line->point) ||
            is_hidden(table, line)) {
            continue;
        }
        const char *texts[] = {line->root, line->point, line->type,
                               line->source, line->options};
        const uint64_t numbers[] = {line->id, line->parent, line->device,
                                    line->read_only};
        longest = n;
        cover = (struct fy_mount_cover){line->id, FY_HASH_START};
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            cover.hash = fy_hash_add(cover.hash, numbers[j]);
        }
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
            cover.hash =
                fy_hash_bytes(cover.hash, texts[j], strlen(texts[j]) + 1);
        }
    }
    return cover;
}

char **
fy_mounts_below(const char *path, struct fy_mount_cover *out_cover)
{
    char *text = fy_mountinfo_read();
    struct fy_mount_table table;
    char **below = NULL;
    int status = text ? fy_mount_table_parse(text, &table) : FY_ERR_IO;
    free(text);
    if (status) {
        return NULL;
    }
    /* One block: the pointers, then the texts. */
    size_t bytes = sizeof *below, n = 0;
    for (size_t i = 0; i < table.n; i++) {
        if (is_beneath(table.lines[i].point, path)) {
            bytes += sizeof *below + strlen(table.lines[i].point) + 1;
            n++;
        }
    }
    below = malloc(bytes);
    if (below) {
        char *to = (char *)(below + n + 1);
        n = 0;
        for (size_t i = 0; i < table.n; i++) {
            if (is_beneath(table.lines[i].point, path)) {
                below[n++] = strcpy(to, table.lines[i].point);
                to += strlen(to) + 1;
            }
        }
        below[n] = NULL;
    }
    if (out_cover) {
        *out_cover = cover_of(&table, path);
    }
    fy_mount_table_clear(&table);
    return below;
}
