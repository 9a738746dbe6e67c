/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a stage with effects: the folders and files beneath what it declared to
 * write that changed since it began, so that the client can refresh what its
 * mount remembers of them. New files too: one may have taken an old one's name.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/model.h"
#include "proxy/server.h"
#include "proxy/walk.h"

enum {
    TOUCHED_ENTRIES = 50000, /* looked at */
    TOUCHED_MS = 100,
    TOUCHED_PATHS = 4096, /* listed */
};

struct list {
    const struct fy_server_stage *stage;
    struct fy_bytes *paths;
    uint32_t n;
    bool complete;
};

/* Whether `time' is at or after the stage's beginning. */
static bool
since(const struct fy_server_stage *stage, const struct statx_timestamp *time)
{
    return time->tv_sec > stage->began.seconds ||
           (time->tv_sec == stage->began.seconds &&
            time->tv_nsec >= stage->began.ns);
}

static void
note(void *context, const char *path, const struct statx *facts)
{
    struct list *list = context;
    if (!since(list->stage, &facts->stx_ctime)) {
        return;
    }
    char *copy = list->n < TOUCHED_PATHS ? strdup(path) : NULL;
    if (!copy) {
        list->complete = false;
        return;
    }
    list->paths[list->n++] = (struct fy_bytes){copy, strlen(copy)};
}

/* One path that was declared, and the folder it is in. */
static void
look(struct fy_walk *walk, struct list *list, int root, const char *path,
     bool tree)
{
    const struct fy_stage_spec *spec = &list->stage->spec;
    char name[4096];
    if (!fy_walk_name(spec->mount.at, spec->cwd.at, path, name, sizeof name)) {
        list->complete = false;
        return;
    }
    fy_walk(walk, root, spec->mount.at, name, tree);
    char *slash = strrchr(name, '/');
    if (slash) {
        *slash = '\0';
    } else if (strcmp(name, ".") != 0) {
        strcpy(name, ".");
    } else {
        return;
    }
    fy_walk(walk, root, spec->mount.at, name, false);
}

/*
 * A command that looks for something in the folders above its own (.git) also
 * writes there.
 */
static void
look_above(struct fy_walk *walk, struct list *list, int root)
{
    const struct fy_stage_spec *spec = &list->stage->spec;
    const struct fy_invocation *invocation = &list->stage->invocation;
    char folder[4096], name[4096];
    if (!fy_walk_name(spec->mount.at, spec->cwd.at, ".", folder,
                      sizeof folder)) {
        list->complete = false;
        return;
    }
    const char *before = "";
    size_t nbefore = 0;
    while (invocation->nabsents && strcmp(folder, ".") != 0) {
        char *slash = strrchr(folder, '/');
        if (slash) {
            *slash = '\0';
        } else {
            memcpy(folder, ".", sizeof ".");
        }
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
            int used =
                snprintf(name, sizeof name, "%s%s%.*s", slash ? folder : "",
                         slash ? "/" : "", (int)n, path);
            if (used > 0 && (size_t)used < sizeof name) {
                fy_walk(walk, root, spec->mount.at, name, true);
            }
        }
    }
}

static void
look_everywhere(struct fy_walk *walk, struct list *list, int root)
{
    const struct fy_stage_spec *spec = &list->stage->spec;
    const struct fy_invocation *invocation = &list->stage->invocation;
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->access == FY_ACCESS_IN || use->is_stdin ||
            use->arg >= spec->argc || use->offset > spec->argv[use->arg].n) {
            continue;
        }
        look(walk, list, root, spec->argv[use->arg].at + use->offset, true);
    }
    if (invocation->writes_cwd) {
        look_above(walk, list, root);
        look(walk, list, root, ".", true);
    }
    if (spec->out.kind == FY_STREAM_FILE) {
        look(walk, list, root, spec->out.path.at, false);
    }
    if (spec->err.kind == FY_STREAM_FILE) {
        look(walk, list, root, spec->err.path.at, false);
    }
}

int
fy_server_touched(const struct fy_server_stage *stage, char **out,
                  size_t *out_bytes)
{
    struct list list = {.stage = stage, .complete = true};
    struct fy_walk walk = {
        .entries_left = TOUCHED_ENTRIES,
        .end_ns = fy_server_now_ns() + TOUCHED_MS * UINT64_C(1000000),
        .complete = true,
        .found = note,
        .context = &list,
    };
    unsigned reason;
    int root;
    list.paths = calloc(TOUCHED_PATHS, sizeof *list.paths);
    if (!list.paths) {
        return FY_ERR_NOMEM;
    }
    if (fy_confine_open_root(stage->server->confine, stage->spec.root.at, &root,
                             &reason, NULL) == 0) {
        look_everywhere(&walk, &list, root);
        (void)close(root);
    } else {
        list.complete = false;
    }
    const struct fy_touched touched = {.npaths = list.n,
                                       .paths = list.paths,
                                       .complete =
                                           list.complete && walk.complete};
    int status = fy_touched_encode(&touched, out, out_bytes);
    for (uint32_t i = 0; i < list.n; i++) {
        free((void *)(uintptr_t)list.paths[i].at);
    }
    free(list.paths);
    return status;
}
