/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether ferry may start CUDA in this process. cuInit() is for once and for all:
 * it reads CUDA_VISIBLE_DEVICES, and children that the process forks after it
 * cannot use CUDA. So a program that uses CUDA, or has packages installed that
 * do, starts it first; ferry's calls run their originals until then.
 */
#include "config.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pager/device/cuda/internal.h"
#include "pager/device/cuda/users.h"

enum {
    LOADER_SECONDS = 1,
    MOST_FOLDERS = 4,
};

/* Files of Python packages that use CUDA, below a folder of packages. */
static const char *const packages[] = {
    "torch/lib/libtorch_cuda.so",
    "cupy",
    "jax_cuda12_plugin",
    "jax_cuda13_plugin",
    "jaxlib/cuda",
    "tensorflow/libtensorflow_cc.so.2",
    "numba_cuda",
    "pycuda",
    "cuda/bindings",
    "cudf",
    "onnxruntime/capi/libonnxruntime_providers_cuda.so",
    "mxnet/libmxnet.so",
    "paddle/base/libpaddle.so",
};

static bool patient;
/* The next three belong to the thread that opens a device: one at a time. */
static int (*device_count)(int *); /* of the driver that the program loaded */
static unsigned long long looked;  /* dlpi_adds at the last search */
static char found[80];             /* result of that search */

void
cuda_start_early(bool early)
{
    __atomic_store_n(&patient, !early, __ATOMIC_RELAXED);
}

/* Among the objects that the program has loaded. */
struct loaded {
    bool driver, python;
    unsigned long long adds;
    unsigned folders;
    char folder[MOST_FOLDERS][PATH_MAX]; /* of Python packages */
};

static bool
note_package(const char *folder, size_t length)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++) {
        int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder,
                         packages[i]);
        if (n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0) {
            (void)snprintf(found, sizeof found, "%.*s",
                           (int)strcspn(packages[i], "/"), packages[i]);
            return true;
        }
    }
    return false;
}

static int
look_at(struct dl_phdr_info *info, size_t bytes, void *closure)
{
    static const char *const kinds[] = {"/site-packages/", "/dist-packages/"};
    struct loaded *l = closure;
    const char *path = info->dlpi_name;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (bytes > offsetof(struct dl_phdr_info, dlpi_adds)) {
        l->adds = info->dlpi_adds;
    }
    l->driver = l->driver || strncmp(name, "libcuda.so", 10) == 0;
    l->python = l->python || strncmp(name, "libpython", 9) == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *at = strstr(path, kinds[i]);
        if (at && l->folders < MOST_FOLDERS) {
            char *folder = l->folder[l->folders];
            (void)snprintf(folder, PATH_MAX, "%.*s",
                           (int)((size_t)(at - path) + strlen(kinds[i]) - 1),
                           path);
            bool known = false;
            for (unsigned k = 0; k < l->folders; k++) {
                known = known || strcmp(l->folder[k], folder) == 0;
            }
            l->folders += !known;
        }
    }
    return 0;
}

static bool
is_python(const struct loaded *l)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return l->python || l->folders > 0 ||
           (slash && strncmp(slash + 1, "python", 6) == 0);
}

/* Below a prefix that a Python has. */
static bool
search_prefix(const char *prefix, const char *below)
{
    char pattern[PATH_MAX];
    glob_t list;
    bool any = false;
    int n = snprintf(pattern, sizeof pattern, "%s/%s", prefix, below);
    if (prefix[0] != '/' || n < 0 || (size_t)n >= sizeof pattern ||
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): no tilde */
        glob(pattern, 0, NULL, &list) != 0) {
        return false;
    }
    for (size_t i = 0; i < list.gl_pathc && !any; i++) {
        any = note_package(list.gl_pathv[i], strlen(list.gl_pathv[i]));
    }
    globfree(&list);
    return any;
}

/* Where an interpreter would look, as far as its environment says. */
static bool
search(const struct loaded *l)
{
    static const struct {
        const char *variable, *prefix, *below;
    } places[] = {
        {"VIRTUAL_ENV", NULL, "lib/python3*/site-packages"},
        {"CONDA_PREFIX", NULL, "lib/python3*/site-packages"},
        {"HOME", NULL, ".local/lib/python3*/site-packages"},
        {NULL, "/usr/local", "lib/python3*/*-packages"},
        {NULL, "/usr", "lib/python3*/dist-packages"},
    };
    for (unsigned i = 0; i < l->folders; i++) {
        if (note_package(l->folder[i], strlen(l->folder[i]))) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *prefix =
            places[i].variable ? getenv(places[i].variable) : places[i].prefix;
        if (prefix && search_prefix(prefix, places[i].below)) {
            return true;
        }
    }
    const char *at = getenv("PYTHONPATH");
    while (at && *at != '\0') {
        size_t length = strcspn(at, ":");
        if (length > 0 && length < PATH_MAX && note_package(at, length)) {
            return true;
        }
        at += length + (at[length] == ':');
    }
    return false;
}

/* Whether the program has called cuInit(): nothing is answered before. */
static bool
has_started(void)
{
    int count;
    if (!device_count && fy_cuda_loader_is_free(LOADER_SECONDS)) {
        /* The handle stays: the function is called again. */
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        void *function = driver ? dlsym(driver, "cuDeviceGetCount") : NULL;
        memcpy(&device_count, &function, sizeof device_count);
    }
    return device_count && device_count(&count) != FY_CUDA_NOT_INITIALIZED;
}

int
cuda_start_mode(const struct fy_cuda_driver *driver, int unit,
                char why[FY_CUDA_TEXT_BYTES])
{
    int mode = 0, active = 0;
    unsigned flags;
    if (driver->device_attribute(&mode, FY_CUDA_COMPUTE_MODE, unit) != 0) {
        return 0;
    }
    if (mode == FY_CUDA_PROHIBITED) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "the card's compute mode is PROHIBITED");
        return FY_ERR_NOENT;
    }
    if (mode == FY_CUDA_EXCLUSIVE_PROCESS &&
        __atomic_load_n(&patient, __ATOMIC_RELAXED) &&
        (driver->context_state(unit, &flags, &active) != 0 || !active)) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "the card is for one process at a time (compute mode "
                       "EXCLUSIVE_PROCESS), and the program does not use it "
                       "(see --early)");
        return FY_ERR_LATER;
    }
    return 0;
}

int
cuda_start_may(char why[FY_CUDA_TEXT_BYTES])
{
    struct loaded l = {.driver = false};
    if (!__atomic_load_n(&patient, __ATOMIC_RELAXED) ||
        fy_cuda_driver_is_asked()) {
        return 0;
    }
    (void)dl_iterate_phdr(look_at, &l);
    if (l.driver && has_started()) {
        return 0;
    }
    if (l.driver || cuda_users_any()) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "the program uses CUDA and has not started it yet "
                       "(see --early)");
        return FY_ERR_LATER;
    }
    if (!is_python(&l)) {
        return 0;
    }
    if (l.adds != looked) {
        looked = l.adds;
        found[0] = '\0';
        (void)search(&l);
    }
    if (found[0] == '\0') {
        return 0;
    }
    (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                   "%s is installed: the program may use CUDA and has not "
                   "started it yet (see --early)",
                   found);
    return FY_ERR_LATER;
}
