/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of the CUDA device: calls of CUDA libraries by prototype, in which
 * handles, workspaces and status integers are filled in when they are issued.
 * Issuing threads only, but for cuda_launch_new.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/model/model.h"
#include "pager/device/cuda/internal.h"

enum {
    MAX_ARGS = 256,
    CUBLAS_WORKSPACE_BYTES = 32
                             << 20, /* the size that Hopper's kernels can use */
    LEAST_MEMORY_BYTES = 8 * CUBLAS_WORKSPACE_BYTES,
    WORKSPACES_IN_MEMORY = 64, /* one is at most that part of all */
    INFO_BYTES = 256,
    MOST_REFUSED_STARTS = 4,
    LIBRARY_BYTES = 512 << 20, /* with less free, a library may not start */
    LOADER_SECONDS = 5,        /* another stream may be loading a library */
};

void
cuda_launch_free(void *prepared)
{
    struct cuda_launch *launch = prepared;
    if (!launch) {
        return;
    }
    free(launch->call);
    free(launch->size);
    free(launch);
}

/* Where argument i of the call is among the size call's, or -1. */
static int
size_argument(const struct cuda_launch *launch, unsigned i)
{
    if (launch->size_mask == 0) {
        return i < launch->workspace ? (int)i : -1;
    }
    if (i >= 32 || (launch->size_mask >> i & 1) == 0) {
        return -1;
    }
    return __builtin_popcount(launch->size_mask & ((UINT32_C(1) << i) - 1));
}

/* The call of size_function: some of the arguments, and an int *. */
static int
new_size_call(struct fy_cif **cifs, const struct fy_launch *from,
              void *const *values, struct cuda_launch *to)
{
    uint8_t types[MAX_ARGS + 1];
    void *all[MAX_ARGS + 1];
    unsigned n = 0;
    to->size_elements = &to->elements;
    for (unsigned i = 0; i < from->nargs; i++) {
        if (size_argument(to, i) >= 0) {
            types[n] = from->types[i];
            all[n++] = values[i];
        }
    }
    types[n] = FY_T_POINTER;
    all[n++] = &to->size_elements;
    struct fy_launch size = {.function = from->size_function,
                             .return_type = FY_T_I32,
                             .nargs = (uint16_t)n,
                             .types = types,
                             .values = all,
                             .result = NULL};
    return fy_call_new(cifs, &size, &to->size);
}

int
cuda_launch_new(struct fy_stream *s, const struct fy_launch *from, void **out)
{
    static uint64_t nothing[2];
    void *values[MAX_ARGS];
    unsigned n = from->nargs;
    int status = FY_ERR_UNSUPPORTED;
    if (n > MAX_ARGS) {
        return status;
    }
    struct cuda_launch *launch = calloc(1, sizeof *launch + n);
    if (!launch) {
        return FY_ERR_NOMEM;
    }
    launch->nargs = n;
    launch->workspace = n;
    launch->size_mask = from->size_arguments;
    launch->info = from->info;
    launch->element_bytes = from->element_bytes;
    if (from->transform) {
        launch->transform = *from->transform;
    }
    launch->returns_status = from->status;
    if (from->grid) {
        launch->is_kernel = true;
        launch->grid = *from->grid;
        launch->kernel = from->function;
    }
    if (from->words) {
        memcpy(launch->words, from->words, n);
    }
    for (unsigned i = 0; i < n; i++) {
        uint8_t word = launch->words[i];
        values[i] = word == FY_WORD_NONE ? from->values[i] : nothing;
        if (word == FY_WORD_WORKSPACE && launch->workspace == n) {
            launch->workspace = i;
        }
        if (word >= FY_WORD_COUNT || (word == FY_WORD_INFO && !from->info) ||
            (word == FY_WORD_LWORK && !from->size_function) ||
            (word == FY_WORD_CUFFT && !from->transform)) {
            goto free_launch;
        }
    }
    struct fy_launch call = *from;
    call.values = values;
    call.return_type = from->status ? FY_T_I32 : from->return_type;
    status = fy_call_new(&s->cifs, &call, &launch->call);
    if (status == 0 && launch->workspace < n) {
        status = !from->size_function
                     ? FY_ERR_UNSUPPORTED
                     : new_size_call(&s->cifs, from, values, launch);
    }
    if (status != 0) {
        goto free_launch;
    }
    *out = launch;
    return 0;

free_launch:
    cuda_launch_free(launch);
    return status;
}

/* A library's answer as a status of the device. */
int
cuda_library_status(struct cuda_device *device, enum fy_cuda_library library,
                    int status)
{
    char text[FY_CUDA_TEXT_BYTES];
    if (status == 0) {
        return 0;
    }
    fy_cuda_status_text(library, status, text);
    return cuda_error(device,
                      fy_cuda_status_is_memory(library, status) ? FY_ERR_NOFIT
                                                                : FY_ERR_DEVICE,
                      text);
}

void
cuda_launch_begin(struct fy_stream *s)
{
    uint64_t limit = s->device->memory.limit_bytes;
    if (limit >= (uint64_t)LEAST_MEMORY_BYTES) {
        uint64_t part = limit / WORKSPACES_IN_MEMORY;
        s->promised_bytes = part < CUBLAS_WORKSPACE_BYTES
                                ? (size_t)part
                                : (size_t)CUBLAS_WORKSPACE_BYTES;
        cuda_memory_promise(s->device, (int64_t)s->promised_bytes);
    }
}

/* The workspace that no plan has counted on. */
static int
take_promised(struct fy_stream *s)
{
    if (s->promised_bytes == 0 || s->cublas_workspace != 0) {
        return 0; /* cuBLAS then looks for itself */
    }
    int status = cuda_memory_take(s->device, s->promised_bytes, true,
                                  &s->cublas_workspace);
    if (status == 0) {
        cuda_memory_promise(s->device, -(int64_t)s->promised_bytes);
    }
    return status;
}

/*
 * A library that cannot be initialised, as cublasCreate() says where it finds too
 * little memory for its kernels: NOFIT when the card has little indeed, and the
 * same has not been said again and again.
 */
static int
initialisation_failed(struct fy_stream *s, enum fy_cuda_library library,
                      int status)
{
    struct cuda_device *device = s->device;
    size_t unused, total;
    int failed = cuda_library_status(device, library, status);
    if (status == FY_CUDA_LIBRARY_NOT_INITIALIZED &&
        __atomic_add_fetch(&device->refused_starts, 1, __ATOMIC_RELAXED) <=
            MOST_REFUSED_STARTS &&
        device->driver->memory_info(&unused, &total) == 0 &&
        unused < (size_t)LIBRARY_BYTES) {
        return FY_ERR_NOFIT;
    }
    return failed;
}

int
cuda_launch_handle(struct fy_stream *s, enum fy_cuda_library library,
                   void **out)
{
    struct cuda_device *device = s->device;
    bool fresh;
    size_t workspace_bytes = s->promised_bytes;
    bool made =
        (library == FY_CUDA_CUBLAS ? s->handles.cublas : s->handles.cusolver);
    /* Making one looks up symbols: the caller, who waits, may hold that lock. */
    if (!made && !fy_cuda_loader_is_free(LOADER_SECONDS)) {
        return cuda_error(device, FY_ERR_BUSY,
                          "CUDA's libraries cannot start inside a library's "
                          "constructor");
    }
    if (library == FY_CUDA_CUBLAS && !made) {
        int status = take_promised(s);
        if (status != 0) {
            return status;
        }
    }
    int status = fy_cuda_handle_get(
        &s->handles, library, device->driver->version, s->handle,
        s->cublas_workspace, workspace_bytes, out, &fresh);
    if (fresh) {
        __atomic_store_n(&device->refused_starts, 0, __ATOMIC_RELAXED);
        cuda_guard_exit();
    }
    if (status == -1) {
        char why[FY_CUDA_TEXT_BYTES];
        fy_cuda_library_why(library, why);
        return cuda_error(device, FY_ERR_UNSUPPORTED, why);
    }
    return status != 0 && !made ? initialisation_failed(s, library, status)
                                : cuda_library_status(device, library, status);
}

void
cuda_launch_drop_workspace(struct fy_stream *s)
{
    if (s->workspace != 0) {
        cuda_memory_release(s->device, s->workspace, true);
        s->workspace = 0;
        s->workspace_bytes = 0;
    }
}

/* The answer of the size call. */
static int
get_workspace(struct fy_stream *s, const struct cuda_launch *launch)
{
    if (launch->elements < 0) {
        return cuda_error(s->device, FY_ERR_UNSUPPORTED,
                          "a workspace is larger than the library can say");
    }
    return cuda_workspace(s, (size_t)launch->elements * launch->element_bytes);
}

int
cuda_workspace(struct fy_stream *s, size_t bytes)
{
    struct cuda_device *device = s->device;
    const struct fy_cuda_driver *driver = device->driver;
    if (bytes <= s->workspace_bytes) {
        return 0;
    }
    /* Calls before may still use the old one. */
    int result = driver->stream_sync(s->handle);
    if (result != 0) {
        return cuda_status(device, "the work before a workspace", result);
    }
    cuda_launch_drop_workspace(s);
    int status = cuda_memory_take(device, bytes, true, &s->workspace);
    if (status == 0) {
        s->workspace_bytes = bytes;
    } else {
        s->workspace = 0;
    }
    return status;
}

static int
prepare_infos(struct fy_stream *s)
{
    struct cuda_device *device = s->device;
    const struct fy_cuda_driver *driver = device->driver;
    int result = 0;
    if (s->info_device == 0) {
        int status =
            cuda_memory_take(device, INFO_BYTES, true, &s->info_device);
        if (status != 0) {
            s->info_device = 0;
            return status;
        }
    }
    if (result == 0 && !s->info_host) {
        void *memory = NULL;
        result = driver->host_alloc(&memory, CUDA_INFOS * sizeof(int), 0);
        s->info_host = memory;
    }
    if (result == 0) {
        result = driver->set32(s->info_device, 0, 1, s->handle);
    }
    return cuda_status(device, "a status integer", result);
}

void
cuda_infos_read(struct fy_stream *s, uint64_t count)
{
    for (; s->infos_read < count; s->infos_read++) {
        unsigned slot = (unsigned)(s->infos_read % CUDA_INFOS);
        *s->info_to[slot] = s->info_host[slot];
    }
}

/* Sends the status integer back; read at the next synchronisation. */
static int
fetch_info(struct fy_stream *s, int64_t *to)
{
    struct cuda_device *device = s->device;
    const struct fy_cuda_driver *driver = device->driver;
    unsigned slot = (unsigned)(s->infos % CUDA_INFOS);
    int result = 0;
    pthread_mutex_lock(&device->lock);
    bool full = s->infos - s->infos_read == CUDA_INFOS;
    pthread_mutex_unlock(&device->lock);
    if (full) {
        result = driver->stream_sync(s->handle);
        if (result == 0) {
            pthread_mutex_lock(&device->lock);
            cuda_infos_read(s, s->infos);
            pthread_mutex_unlock(&device->lock);
        }
    }
    if (result == 0) {
        result = driver->copy_out(&s->info_host[slot], s->info_device,
                                  sizeof(int), s->handle);
    }
    if (result != 0) {
        return cuda_status(device, "a status integer", result);
    }
    pthread_mutex_lock(&device->lock);
    s->info_to[slot] = to;
    s->infos++;
    pthread_mutex_unlock(&device->lock);
    return 0;
}

static void
put(struct cuda_launch *launch, unsigned i, const void *value, size_t bytes)
{
    memcpy(launch->call->values[i], value, bytes);
    int other = !launch->size ? -1 : size_argument(launch, i);
    if (other >= 0) {
        memcpy(launch->size->values[other], value, bytes);
    }
}

/* Handles, and which library the call is of. */
static int
put_handles(struct fy_stream *s, struct cuda_launch *launch,
            enum fy_cuda_library *library)
{
    for (unsigned i = 0; i < launch->nargs; i++) {
        void *handle;
        if (launch->words[i] == FY_WORD_CUBLAS) {
            *library = FY_CUDA_CUBLAS;
        } else if (launch->words[i] == FY_WORD_CUSOLVER) {
            *library = FY_CUDA_CUSOLVER;
        } else if (launch->words[i] == FY_WORD_CUFFT) {
            *library = FY_CUDA_CUFFT;
            int64_t plan = 0; /* for either width */
            int made;
            int status = cuda_fft_plan(s, &launch->transform, &made);
            if (status != 0) {
                return status;
            }
            plan = made;
            put(launch, i, &plan, sizeof plan);
            continue;
        } else {
            continue;
        }
        int status = cuda_launch_handle(s, *library, &handle);
        if (status != 0) {
            return status;
        }
        put(launch, i, &handle, sizeof handle);
    }
    return 0;
}

/* The call holds the parameters. */
static int
launch_kernel(struct fy_stream *s, struct cuda_launch *launch)
{
    const struct fy_grid *g = &launch->grid;
    void *parameters[MAX_ARGS];
    for (unsigned i = 0; i < launch->nargs; i++) {
        parameters[i] = launch->call->values[i];
    }
    return cuda_status(s->device, "a kernel",
                       s->device->driver->launch(
                           launch->kernel, g->grid[0], g->grid[1], g->grid[2],
                           g->block[0], g->block[1], g->block[2],
                           g->shared_bytes, s->handle, parameters, NULL));
}

int
cuda_launch_issue(struct fy_stream *s, struct cuda_launch *launch)
{
    struct cuda_device *device = s->device;
    enum fy_cuda_library library = FY_CUDA_CUBLAS;
    uint64_t result = 0;
    int status = put_handles(s, launch, &library);
    if (status == 0 && launch->size) {
        launch->size->result = &result;
        fy_call_run(launch->size);
        status = cuda_library_status(device, library, (int)result);
        if (status == 0) {
            status = get_workspace(s, launch);
        }
    }
    if (status == 0 && launch->info) {
        status = prepare_infos(s);
    }
    if (status != 0) {
        return status;
    }
    for (unsigned i = 0; i < launch->nargs; i++) {
        if (launch->words[i] == FY_WORD_INFO) {
            put(launch, i, &s->info_device, sizeof s->info_device);
        } else if (launch->words[i] == FY_WORD_WORKSPACE) {
            put(launch, i, &s->workspace, sizeof s->workspace);
        } else if (launch->words[i] == FY_WORD_LWORK) {
            int64_t elements = launch->elements; /* for either width */
            put(launch, i, &elements, sizeof elements);
        }
    }
    if (launch->returns_status) {
        launch->call->result = &result;
    }
    if (launch->is_kernel) {
        status = launch_kernel(s, launch);
        return status != 0 || !launch->info ? status
                                            : fetch_info(s, launch->info);
    }
    fy_call_run(launch->call);
    if (launch->returns_status && (int)result != 0) {
        /* When a kernel has failed before, the driver knows better. */
        status = cuda_status(device, "the work before a call",
                             device->driver->event_record(s->ready, s->handle));
        return status != 0 ? status
                           : cuda_library_status(device, library, (int)result);
    }
    return !launch->info ? 0 : fetch_info(s, launch->info);
}

void
cuda_launch_end(struct fy_stream *s)
{
    const struct fy_cuda_driver *driver = s->device->driver;
    cuda_fft_end(s);
    if (!cuda_is_dead(s->device)) {
        fy_cuda_handles_end(&s->handles, driver->version);
        if (s->info_host) {
            (void)driver->host_free(s->info_host);
        }
    }
    cuda_launch_drop_workspace(s);
    if (s->cublas_workspace != 0) {
        cuda_memory_release(s->device, s->cublas_workspace, true);
    } else {
        cuda_memory_promise(s->device, -(int64_t)s->promised_bytes);
    }
    if (s->info_device != 0) {
        cuda_memory_release(s->device, s->info_device, true);
    }
    cuda_packer_free(&s->own);
}
