/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a command reads the file that it writes, by another name: a link, or a
 * second name of the file. What looks for that by itself (cat, grep) cannot when
 * its output comes here first.
 *
 * An output on a mount is named in the request: its host compares it with the
 * operands. Nothing is asked of them through the mount, where each costs a round
 * trip. Only where the mount's files are this machine's own (no file system is
 * mounted there) they are looked at here, in a thread of the pool.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "annotations/model/model.h"
#include "common/path.h"
#include "proxy/client/stage.h"

enum {
    NAMES_MAX = 4096, /* operands that are looked at; with more it runs here */
};

struct fy_alike {
    struct {
        uint64_t device, inode;
    } outputs[2];
    unsigned noutputs, nnames;
    bool too_many;
    char *names[];
};

/* Output i (of stdout, stderr), if it is a file that the stub writes. */
static const struct fy_stream_fact *
written_here(const struct stage *stage, int i)
{
    const enum fy_stream_kind kind =
        i == 0 ? stage->plan.out.kind : stage->plan.err.kind;
    const struct fy_stream_fact *fact = &stage->facts.streams[i + 1];
    return S_ISREG(fact->mode) &&
                   (kind == FY_STREAM_WIRE || kind == FY_STREAM_SAME)
               ? fact
               : NULL;
}

static bool
is_local(const struct stage *stage)
{
    bool local = false;
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        local = local || stage->plan.mounts[i]->type[0] == '\0';
    }
    return local;
}

/* Whether files of the stage's host may be seen through `mount', too. */
static bool
is_near(const struct stage *stage, const struct fy_mount *mount,
        uint64_t device)
{
    bool near = false;
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *each = stage->plan.mounts[i];
        near = near || (each->device && each->device == device) ||
               (mount && fy_place_same_host(&each->place, &mount->place));
    }
    return near;
}

bool
fy_alike_outputs(const struct stage *stage, struct fy_bytes out[2],
                 unsigned *out_n)
{
    *out_n = 0;
    for (int i = 0; i < 2; i++) {
        const struct fy_stream_fact *fact = written_here(stage, i);
        if (!fact) {
            continue;
        }
        const struct fy_mount *mount = fy_mount_of(
            stage->session->mounts, stage->session->nmounts, fact->path);
        bool named = false;
        for (unsigned k = 0; mount && k < stage->plan.nmounts; k++) {
            named = named || mount == stage->plan.mounts[k];
        }
        if (named && (!fy_stream_is_named(fact) || stage->invocation.fed)) {
            return false;
        }
        if (named) {
            out[(*out_n)++] = (struct fy_bytes){fact->path, strlen(fact->path)};
        } else if (is_near(stage, mount, fact->device)) {
            return false;
        }
    }
    return true;
}

int
fy_alike_new(const struct stage *stage, struct fy_alike **out)
{
    const struct fy_invocation *invocation = &stage->invocation;
    struct fy_alike found = {.noutputs = 0};
    for (int i = 0; i < 2 && is_local(stage); i++) {
        const struct fy_stream_fact *fact = written_here(stage, i);
        if (fact) {
            found.outputs[found.noutputs].device = fact->device;
            found.outputs[found.noutputs++].inode = fact->inode;
        }
    }
    *out = NULL;
    if (found.noutputs == 0) {
        return 0;
    }
    uint32_t most =
        invocation->nuses < NAMES_MAX ? invocation->nuses : NAMES_MAX;
    struct fy_alike *alike =
        malloc(sizeof *alike + most * sizeof alike->names[0]);
    if (!alike) {
        return FY_ERR_NOMEM;
    }
    *alike = found;
    char path[PATH_MAX];
    alike->too_many = invocation->nuses > NAMES_MAX;
    for (uint32_t i = 0; i < most; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->is_stdin || use->access == FY_ACCESS_OUT ||
            fy_path_join(stage->facts.cwd, stage->argv[use->arg] + use->offset,
                         path)) {
            continue;
        }
        alike->names[alike->nnames] = strdup(path);
        if (!alike->names[alike->nnames++]) {
            fy_alike_free(alike);
            return FY_ERR_NOMEM;
        }
    }
    *out = alike;
    return 0;
}

const char *
fy_alike_find(const struct fy_alike *alike)
{
    for (unsigned i = 0; alike && i < alike->nnames; i++) {
        struct stat status;
        if (stat(alike->names[i], &status) != 0) {
            continue;
        }
        for (unsigned k = 0; k < alike->noutputs; k++) {
            if (status.st_dev == alike->outputs[k].device &&
                status.st_ino == alike->outputs[k].inode) {
                return alike->names[i];
            }
        }
    }
    return alike && alike->too_many ? "who knows which of so many" : NULL;
}

void
fy_alike_free(struct fy_alike *alike)
{
    for (unsigned i = 0; alike && i < alike->nnames; i++) {
        free(alike->names[i]);
    }
    free(alike);
}
