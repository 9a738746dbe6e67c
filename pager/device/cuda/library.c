/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library is loaded once for the process and never unloaded: the program may use the
 * same one, and a later load by the same name gets ferry's copy. So the program's own
 * comes first: loaded, else beside its packages; then the loader's places, then the
 * others of places.c. Of one place the newest major wins that the driver is new enough
 * for.
 */
#include "config.h"

#include "pager/device/cuda/library.h"
#include "pager/device/cuda/places.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/signals.h"

enum {
    MAJORS = 3
};

static const struct {
    const char *name;   /* for people */
    const char *prefix; /* of its functions */
    struct {
        const char *soname;
        int least_driver; /* as cuDriverGetVersion counts */
    } majors[MAJORS];     /* newest first */
} rows[FY_CUDA_LIBRARIES] = {
    [FY_CUDA_CUBLAS] = {"cuBLAS",
                        "cublas",
                        {{"libcublas.so.13", 13000},
                         {"libcublas.so.12", 12000},
                         {"libcublas.so.11", 11000}}},
    /* Its 11 came with CUDA 11 and 12. */
    [FY_CUDA_CUSOLVER] = {"cuSOLVER",
                          "cusolver",
                          {{"libcusolver.so.12", 13000},
                           {"libcusolver.so.11", 11000},
                           {NULL, 0}}},
    [FY_CUDA_CUFFT] = {"cuFFT",
                       "cufft",
                       {{"libcufft.so.12", 13000},
                        {"libcufft.so.11", 12000},
                        {"libcufft.so.10", 11000}}},
    [FY_CUDA_NVRTC] = {"NVRTC",
                       "nvrtc",
                       {{"libnvrtc.so.13", 13000},
                        {"libnvrtc.so.12", 12000},
                        {"libnvrtc.so.11.2", 11020}}},
};

static struct {
    bool asked;
    void *handle;
    char why[FY_CUDA_TEXT_BYTES];
} libraries[FY_CUDA_LIBRARIES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *
open_loaded(const char *soname)
{
    return dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

static void *
open_usual(const char *soname)
{
    return dlopen(soname, RTLD_NOW | RTLD_LOCAL);
}

/* Best first. */
static void *(*const places[])(const char *) = {
    open_loaded, fy_cuda_places_beside, open_usual, fy_cuda_places_open};

/* Lock held. */
static void
load(enum fy_cuda_library l, int driver_version)
{
    const char *too_new = NULL;
    int needed = 0, first = 0;
    while (first < MAJORS && rows[l].majors[first].soname &&
           driver_version < rows[l].majors[first].least_driver) {
        first++; /* not loaded: it would only fail, and later */
    }
    if (first > 0) {
        too_new = rows[l].majors[0].soname;
        needed = rows[l].majors[0].least_driver;
    }
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (int i = first; i < MAJORS && rows[l].majors[i].soname; i++) {
            libraries[l].handle = places[p](rows[l].majors[i].soname);
            if (libraries[l].handle) {
                return;
            }
        }
    }
    if (too_new) {
        (void)snprintf(libraries[l].why, sizeof libraries[l].why,
                       "%s: none is installed that this driver (for CUDA "
                       "%d.%d) can run; %s needs one for %d.%d",
                       rows[l].name, driver_version / 1000,
                       driver_version % 1000 / 10, too_new, needed / 1000,
                       needed % 1000 / 10);
    } else {
        (void)snprintf(libraries[l].why, sizeof libraries[l].why,
                       "%s: %s is not installed", rows[l].name,
                       rows[l].majors[0].soname);
    }
}

/* The library's handle, or NULL. */
static void *
library(enum fy_cuda_library l, int driver_version, bool *loaded)
{
    pthread_mutex_lock(&lock);
    if (!libraries[l].asked) {
        sigset_t before;
        fy_signals_block(&before);
        load(l, driver_version);
        fy_signals_restore(&before);
        libraries[l].asked = true;
        *loaded = libraries[l].handle;
    }
    void *handle = libraries[l].handle;
    pthread_mutex_unlock(&lock);
    return handle;
}

void *
fy_cuda_function(int driver_version, const char *name, bool *loaded)
{
    *loaded = false;
    for (int l = 0; l < FY_CUDA_LIBRARIES; l++) {
        if (strncmp(name, rows[l].prefix, strlen(rows[l].prefix)) == 0) {
            void *handle =
                library((enum fy_cuda_library)l, driver_version, loaded);
            return !handle ? NULL : dlsym(handle, name);
        }
    }
    return NULL;
}

void
fy_cuda_library_why(enum fy_cuda_library l, char why[FY_CUDA_TEXT_BYTES])
{
    pthread_mutex_lock(&lock);
    memcpy(why, libraries[l].why, FY_CUDA_TEXT_BYTES);
    pthread_mutex_unlock(&lock);
}

void
fy_cuda_function_why(const char *name, char why[FY_CUDA_TEXT_BYTES])
{
    why[0] = '\0';
    for (int l = 0; l < FY_CUDA_LIBRARIES; l++) {
        if (strncmp(name, rows[l].prefix, strlen(rows[l].prefix)) == 0) {
            fy_cuda_library_why((enum fy_cuda_library)l, why);
            break;
        }
    }
    if (why[0] == '\0') {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "the installed libraries have no %s", name);
    }
}

/* Functions that every handle of these libraries has. */
struct handle_functions {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, fy_cuda_handle stream);
    int (*set_workspace)(void *handle, void *memory, size_t bytes);
};

static bool
find(const char *name, int driver_version, void *out)
{
    bool loaded;
    void *function = fy_cuda_function(driver_version, name, &loaded);
    memcpy(out, &function, sizeof function);
    return function;
}

static bool
handle_functions(enum fy_cuda_library l, int version,
                 struct handle_functions *f)
{
    memset(f, 0, sizeof *f);
    if (l == FY_CUDA_CUBLAS) {
        (void)find("cublasSetWorkspace_v2", version, &f->set_workspace);
        return find("cublasCreate_v2", version, &f->create) &&
               find("cublasDestroy_v2", version, &f->destroy) &&
               find("cublasSetStream_v2", version, &f->set_stream);
    }
    return find("cusolverDnCreate", version, &f->create) &&
           find("cusolverDnDestroy", version, &f->destroy) &&
           find("cusolverDnSetStream", version, &f->set_stream);
}

int
fy_cuda_handle_get(struct fy_cuda_handles *handles, enum fy_cuda_library l,
                   int driver_version, fy_cuda_handle stream,
                   uint64_t workspace, size_t workspace_bytes, void **out,
                   bool *fresh)
{
    void **slot = l == FY_CUDA_CUBLAS ? &handles->cublas : &handles->cusolver;
    struct handle_functions f;
    void *handle = NULL;
    *fresh = false;
    if (*slot) {
        *out = *slot;
        return 0;
    }
    if (!handle_functions(l, driver_version, &f)) {
        return -1;
    }
    int status = f.create(&handle);
    if (status != 0) {
        return status;
    }
    status = f.set_stream(handle, stream);
    if (status == 0 && workspace != 0 && f.set_workspace) {
        status = f.set_workspace(handle, (void *)(uintptr_t)workspace,
                                 workspace_bytes);
    }
    if (status != 0) {
        (void)f.destroy(handle);
        return status;
    }
    *slot = handle;
    *out = handle;
    *fresh = true;
    return 0;
}

void
fy_cuda_handles_end(struct fy_cuda_handles *handles, int driver_version)
{
    struct handle_functions f;
    if (handles->cusolver &&
        handle_functions(FY_CUDA_CUSOLVER, driver_version, &f)) {
        (void)f.destroy(handles->cusolver);
    }
    if (handles->cublas &&
        handle_functions(FY_CUDA_CUBLAS, driver_version, &f)) {
        (void)f.destroy(handles->cublas);
    }
    memset(handles, 0, sizeof *handles);
}

/* cublasStatus_t and cusolverStatus_t agree on none but 0. */
static const struct {
    enum fy_cuda_library library;
    int status;
    const char *name;
} statuses[] = {
    {FY_CUDA_CUBLAS, 1, "CUBLAS_STATUS_NOT_INITIALIZED"},
    {FY_CUDA_CUBLAS, 3, "CUBLAS_STATUS_ALLOC_FAILED"},
    {FY_CUDA_CUBLAS, 7, "CUBLAS_STATUS_INVALID_VALUE"},
    {FY_CUDA_CUBLAS, 8, "CUBLAS_STATUS_ARCH_MISMATCH"},
    {FY_CUDA_CUBLAS, 11, "CUBLAS_STATUS_MAPPING_ERROR"},
    {FY_CUDA_CUBLAS, 13, "CUBLAS_STATUS_EXECUTION_FAILED"},
    {FY_CUDA_CUBLAS, 14, "CUBLAS_STATUS_INTERNAL_ERROR"},
    {FY_CUDA_CUBLAS, 15, "CUBLAS_STATUS_NOT_SUPPORTED"},
    {FY_CUDA_CUSOLVER, 1, "CUSOLVER_STATUS_NOT_INITIALIZED"},
    {FY_CUDA_CUSOLVER, 2, "CUSOLVER_STATUS_ALLOC_FAILED"},
    {FY_CUDA_CUSOLVER, 3, "CUSOLVER_STATUS_INVALID_VALUE"},
    {FY_CUDA_CUSOLVER, 4, "CUSOLVER_STATUS_ARCH_MISMATCH"},
    {FY_CUDA_CUSOLVER, 6, "CUSOLVER_STATUS_EXECUTION_FAILED"},
    {FY_CUDA_CUSOLVER, 7, "CUSOLVER_STATUS_INTERNAL_ERROR"},
    {FY_CUDA_CUSOLVER, 9, "CUSOLVER_STATUS_NOT_SUPPORTED"},
    {FY_CUDA_CUFFT, 1, "CUFFT_INVALID_PLAN"},
    {FY_CUDA_CUFFT, 2, "CUFFT_ALLOC_FAILED"},
    {FY_CUDA_CUFFT, 3, "CUFFT_INVALID_TYPE"},
    {FY_CUDA_CUFFT, 4, "CUFFT_INVALID_VALUE"},
    {FY_CUDA_CUFFT, 5, "CUFFT_INTERNAL_ERROR"},
    {FY_CUDA_CUFFT, 6, "CUFFT_EXEC_FAILED"},
    {FY_CUDA_CUFFT, 7, "CUFFT_SETUP_FAILED"},
    {FY_CUDA_CUFFT, 8, "CUFFT_INVALID_SIZE"},
    {FY_CUDA_CUFFT, 9, "CUFFT_UNALIGNED_DATA"},
    {FY_CUDA_CUFFT, 13, "CUFFT_NO_WORKSPACE"},
    {FY_CUDA_CUFFT, 14, "CUFFT_NOT_IMPLEMENTED"},
    {FY_CUDA_CUFFT, 16, "CUFFT_NOT_SUPPORTED"},
};

bool
fy_cuda_status_is_memory(enum fy_cuda_library l, int status)
{
    return status == (l == FY_CUDA_CUBLAS ? 3 : 2);
}

void
fy_cuda_status_text(enum fy_cuda_library l, int status,
                    char text[FY_CUDA_TEXT_BYTES])
{
    const char *name = "status";
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i].library == l && statuses[i].status == status) {
            name = statuses[i].name;
        }
    }
    (void)snprintf(text, FY_CUDA_TEXT_BYTES, "%s: %s (%d)", rows[l].name, name,
                   status);
}
