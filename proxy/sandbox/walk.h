/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over a folder of the storage host that ends by itself: after so many
 * entries or so much time, because a client waits for it.
 * Never follows a link and never leaves the file system it began on.
 */
#ifndef FERRY_PROXY_SANDBOX_WALK_H
#define FERRY_PROXY_SANDBOX_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * openat2(2) of `path' beneath `folder': neither ".." nor a link leads out of it.
 * `flags': O_*, close-on-exec is added; `resolve': further RESOLVE_* of
 * linux/openat2.h. A descriptor, or -1 with errno. A rename meanwhile is waited
 * out.
 */
int fy_open_beneath(int folder, const char *path, uint64_t flags,
                    uint64_t resolve);

/* Moves `name', a path beneath a folder, one up; false: it is ".", the folder. */
bool fy_walk_up(char *name);

struct fy_walk {
    uint64_t entries_left; /* in: the most that are looked at */
    uint64_t end_ns;       /* CLOCK_MONOTONIC */
    bool complete;         /* out: nothing was left out */
    /* For each, `path' as built on the name that was given. */
    void (*found)(void *context, const char *path, const struct statx *facts);
    /* Whether an entry of a folder is looked at at all, by its name; or NULL. */
    bool (*wanted)(void *context, const char *name);
    /* Whether a folder is entered that lies `depth' below the first; or NULL. */
    bool (*enters)(void *context, const char *path, unsigned depth);
    void *context;
};

/*
 * Looks at `name' beneath the folder `root_fd' ("." for itself; nothing outside
 * it is ever reached) and, when `tree', at everything below; `name' is the path
 * that `found' sees, joined to `prefix'. Sets complete to false when it was cut
 * short, leaves it otherwise. A name that does not exist is nothing.
 */
void fy_walk(struct fy_walk *walk, int root_fd, const char *prefix,
             const char *name, bool tree);

/*
 * The same by the real name of `name', where a link leads to it or to the nearest
 * folder above that exists; and each folder above that real name, as a path that
 * is known by two names has two folders that it is in. Otherwise does nothing.
 */
void fy_walk_behind(struct fy_walk *walk, int root_fd, const char *prefix,
                    const char *name, bool tree);

/*
 * The path `path' (absolute, or relative to `cwd') as a name beneath `mount':
 * without its lexical `.' and doubled slashes; `..' is refused. "." for the
 * mount itself. False: not beneath it, or too long.
 */
bool fy_walk_name(const char *mount, const char *cwd, const char *path,
                  char *out, size_t capacity);

/*
 * Whether a command that is given the first n bytes of `name', an entry of a
 * folder, might also write `entry' of the same: that itself; what begins like it
 * without its suffix (f~, f.gz, f.1; for f.gz also f; the pieces of a prefix); and
 * what it is with another kind of suffix (for f-gz, f).
 */
bool fy_name_related(const char *entry, const char *name, size_t n);

#endif
