/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fuse.h. Kernels are compiled by a thread of its own that is waited
 * for with patience, but not for ever: the evaluation may be for a thread that
 * holds a lock which a compiler wants.
 */
#include "config.h"

#include "pager/deferred/fuse.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pager/device/own_thread.h"
#include "pager/plan/kernel_call.h"

enum {
    MOST_CALLS = 64, /* of one kernel; compilers take their time */
    MOST_PARTS = 128,
    PATIENCE_SECONDS = 60,
};

/* ---- which calls ---- */

static const struct fy_call_row *
step_of(const struct fy_deferred *call, const struct fy_call_row *row)
{
    uint32_t index = row ? row->next : call->bound.function->cuda_call;

    return index == FY_NIL
               ? NULL
               : &FY_TABLE(call->bound.model, fy_call_row, calls)[index];
}

static bool
is_map(const struct fy_deferred *call)
{
    const struct fy_call_row *row = NULL;
    bool some = false;

    while ((row = step_of(call, row))) {
        if (row->kind != FY_CALL_MAP) {
            return false;
        }
        some = true;
    }
    return some;
}

/* Whether somebody behind call `next' wants what a range holds by then. */
static bool
is_needed(const struct fy_defer_group *group, unsigned next, unsigned row)
{
    for (unsigned i = next; i < group->ncalls; i++) {
        const struct fy_deferred *call = group->calls[i];
        if (call->reads >> row & 1) {
            return true;
        }
        if (call->writes >> row & 1) {
            return false;
        }
    }
    return group->stored >> row & 1;
}

/* ---- the kernel's text ---- */

struct draft {
    struct fy_fused *fused;
    struct fy_map_part parts[MOST_PARTS];
    unsigned call[MOST_PARTS]; /* of the group */
    unsigned nparts;
    struct fy_kernel_buffer buffers[FY_KERNEL_BUFFERS];
};

/* The buffer of a range; FY_ERR_UNSUPPORTED: one too many, or of other type. */
static int
buffer_of(struct draft *draft, const struct fy_deferred *call, unsigned operand,
          uint8_t *out)
{
    struct fy_fused *fused = draft->fused;
    const struct fy_bound *bound = &call->bound;
    const struct fy_operand *rows = FY_OF(bound, fy_operand, operands);
    uint8_t type = (uint8_t)fy_type_resolve((enum fy_type)rows[operand].element,
                                            bound->integer_bits);
    unsigned b = 0;

    while (b < fused->nbuffers && fused->row[b] != call->row[operand]) {
        b++;
    }
    if (b == FY_KERNEL_BUFFERS ||
        (b < fused->nbuffers && draft->buffers[b].type != type)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (b == fused->nbuffers) {
        fused->nbuffers++;
        fused->row[b] = call->row[operand];
        fused->element_bytes[b] = bound->views[operand].element_bytes;
        draft->buffers[b].type = type;
    }
    *out = (uint8_t)b;
    return FY_OK;
}

static int
add_call(struct draft *draft, const struct fy_defer_group *group,
         unsigned number)
{
    const struct fy_deferred *call = group->calls[number];
    const struct fy_call_row *row = NULL;

    while ((row = step_of(call, row))) {
        if (draft->nparts == MOST_PARTS) {
            return FY_ERR_UNSUPPORTED;
        }
        struct fy_map_part *part = &draft->parts[draft->nparts];
        *part = (struct fy_map_part){
            .model = call->bound.model,
            .function = call->bound.function,
            .row = row,
            .integer_bits = call->bound.integer_bits,
        };
        memset(part->buffer, FY_NO_BUFFER, sizeof(part->buffer));
        for (unsigned o = 0; o < call->bound.function->noperands; o++) {
            int status = buffer_of(draft, call, o, &part->buffer[o]);
            if (status) {
                return status;
            }
        }
        draft->call[draft->nparts++] = number;
    }
    return FY_OK;
}

/* What the kernel does to each buffer, from what the calls do in turn. */
static void
find_access(const struct draft *draft, const struct fy_defer_group *group)
{
    struct fy_fused *fused = draft->fused;

    for (unsigned b = 0; b < fused->nbuffers; b++) {
        uint8_t access = 0;
        bool written = false;
        for (unsigned i = 0; i < fused->ncalls; i++) {
            const struct fy_deferred *call = group->calls[fused->first + i];
            if (!written && call->reads >> fused->row[b] & 1) {
                access |= FY_ACCESS_IN;
            }
            written = written || call->writes >> fused->row[b] & 1;
        }
        if (written && draft->buffers[b].store) {
            access |= FY_ACCESS_OUT;
        }
        fused->access[b] = access;
    }
}

/* Types and values of the parameters; no buffer without one has to be there. */
static int
take_parameters(const struct draft *draft, const struct fy_defer_group *group,
                const struct fy_kernel_text *text)
{
    struct fy_fused *fused = draft->fused;
    bool passed[FY_KERNEL_BUFFERS] = {false}, some = false;

    fused->nargs = (uint16_t)text->nparams;
    for (unsigned i = 0; i < text->nparams; i++) {
        const struct fy_kernel_param *param = &text->params[i];
        fused->params[i] = *param;
        fused->types[i] = param->type;
        if (param->kind == FY_PARAM_BUFFER) {
            passed[param->buffer] = some = true;
        } else if (param->kind == FY_PARAM_SCALAR) {
            const struct fy_deferred *call =
                group->calls[draft->call[param->part]];
            int status = fy_map_scalar(&call->bound, param, &fused->scalars[i]);
            if (status) {
                return status;
            }
        }
    }
    for (unsigned b = 0; b < fused->nbuffers; b++) {
        fused->access[b] = passed[b] ? fused->access[b] : 0;
        if (passed[b] && fused->access[b] == 0) {
            return FY_ERR_UNSUPPORTED;
        }
    }
    return some ? FY_OK : FY_ERR_UNSUPPORTED;
}

/* One kernel of calls first .. first + ncalls - 1: its text, to be compiled. */
static int
write_kernel(const struct fy_defer_group *group, struct draft *draft,
             unsigned first, unsigned ncalls, char **out)
{
    struct fy_kernel_text text;
    struct fy_fused *fused = draft->fused;
    int status = FY_OK;

    memset(fused, 0, sizeof(*fused));
    draft->nparts = 0;
    fused->first = first;
    fused->ncalls = ncalls;
    for (unsigned i = 0; i < ncalls && status == FY_OK; i++) {
        status = add_call(draft, group, first + i);
    }
    if (status) {
        return status;
    }
    for (unsigned b = 0; b < fused->nbuffers; b++) {
        draft->buffers[b].store =
            is_needed(group, first + ncalls, fused->row[b]);
    }
    find_access(draft, group);
    status = fy_kernel_generate(draft->parts, draft->nparts, draft->buffers,
                                fused->nbuffers, 1, &text);
    if (status) {
        return status;
    }
    status = take_parameters(draft, group, &text);
    if (status) {
        free(text.text);
        return status;
    }
    *out = text.text;
    return FY_OK;
}

/* ---- the compiler ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running; /* a job, perhaps one that nobody waits for any more */
} compiler = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER};

struct job {
    const struct fy_device_ops *ops;
    struct fy_device *device;
    char *text;
    uint8_t types[FY_KERNEL_PARAMS];
    uint16_t nargs;
    bool done, left;
    int status;
    void *function;
};

static void
job_free(struct job *job)
{
    free(job->text);
    free(job);
}

static void *
compile(void *argument)
{
    struct job *job = argument;
    fy_own_thread_begins(true);
    /*
     * Nothing is joined with what another call computed: its result, which the
     * program may see, is rounded.
     */
    const struct fy_kernel_program program = {
        .text = job->text,
        .file = "deferred calls",
        .entry = FY_KERNEL_ENTRY,
        .fmad = false,
        .nargs = job->nargs,
        .types = job->types,
    };

    job->status = job->ops->kernel(job->device, &program, &job->function);
    pthread_mutex_lock(&compiler.lock);
    compiler.running = false;
    job->done = true;
    bool left = job->left;
    pthread_cond_broadcast(&compiler.changed);
    pthread_mutex_unlock(&compiler.lock);
    if (left) {
        job_free(job);
    }
    return NULL;
}

static int
wait_for(struct job *job)
{
    struct timespec until;
    int error = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&compiler.lock);
    while (!job->done && error != ETIMEDOUT) {
        error =
            pthread_cond_timedwait(&compiler.changed, &compiler.lock, &until);
    }
    job->left = !job->done;
    int status = job->done ? job->status : FY_ERR_BUSY;
    pthread_mutex_unlock(&compiler.lock);
    return status;
}

/* Takes the text. FY_ERR_BUSY as fy_fusion_new(). */
static int
get_function(struct fy_fused *fused, const struct fy_lease *lease, char *text)
{
    struct job *job = calloc(1, sizeof(*job));
    pthread_t thread;

    if (!job) {
        free(text);
        return FY_ERR_NOMEM;
    }
    job->ops = lease->device->ops;
    job->device = lease->device;
    job->text = text;
    job->nargs = fused->nargs;
    memcpy(job->types, fused->types, sizeof(job->types));
    compiler.running = true;
    if (pthread_create(&thread, NULL, compile, job) != 0) {
        compiler.running = false;
        job_free(job);
        return FY_ERR_NOMEM;
    }
    pthread_detach(thread);
    int status = wait_for(job);
    if (job->left) {
        return FY_ERR_BUSY; /* the thread's, from now on */
    }
    fused->function = job->function;
    job_free(job);
    return status == FY_ERR_BUSY ? FY_ERR_UNSUPPORTED : status;
}

static bool
is_stuck(void)
{
    pthread_mutex_lock(&compiler.lock);
    bool running = compiler.running;
    pthread_mutex_unlock(&compiler.lock);
    return running;
}

/* ---- all of a group ---- */

/*
 * The longest kernel that starts at a call, by halves. How many calls it is of;
 * or how many are to be left alone, as a compiler does not want them.
 */
static int
fuse_from(const struct fy_defer_group *group, const struct fy_lease *lease,
          struct draft *draft, unsigned first, unsigned most, unsigned *ncalls,
          bool *made)
{
    unsigned n = 0;
    char *text = NULL;

    while (n < most && first + n < group->ncalls &&
           is_map(group->calls[first + n])) {
        n++;
    }
    *ncalls = 1;
    *made = false;
    for (; n >= 2; n = (n + 1) / 2) { /* fewer each time, at last one */
        int status = write_kernel(group, draft, first, n, &text);
        if (status == FY_OK) {
            status = get_function(draft->fused, lease, text);
            *ncalls = n;
            *made = status == FY_OK;
            return status == FY_ERR_BUSY || status == FY_ERR_NOMEM ? status
                                                                   : FY_OK;
        }
        if (status != FY_ERR_UNSUPPORTED) {
            return status;
        }
    }
    return FY_OK;
}

int
fy_fusion_new(const struct fy_defer_group *group, const struct fy_lease *lease,
              unsigned most, struct fy_fusion **out)
{
    struct fy_fusion *fusion =
        calloc(1, sizeof(*fusion) +
                      (group->ncalls / 2 + 1) * sizeof(fusion->kernels[0]));
    struct draft *draft = calloc(1, sizeof(*draft));
    int status = fusion && draft ? FY_OK : FY_ERR_NOMEM;
    unsigned n;
    bool made;

    if (status == FY_OK && is_stuck()) {
        status = FY_ERR_BUSY;
    }
    most = most ? most : MOST_CALLS;
    for (unsigned i = 0;
         status == FY_OK && lease->device->ops->kernel && i < group->ncalls;
         i += n) {
        draft->fused = &fusion->kernels[fusion->count];
        status = fuse_from(group, lease, draft, i, most, &n, &made);
        fusion->count += made ? 1 : 0;
    }
    free(draft);
    if (status) {
        free(fusion);
        return status;
    }
    *out = fusion;
    return FY_OK;
}

int
fy_fused_launch(const struct fy_fused *fused, const struct fy_device_ops *ops,
                int64_t n, const uint64_t address[FY_KERNEL_BUFFERS],
                struct fy_stream *stream)
{
    const struct fy_kernel_shape shape = {.naxes = 1, .extent = {n}};
    union fy_raw values[FY_KERNEL_PARAMS];
    void *pointers[FY_KERNEL_PARAMS];
    struct fy_grid grid = {.shared_bytes = 0};

    fy_kernel_grid(&shape, grid.grid, grid.block);
    for (unsigned i = 0; i < fused->nargs; i++) {
        const struct fy_kernel_param *param = &fused->params[i];
        values[i] = fused->scalars[i];
        if (param->kind == FY_PARAM_EXTENT) {
            values[i].i = n;
        } else if (param->kind == FY_PARAM_STRIDE) {
            values[i].i = 1;
        } else if (param->kind == FY_PARAM_BUFFER) {
            values[i].u[0] = address[param->buffer];
        }
        pointers[i] = &values[i];
    }
    const struct fy_launch launch = {
        .function = fused->function,
        .return_type = FY_T_VOID,
        .nargs = fused->nargs,
        .types = fused->types,
        .values = pointers,
        .grid = &grid,
    };
    return ops->launch(stream, &launch);
}
