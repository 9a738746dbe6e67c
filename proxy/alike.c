/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a command reads the file that it writes, by another name: a link, or a
 * second name of the file. What looks for that by itself (cat, grep) cannot when
 * its output comes here first. Asks the file systems, so not in the session's
 * thread.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "annotations/model.h"
#include "proxy/stage.h"

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

int
fy_alike_new(const struct stage *stage, struct fy_alike **out)
{
    const struct fy_invocation *invocation = &stage->invocation;
    const enum fy_stream_kind kinds[2] = {stage->plan.out.kind,
                                          stage->plan.err.kind};
    struct fy_alike found = {.noutputs = 0};
    for (int i = 0; i < 2; i++) {
        const struct fy_stream_fact *fact = &stage->facts.streams[i + 1];
        if (S_ISREG(fact->mode) &&
            (kinds[i] == FY_STREAM_WIRE || kinds[i] == FY_STREAM_SAME)) {
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
