/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a stage with effects: the folders and files beneath its declared outputs, and the
 * folders that these are in, that changed since it began, so that the client can refresh
 * its mount's caches of them: a folder that is not told has the names that it had. New
 * files too: one may have taken an old one's name. A path that did not exist before has
 * no old names below it: of those only the ones long in the making are listed, which may
 * have been looked at. Owners of folders are told (of files, too, after a stage that may
 * have changed them): the client cannot refresh a folder without writing its owner. The
 * target of a link is told by its real name, too: a folder's names are forgotten by that
 * alone. Long because the looks before and after are at the same places.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "common/clock.h"
#include "common/path.h"
#include "proxy/sandbox/walk.h"
#include "proxy/server/server.h"

enum {
    TOUCHED_ENTRIES = 200000, /* looked at */
    TOUCHED_MS = 500,
    TOUCHED_PATHS = 16384, /* listed */
    WRITTEN_MAX = 64,      /* operands with which names are compared */
    BEFORE_ENTRIES = 20000,
    BEFORE_MS = 20,
};
static const int64_t brief_ns = 20000000; /* between its making and its end */

/* Paths that existed when a stage began: its declared outputs, and the names
 * in them. */
struct fy_before {
    char **paths; /* sorted */
    size_t n, capacity;
    bool failed;
};

struct list {
    const struct fy_server_stage *stage;
    struct fy_bytes *paths;
    uint32_t n;
    struct fy_folder *folders; /* of them; of files, too, if owners changed */
    uint32_t nfolders;
    struct fy_link_told *links;
    uint32_t nlinks;
    struct fy_file_told *files;
    uint32_t nfiles;
    int root;          /* all looks are beneath this folder ... */
    const char *mount; /* ... which is this path of the client's */
    char parent[4096]; /* the last folder whose names were looked at */
    struct fy_bytes written[WRITTEN_MAX]; /* operands' last names */
    unsigned nwritten;                    /* more than that: not all are here */
    bool complete;
    char new_path[4096]; /* the last path found that is new */
    size_t new_bytes;    /* 0: none */
    bool linked;         /* a link was found: its target was not seen */
    const char *made;    /* a new file below it has a new name; NULL: none */
    const char *kept;    /* nothing changed below it; NULL: none */
};

/*
 * Where a path of the client is: the root of its mount, opened, the mount, and
 * the path's name beneath both. -1: on none of the stage's.
 */
static int
open_mount(const struct fy_server_stage *stage, const char *path,
           const char **out_mount, char *name, size_t capacity)
{
    const struct fy_stage_spec *spec = &stage->spec;
    for (uint32_t i = 0; i <= spec->nmounts; i++) {
        struct fy_mount_spec seen = fy_stage_spec_mount(spec, i);
        unsigned reason;
        int root;
        if (fy_walk_name(seen.mount.at, spec->cwd.at, path, name, capacity)) {
            *out_mount = seen.mount.at;
            return fy_policy_open_root(stage->server->policy, seen.root.at,
                                       &root, &reason, NULL)
                       ? -1
                       : root;
        }
    }
    return -1;
}

/* A path that the stage was given to write. */
static bool
is_written(const struct fy_stage_spec *spec, const struct fy_use *use)
{
    return use->access != FY_ACCESS_IN && !use->is_stdin &&
           use->arg < spec->argc && use->offset <= spec->argv[use->arg].n;
}

/* ---- before --------------------------------------------------------------- */

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool
existed(const struct fy_before *before, const char *path)
{
    return bsearch(&path, before->paths, before->n, sizeof *before->paths,
                   compare);
}

void
fy_before_free(struct fy_before *before)
{
    for (size_t i = 0; before && i < before->n; i++) {
        free(before->paths[i]);
    }
    if (before) {
        free(before->paths);
        free(before);
    }
}

static void
remember(void *context, const char *path, const struct statx *facts)
{
    struct fy_before *before = context;
    (void)facts;
    if (before->n == before->capacity) {
        size_t capacity = before->capacity ? 2 * before->capacity : 64;
        char **larger =
            realloc(before->paths, capacity * sizeof *before->paths);
        if (!larger) {
            before->failed = true;
            return;
        }
        before->paths = larger;
        before->capacity = capacity;
    }
    before->paths[before->n] = strdup(path);
    if (before->paths[before->n]) {
        before->n++;
    } else {
        before->failed = true;
    }
}

static bool
enters_none(void *context, const char *path, unsigned depth)
{
    (void)context;
    (void)path;
    (void)depth;
    return false;
}

/* ---- after ---------------------------------------------------------------- */

/* Whether `time' is at or after the stage's beginning. */
static bool
since(const struct fy_server_stage *stage, const struct statx_timestamp *time)
{
    return time->tv_sec > stage->touched.began.seconds ||
           (time->tv_sec == stage->touched.began.seconds &&
            time->tv_nsec >= stage->touched.began.ns);
}

static bool
is_below(const struct list *list, const char *path)
{
    return list->new_bytes > 0 &&
           strncmp(path, list->new_path, list->new_bytes) == 0 &&
           path[list->new_bytes] == '/';
}

static bool
is_brief(const struct statx *facts)
{
    return (facts->stx_mask & STATX_BTIME) != 0 &&
           (facts->stx_ctime.tv_sec - facts->stx_btime.tv_sec) * 1000000000 +
                   (int64_t)facts->stx_ctime.tv_nsec -
                   (int64_t)facts->stx_btime.tv_nsec <
               brief_ns;
}

/* Every folder is entered but those that are kept; files below a new path are
 * known by that. */
static bool
enters(void *context, const char *path, unsigned depth)
{
    struct list *list = context;
    const struct fy_before *before = list->stage->touched.before;
    size_t n = strlen(path);
    if (before && depth == 1 && !is_below(list, path) &&
        !existed(before, path) && n < sizeof list->new_path) {
        memcpy(list->new_path, path, n + 1);
        list->new_bytes = n;
    }
    return !list->kept || strcmp(path, list->kept) != 0;
}

/* A file that was made under a name that did not exist. */
static bool
is_new(const struct list *list, const char *path, const struct statx *facts)
{
    size_t n = list->made ? strlen(list->made) : 0;
    return n > 0 && strncmp(path, list->made, n) == 0 && path[n] == '/' &&
           S_ISREG(facts->stx_mode) && (facts->stx_mask & STATX_BTIME) != 0 &&
           since(list->stage, &facts->stx_btime);
}

/* `path', the last of the list, is a link: where it leads, and of when it is. */
static void
note_link(struct list *list, const char *path, const struct statx *facts)
{
    char target[PATH_MAX];
    int fd = fy_open_beneath(list->root, path + strlen(list->mount) + 1,
                             O_PATH | O_NOFOLLOW, 0);
    ssize_t n = fd >= 0 ? readlinkat(fd, "", target, sizeof target) : -1;
    char *copy = n >= 0 ? strndup(target, (size_t)n) : NULL;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!copy) {
        list->complete = false;
        return;
    }
    list->links[list->nlinks++] =
        (struct fy_link_told){list->paths[list->n - 1],
                              {copy, (size_t)n},
                              (uint64_t)facts->stx_mtime.tv_sec};
}

/* `path', the last of the list, is a regular file. */
static void
note_file(struct list *list, const struct statx *facts)
{
    list->files[list->nfiles++] =
        (struct fy_file_told){.path = list->paths[list->n - 1],
                              .bytes = facts->stx_size,
                              .modified_s = (uint64_t)facts->stx_mtime.tv_sec,
                              .mode = facts->stx_mode & 07777,
                              .created = (facts->stx_mask & STATX_BTIME) != 0 &&
                                         since(list->stage, &facts->stx_btime)};
}

static void
add(struct list *list, const char *path, const struct statx *facts)
{
    char *copy = list->n < TOUCHED_PATHS ? strdup(path) : NULL;
    if (!copy) {
        list->complete = false;
        return;
    }
    list->paths[list->n++] = (struct fy_bytes){copy, strlen(copy)};
    if (S_ISLNK(facts->stx_mode)) {
        note_link(list, copy, facts);
    } else if (S_ISDIR(facts->stx_mode) ||
               fy_invocation_is(&list->stage->invocation, FY_TRAIT_OWNERS)) {
        list->folders[list->nfolders++] =
            (struct fy_folder){list->paths[list->n - 1], facts->stx_uid};
    }
    if (S_ISREG(facts->stx_mode)) {
        note_file(list, facts);
    }
}

static void
note(void *context, const char *path, const struct statx *facts)
{
    struct list *list = context;
    list->linked = list->linked || S_ISLNK(facts->stx_mode);
    if (since(list->stage, &facts->stx_ctime) &&
        !(is_below(list, path) && is_brief(facts)) &&
        !is_new(list, path, facts)) {
        add(list, path, facts);
    }
}

/* A path named by the client may itself be a link, which a walk looks behind.
 * The link is told also when it is old, as the client asks whether the mount
 * shows it as it is. */
static void
note_itself(struct list *list, const char *name)
{
    struct statx facts;
    char path[PATH_MAX];
    int fd = fy_open_beneath(list->root, name, O_PATH | O_NOFOLLOW, 0);
    if (fd >= 0 &&
        statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &facts) == 0 &&
        S_ISLNK(facts.stx_mode) &&
        snprintf(path, sizeof path, "%s/%s", list->mount, name) <
            (int)sizeof path) {
        add(list, path, &facts);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* An entry beside an operand that the command may have written with it. */
static bool
is_beside(void *context, const char *name)
{
    const struct list *list = context;
    for (unsigned i = 0; i < list->nwritten && i < WRITTEN_MAX; i++) {
        if (fy_name_related(name, list->written[i].at, list->written[i].n)) {
            return true;
        }
    }
    return list->nwritten > WRITTEN_MAX;
}

static void
add_written(struct list *list, const struct fy_bytes *word, uint32_t offset)
{
    const char *at = word->at + offset;
    size_t n = word->n - offset;
    while (n > 0 && at[n - 1] == '/') {
        n--;
    }
    const char *slash = memrchr(at, '/', n);
    if (list->nwritten < WRITTEN_MAX) {
        size_t start = slash ? (size_t)(slash + 1 - at) : 0;
        list->written[list->nwritten] =
            (struct fy_bytes){at + start, n - start};
    }
    list->nwritten++;
}

/* One path that was declared, and the folder it is in. */
static void
look(struct fy_walk *walk, struct list *list, const char *base,
     const char *path, bool tree)
{
    const char *mount = NULL;
    char whole[PATH_MAX], name[4096];
    int root = fy_path_join(base, path, whole)
                   ? -2
                   : open_mount(list->stage, whole, &mount, name, sizeof name);
    if (root < 0) {
        /* On no mount (/dev/null, /dev/full): nothing is remembered of it. */
        list->complete = list->complete && root == -1 && !mount;
        return;
    }
    if (mount != list->mount) {
        list->parent[0] = '\0';
    }
    list->root = root;
    list->mount = mount;
    fy_walk(walk, root, mount, name, tree);
    fy_walk_behind(walk, root, mount, name, tree);
    note_itself(list, name);
    if (fy_walk_up(name) && strcmp(list->parent, name) != 0) {
        /* Files that the command writes beside it: f~, f.gz. */
        bool (*enters_any)(void *, const char *, unsigned) = walk->enters;
        walk->enters = enters_none;
        walk->wanted = is_beside;
        fy_walk(walk, root, mount, name, tree);
        walk->enters = enters_any;
        walk->wanted = NULL;
        strcpy(list->parent, name);
        do {
            note_itself(list, name);
        } while (fy_walk_up(name));
    }
    (void)close(root);
}

/* "FOLDER/PATH", of the latter its first n bytes; false: it is too long. */
static bool
put_name(const char *folder, const char *path, size_t n, char out[4096])
{
    bool top = strcmp(folder, ".") == 0;
    int used = snprintf(out, 4096, "%s%s%.*s", top ? "" : folder,
                        top ? "" : "/", (int)n, path);
    return used > 0 && used < 4096;
}

/*
 * A command that looks for something in the folders above its own (.git) also
 * writes there.
 */
static void
look_above(struct fy_walk *walk, struct list *list, const char *base)
{
    const struct fy_invocation *invocation = &list->stage->invocation;
    const char *mount = NULL;
    char folder[4096], name[4096];
    int root = open_mount(list->stage, base, &mount, folder, sizeof folder);
    if (root < 0) {
        list->complete = false;
        return;
    }
    const char *before = "";
    size_t nbefore = 0;
    while (invocation->nabsents && fy_walk_up(folder)) {
        fy_walk(walk, root, mount, folder, false);
        for (uint32_t i = 0; i < invocation->nabsents; i++) {
            const char *path = invocation->absents[i].path;
            size_t n = strcspn(path, "/");
            /* Rows about one thing follow each other. */
            if (n == 0 || *path == '~' ||
                (i && n == nbefore && memcmp(path, before, n) == 0)) {
                continue;
            }
            before = path;
            nbefore = n;
            if (put_name(folder, path, n, name)) {
                fy_walk(walk, root, mount, name, true);
            }
        }
    }
    (void)close(root);
}

/* Files written below `path' of a folder `how', as the client names it. */
static void
find_below(const struct fy_invocation *invocation, enum fy_written_how how,
           const char *mount, const char *folder, const char *path,
           char out[PATH_MAX])
{
    char name[4096];
    size_t n = strlen(path);
    out[0] = '\0';
    for (uint32_t i = 0; i < invocation->nwritten; i++) {
        const char *made = invocation->written[i].path;
        if (invocation->written[i].how == how && strncmp(made, path, n) == 0 &&
            (made[n] == '/' || !made[n]) &&
            put_name(folder, made, strlen(made), name)) {
            int used = snprintf(out, PATH_MAX, "%s/%s", mount, name);
            if (used < 0 || used >= PATH_MAX) {
                out[0] = '\0';
            }
        }
    }
}

/* Names that the command is said to write and that are gone
 * (.git/MERGE_HEAD). */
static void
add_gone(struct list *list)
{
    const struct fy_before *before = list->stage->touched.before;
    size_t top = strlen(list->mount);
    const struct statx none = {0};
    for (size_t i = 0; before && i < before->n; i++) {
        int fd = fy_open_beneath(list->root, before->paths[i] + top + 1,
                                 O_PATH | O_NOFOLLOW, 0);
        if (fd < 0) {
            add(list, before->paths[i], &none);
        } else {
            (void)close(fd);
        }
    }
}

/* Only its declared outputs, there or above, and their folders; false: that is
 * not all. */
static bool
look_declared(struct fy_walk *walk, struct list *list, const char *base)
{
    const struct fy_invocation *invocation = &list->stage->invocation;
    const char *mount = NULL;
    char folder[4096], name[4096], made[PATH_MAX], kept[PATH_MAX];
    int root = invocation->nwritten == 0 ? -1
                                         : open_mount(list->stage, base, &mount,
                                                      folder, sizeof folder);
    if (root < 0) {
        return false;
    }
    list->linked = false;
    list->root = root;
    list->mount = mount;
    add_gone(list);
    do {
        fy_walk(walk, root, mount, folder, false);
        for (uint32_t i = 0; i < invocation->nwritten; i++) {
            const struct fy_written *written = &invocation->written[i];
            if (written->how != FY_WRITTEN) {
                continue;
            }
            find_below(invocation, FY_WRITTEN_MAKES, mount, folder,
                       written->path, made);
            find_below(invocation, FY_WRITTEN_KEEPS, mount, folder,
                       written->path, kept);
            list->made = made;
            list->kept = kept;
            if (put_name(folder, written->path, strlen(written->path), name)) {
                fy_walk(walk, root, mount, name, true);
            } else {
                list->complete = false;
            }
            list->made = list->kept = NULL;
        }
    } while (!list->linked && fy_walk_up(folder));
    (void)close(root);
    return !list->linked;
}

/* The folder that it was told to go to first (git -C), or its own. */
static int
find_base(const struct fy_server_stage *stage, char out[PATH_MAX])
{
    const struct fy_stage_spec *spec = &stage->spec;
    const struct fy_invocation *invocation = &stage->invocation;
    char next[PATH_MAX];
    int status = fy_path_join(spec->cwd.at, ".", out);
    for (uint32_t i = 0; !status && i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->kind == FY_USE_FOLDER && use->arg < spec->argc &&
            use->offset <= spec->argv[use->arg].n) {
            status =
                fy_path_join(out, spec->argv[use->arg].at + use->offset, next);
            strcpy(out, next);
        }
    }
    return status;
}

static void
walk_into(struct fy_walk *walk, const struct fy_server_stage *stage,
          const char *path)
{
    const char *mount = NULL;
    char name[4096];
    int root = open_mount(stage, path, &mount, name, sizeof name);
    if (root >= 0) {
        fy_walk(walk, root, mount, name, true);
        fy_walk_behind(walk, root, mount, name, true);
        (void)close(root);
    }
}

/* Walks the paths that the command is said to write, there or above. */
static void
walk_declared(struct fy_walk *walk, const struct fy_server_stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    const char *mount = NULL;
    char base[PATH_MAX], folder[4096], name[4096];
    int root = find_base(stage, base)
                   ? -1
                   : open_mount(stage, base, &mount, folder, sizeof folder);
    if (root < 0) {
        return;
    }
    do {
        for (uint32_t i = 0; i < invocation->nwritten; i++) {
            const struct fy_written *written = &invocation->written[i];
            if (written->how == FY_WRITTEN &&
                put_name(folder, written->path, strlen(written->path), name)) {
                fy_walk(walk, root, mount, name, true);
            }
        }
    } while (fy_walk_up(folder));
    (void)close(root);
}

/* As look_everywhere(), before anything is done. NULL: that is not
 * known, or of no use as little will be looked at. */
struct fy_before *
fy_touched_before(const struct fy_server_stage *stage)
{
    const struct fy_stage_spec *spec = &stage->spec;
    const struct fy_invocation *invocation = &stage->invocation;
    struct fy_before *before = calloc(1, sizeof *before);
    struct fy_walk walk = {
        .entries_left = BEFORE_ENTRIES,
        .end_ns = fy_clock_ns() + BEFORE_MS * UINT64_C(1000000),
        .complete = true,
        .found = remember,
        .enters = enters_none,
        .context = before,
    };
    if (!before) {
        return NULL;
    }
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (is_written(spec, use)) {
            walk_into(&walk, stage, spec->argv[use->arg].at + use->offset);
        }
    }
    if (invocation->nwritten > 0) {
        walk_declared(&walk, stage);
    } else if (invocation->writes_cwd) {
        walk_into(&walk, stage, ".");
    }
    if (!walk.complete || before->failed) {
        fy_before_free(before);
        return NULL;
    }
    if (before->n > 0) {
        qsort(before->paths, before->n, sizeof *before->paths, compare);
    }
    return before;
}

static void
look_everywhere(struct fy_walk *walk, struct list *list)
{
    const struct fy_stage_spec *spec = &list->stage->spec;
    const struct fy_invocation *invocation = &list->stage->invocation;
    const struct fy_use *end = invocation->uses + invocation->nuses;
    for (const struct fy_use *use = invocation->uses; use < end; use++) {
        if (is_written(spec, use)) {
            add_written(list, &spec->argv[use->arg], use->offset);
        }
    }
    for (const struct fy_use *use = invocation->uses; use < end; use++) {
        if (is_written(spec, use)) {
            look(walk, list, spec->cwd.at,
                 spec->argv[use->arg].at + use->offset, true);
        }
    }
    char base[PATH_MAX];
    if (invocation->writes_cwd && find_base(list->stage, base)) {
        list->complete = false;
    } else if (invocation->writes_cwd && !look_declared(walk, list, base)) {
        look_above(walk, list, base);
        look(walk, list, base, ".", true);
    }
    if (spec->out.kind == FY_STREAM_FILE) {
        look(walk, list, spec->cwd.at, spec->out.path.at, false);
    }
    if (spec->err.kind == FY_STREAM_FILE) {
        look(walk, list, spec->cwd.at, spec->err.path.at, false);
    }
}

int
fy_touched_find(const struct fy_server_stage *stage, char **out,
                size_t *out_bytes)
{
    struct list list = {.stage = stage, .complete = true};
    struct fy_walk walk = {
        .entries_left = TOUCHED_ENTRIES,
        .end_ns = fy_clock_ns() + TOUCHED_MS * UINT64_C(1000000),
        .complete = true,
        .found = note,
        .enters = enters,
        .context = &list,
    };
    list.paths = calloc(TOUCHED_PATHS, sizeof *list.paths);
    list.folders = calloc(TOUCHED_PATHS, sizeof *list.folders);
    list.links = calloc(TOUCHED_PATHS, sizeof *list.links);
    list.files = calloc(TOUCHED_PATHS, sizeof *list.files);
    int status = FY_ERR_NOMEM;
    if (list.paths && list.links && list.files && list.folders) {
        look_everywhere(&walk, &list);
        struct fy_touched touched = {.npaths = list.n,
                                     .paths = list.paths,
                                     .nfolders = list.nfolders,
                                     .folders = list.folders,
                                     .nlinks = list.nlinks,
                                     .links = list.links,
                                     .nfiles = list.nfiles,
                                     .files = list.files,
                                     .complete =
                                         list.complete && walk.complete};
        status = fy_touched_encode(&touched, out, out_bytes);
        if (status == FY_ERR_OVERFLOW) {
            touched.nfiles = 0; /* files only spare the client questions */
            status = fy_touched_encode(&touched, out, out_bytes);
        }
    }
    for (uint32_t i = 0; i < list.n; i++) {
        free((void *)(uintptr_t)list.paths[i].at);
    }
    for (uint32_t i = 0; i < list.nlinks; i++) {
        free((void *)(uintptr_t)list.links[i].target.at);
    }
    free(list.paths);
    free(list.links);
    free(list.files);
    free(list.folders);
    return status;
}
