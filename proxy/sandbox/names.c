/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a client's mount would go on showing. sshfs keeps types, names and
 * links' targets by path, and storage/fresh.c can make it forget files and folders that
 * still exist, but no symbolic link and no names in another user's folder: a
 * program of the client that then writes to the link's path writes into its old
 * target. So a stage that may remove or replace a link is refused before it has
 * any effect. Looks at names only, of the folders that hold what the stage
 * writes, and refuses where there are more than it may look at.
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

#include "annotations/model/model.h"
#include "common/clock.h"
#include "common/path.h"
#include "proxy/sandbox/policy.h"
#include "proxy/sandbox/walk.h"
#include "proxy/wire/transport.h"

enum {
    ENTRIES_MAX = 100000, /* of all folders that one stage writes to */
    TIME_MAX_MS = 40,     /* nothing else is served meanwhile */
    CLOCK_EVERY = 256,
    DEPTH_MAX = 64,
};

/* The links in one folder. */
struct links {
    char **names;
    size_t n, capacity;
    bool known; /* of this folder: */
    dev_t device;
    ino_t inode;
};

struct fy_names {
    const struct fy_stage_spec *spec;
    const struct fy_invocation *invocation;
    struct links links;
    unsigned entries;
    uint64_t began_ns;
    unsigned *out_reason;
    struct fy_buffer *why;
};

static int
refuse(struct fy_names *names, const char *a, const char *b, const char *c)
{
    return fy_refuse(names->out_reason, FY_STAGE_FORBIDDEN, names->why, a, b,
                     c);
}

/* False: it has looked at enough. */
static bool
may_go_on(struct fy_names *names)
{
    if (++names->entries % CLOCK_EVERY) {
        return true;
    }
    uint64_t spent_ms = (fy_clock_ns() - names->began_ns) / 1000000;
    return names->entries < ENTRIES_MAX && spent_ms < TIME_MAX_MS;
}

static void
forget_links(struct links *links)
{
    while (links->n) {
        free(links->names[--links->n]);
    }
    links->known = false;
}

static bool
add_link(struct links *links, const char *name)
{
    if (links->n == links->capacity) {
        size_t capacity = links->capacity ? 2 * links->capacity : 16;
        char **larger = realloc(links->names, capacity * sizeof *larger);
        if (!larger) {
            return false;
        }
        links->names = larger;
        links->capacity = capacity;
    }
    links->names[links->n] = strdup(name);
    return links->names[links->n] && ++links->n;
}

/* DT_*; what goes away meanwhile is DT_UNKNOWN. */
static unsigned
type_of(int folder, const struct dirent *entry)
{
    struct stat about;
    if (entry->d_type != DT_UNKNOWN) {
        return entry->d_type;
    }
    return fstatat(folder, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0
               ? IFTODT(about.st_mode)
               : DT_UNKNOWN;
}

static bool
is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Fills names->links with those of the folder. */
static int
find_links(struct fy_names *names, int folder, const char *shown)
{
    struct links *links = &names->links;
    struct stat about;
    if (fstat(folder, &about) == 0 && links->known &&
        about.st_dev == links->device && about.st_ino == links->inode) {
        return 0;
    }
    forget_links(links);
    DIR *dir = fy_folder_open(folder, ".");
    struct dirent *entry;
    bool whole = dir;
    for (errno = 0; whole && (entry = readdir(dir)); errno = 0) {
        whole = may_go_on(names) && (type_of(dirfd(dir), entry) != DT_LNK ||
                                     add_link(links, entry->d_name));
    }
    whole = whole && errno == 0;
    if (dir) {
        closedir(dir);
    }
    if (!whole) {
        return refuse(names, "the folder of ", shown,
                      " has too many names to look for links");
    }
    links->known = true;
    links->device = about.st_dev;
    links->inode = about.st_ino;
    return 0;
}

static int
check_related(struct fy_names *names, const char *name, size_t n,
              const char *shown)
{
    bool beside =
        !fy_invocation_is(names->invocation, FY_TRAIT_CHANGES_OPERANDS);
    for (size_t i = 0; i < names->links.n; i++) {
        const char *link = names->links.names[i];
        if (beside ? fy_name_related(link, name, n)
                   : strncmp(link, name, n) == 0 && !link[n]) {
            return refuse(names, link,
                          " is a link, which it may replace beside ", shown);
        }
    }
    return 0;
}

/* No link is in the folder or below; `folder' stays open. */
static int
check_below(struct fy_names *names, int folder, unsigned depth,
            const char *shown)
{
    DIR *dir = depth < DEPTH_MAX ? fy_folder_open(folder, ".") : NULL;
    if (!dir) {
        return refuse(names, shown, ": cannot be looked at for links", NULL);
    }
    struct dirent *entry;
    int status = 0;
    for (errno = 0; !status && (entry = readdir(dir)); errno = 0) {
        unsigned type = type_of(dirfd(dir), entry);
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (!may_go_on(names)) {
            status =
                refuse(names, shown, " holds too much to look for links", NULL);
        } else if (type == DT_LNK) {
            status = refuse(names, entry->d_name,
                            " is a link, which it may replace below ", shown);
        } else if (type == DT_DIR) {
            int below = openat(dirfd(dir), entry->d_name,
                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            status = below >= 0
                         ? check_below(names, below, depth + 1, shown)
                         : refuse(names, shown,
                                  ": cannot be looked at for links", NULL);
            if (below >= 0) {
                close(below);
            }
        }
    }
    if (!status && errno) {
        status = refuse(names, shown, ": cannot be looked at for links", NULL);
    }
    closedir(dir);
    return status;
}

/* Only the owner of a folder makes the client forget its names (storage/fresh.c). */
static int
check_owner(struct fy_names *names, int folder, const char *shown)
{
    struct stat about;
    if (geteuid() != 0 &&
        (fstat(folder, &about) != 0 || about.st_uid != geteuid())) {
        return refuse(names, "the folder of ", shown, " is another user's");
    }
    return 0;
}

/* The last name of a path: its first byte, and its length without slashes. */
static const char *
last_name(const char *path, size_t *out_n)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/') {
        n--;
    }
    size_t start = n;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    *out_n = n - start;
    return path + start;
}

/* What arrives in a folder by one name: a tree, which may be merged with one. */
static int
check_merged(struct fy_names *names, int folder, const char *name, size_t n,
             const char *shown)
{
    char copy[NAME_MAX + 1];
    if (n > NAME_MAX) {
        return 0;
    }
    memcpy(copy, name, n);
    copy[n] = '\0';
    int below =
        openat(folder, copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : refuse(names, shown, ": cannot be looked at for links",
                            NULL);
    }
    int status = check_below(names, below, 0, shown);
    close(below);
    return status;
}

/* One operand that may arrive in the folder, whole (cp) or with its path. */
static int
check_arrival(struct fy_names *names, int folder, const struct fy_use *use,
              const char *shown)
{
    const struct fy_bytes *word = &names->spec->argv[use->arg];
    char text[PATH_MAX];
    if (use->offset > word->n || word->n - use->offset >= sizeof text) {
        return refuse(names, shown, ": a path is too long", NULL);
    }
    memcpy(text, word->at + use->offset, word->n - use->offset);
    text[word->n - use->offset] = '\0';
    size_t n, first = strspn(text, "/");
    const char *last = last_name(text, &n);
    if (n == 0 || (n <= 2 && strncmp(last, "..", n) == 0)) {
        return check_below(names, folder, 0, shown); /* what it holds arrives */
    }
    size_t nfirst = strcspn(text + first, "/");
    int status = check_related(names, last, n, shown);
    status =
        status ? status : check_related(names, text + first, nfirst, shown);
    if (!status && use->kind == FY_USE_TREE) {
        status = check_merged(names, folder, last, n, shown);
    }
    if (!status && use->kind == FY_USE_TREE && text + first != last) {
        status = check_merged(names, folder, text + first, nfirst, shown);
    }
    return status;
}

/* A folder that other operands are put into, or what no word names. */
static int
check_inside(struct fy_names *names, int folder, const struct fy_use *itself,
             const char *shown)
{
    const struct fy_invocation *invocation = names->invocation;
    bool named = false;
    int status = check_owner(names, folder, shown);
    status = status ? status : find_links(names, folder, shown);
    for (uint32_t i = 0; !status && i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use != itself && use->is_listed && !use->is_stdin &&
            use->arg < names->spec->argc) {
            named = true;
            status = check_arrival(names, folder, use, shown);
        }
    }
    return status || named ? status : check_below(names, folder, 0, shown);
}

/* What is or will be a file: with what the command may write beside it. */
static int
check_beside(struct fy_names *names, const struct fy_root *root,
             const char *relative, const struct fy_use *use, bool exists,
             const char *shown)
{
    char parent[PATH_MAX];
    size_t n;
    const char *name = last_name(relative, &n);
    (void)snprintf(parent, sizeof parent, "%.*s/.", (int)(name - relative),
                   name == relative ? "" : relative);
    int folder = fy_open_beneath(root->fd, name == relative ? "." : parent,
                                 O_RDONLY | O_DIRECTORY, 0);
    if (folder < 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : refuse(names, "the folder of ", shown, " cannot be read");
    }
    int status = find_links(names, folder, shown);
    status = status ? status : check_related(names, name, n, shown);
    if (!status && !(exists && use->access == FY_ACCESS_OUT)) {
        status = check_owner(names, folder, shown);
    }
    close(folder);
    return status;
}

/* Returns false only if it is seen that the last name is no link: an error may hide a link,
 * but no name is none. */
static bool
may_be_link(const struct fy_root *root, const char *relative)
{
    char path[PATH_MAX];
    struct stat about;
    size_t n;
    const char *name = last_name(relative, &n);
    (void)snprintf(path, sizeof path, "%.*s", (int)(name + n - relative),
                   relative);
    if (!n) {
        return false;
    }
    int fd = fy_open_beneath(root->fd, path, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0) {
        return errno != ENOENT && errno != ENOTDIR;
    }
    bool link = fstat(fd, &about) != 0 || S_ISLNK(about.st_mode);
    close(fd);
    return link;
}

int
fy_names_check(struct fy_names *names, const struct fy_root *root,
               const char *relative, const struct fy_use *use,
               const char *shown)
{
    struct stat about;
    int fd = fy_open_beneath(root->fd, relative, O_PATH, 0);
    bool exists = fd >= 0;
    if (exists ? fstat(fd, &about) != 0
               : errno != ENOENT && errno != ENOTDIR && errno != ELOOP &&
                     errno != EXDEV && errno != EACCES) {
        if (exists) {
            close(fd);
        }
        return refuse(names, shown, " cannot be looked at", NULL);
    }
    int status = 0;
    if (!exists || !S_ISDIR(about.st_mode)) {
        status = check_beside(names, root, relative, use, exists, shown);
    } else {
        /* A folder is filled; what else is done to it leaves its names alone. */
        bool filled =
            use->access == FY_ACCESS_OUT &&
            (use->kind == FY_USE_TREE || relative[strlen(relative) - 1] == '/');
        if (!filled && may_be_link(root, relative)) {
            status =
                refuse(names, shown, " is a link, which it may replace", NULL);
        } else if (filled) {
            status = check_inside(names, fd, use, shown);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

struct fy_names *
fy_names_new(const struct fy_stage_spec *spec,
             const struct fy_invocation *invocation, unsigned *out_reason,
             struct fy_buffer *why)
{
    struct fy_names *names = calloc(1, sizeof *names);
    if (names) {
        names->spec = spec;
        names->invocation = invocation;
        names->out_reason = out_reason;
        names->why = why;
        names->began_ns = fy_clock_ns();
    }
    return names;
}

int
fy_names_check_folder(struct fy_names *names, const struct fy_root *root,
                      const char *relative, const char *shown)
{
    int fd = fy_open_beneath(root->fd, relative, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return refuse(names, shown, ": cannot be looked at for links", NULL);
    }
    int status = check_owner(names, fd, shown);
    status = status ? status : check_below(names, fd, 0, shown);
    close(fd);
    return status;
}

void
fy_names_free(struct fy_names *names)
{
    if (names) {
        forget_links(&names->links);
        free(names->links.names);
        free(names);
    }
}
