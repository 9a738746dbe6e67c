/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a mount of ferry is and how it is asked, from the command line of its ferry-mount
 * in /proc. Its place may name a program (command=), so only a process that is seen to
 * serve the mount is believed (mount_process.c).
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "proxy/storage/mounts.h"

struct search {
    const struct fy_mount_line *line;
    struct fy_mount *mount;
    enum fy_serves best;
};

/* The value of "--name=value"; NULL: another word. */
static const char *
value_of(const char *word, const char *name)
{
    size_t n = strlen(name);
    return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

/* A bind mount of a folder below the root shows that one. */
static bool
add_root(const char *root, struct fy_place *place)
{
    size_t used = strcmp(place->path, "/") == 0 ? 0 : strlen(place->path);
    if (strcmp(root, "/") == 0) {
        return true;
    }
    int n = snprintf(place->path + used, sizeof place->path - used, "%s", root);
    return n > 0 && (size_t)n < sizeof place->path - used;
}

static void
consider(const char *cmdline, size_t n, pid_t pid, enum fy_serves how,
         void *data)
{
    struct search *search = data;
    /* Place and folder are the last words, whatever the process made of the others. */
    const char *control = "", *source = "", *folder = "";
    struct fy_place place;
    for (const char *at = cmdline; at < cmdline + n; at += strlen(at) + 1) {
        const char *value = value_of(at, "--control");
        control = value ? value : control;
        source = folder;
        folder = at;
    }
    struct fy_mount *mount = search->mount;
    if (how <= search->best ||
        (how != FY_SERVES_THIS && strcmp(folder, search->line->point) != 0) ||
        strlen(control) >= sizeof mount->control ||
        fy_place_parse(source, &place, NULL) ||
        !add_root(search->line->root, &place)) {
        return;
    }
    search->best = how;
    mount->place = place;
    mount->pid = pid;
    strcpy(mount->control, control);
}

bool
fy_ferry_learn(const struct fy_mount_line *line, const char *proc,
               struct fy_mount *mount)
{
    static const char *const names[] = {"ferry-mount", NULL};
    struct search search = {line, mount, FY_SERVES_PERHAPS};
    fy_mount_processes(line, proc, names, consider, &search);
    return search.best > FY_SERVES_PERHAPS;
}
