/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA comes into a program by a library that needs one of CUDA's, or by
 * dlopen(), which a statically linked runtime uses as well. The first is seen
 * in the list of loaded objects, the second before it happens (the shim has a
 * hook). A second namespace (dlmopen) has a driver of its own.
 */
#include "config.h"

#include "pager/device/cuda/users.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "pager/device/own_thread.h"

static bool any;
static unsigned long long seen_adds; /* dlpi_adds when nobody was found */

void
cuda_users_not_me(void)
{
    fy_own_block()->of_cuda = true;
}

void
cuda_thread_begins(void)
{
    cuda_users_not_me();
    fy_own_thread_begins();
}

bool
cuda_users_is_me(void)
{
    return fy_own_block()->of_cuda;
}

static const char *
last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool
begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static bool
is_of_cuda(const char *name)
{
    static const char *const names[] = {
        "libcuda.so",  "libcudart", "libcublas", "libcusolver",
        "libcusparse", "libcufft",  "libcurand", "libcudnn",
        "libnccl",     "libnvrtc",  "libnvJit",  "libcutensor"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (begins(name, names[i])) {
            return true;
        }
    }
    return false;
}

void
cuda_users_look(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) {
        dlclose(driver);
        __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    }
}

void
cuda_users_loading(const char *file)
{
    if (!cuda_users_is_me() && file && is_of_cuda(last_part(file))) {
        __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    }
}

struct scan {
    bool first, found;
    unsigned long long adds;
};

static int
look_at(struct dl_phdr_info *info, size_t bytes, void *closure)
{
    struct scan *scan = closure;
    const ElfW(Dyn) *dynamic = NULL;
    const char *name = last_part(info->dlpi_name);
    if (scan->first && bytes > offsetof(struct dl_phdr_info, dlpi_adds)) {
        scan->adds = info->dlpi_adds;
        if (scan->adds == __atomic_load_n(&seen_adds, __ATOMIC_RELAXED)) {
            return 1;
        }
    }
    scan->first = false;
    if (begins(name, "libcudart")) {
        scan->found = true; /* no library that ferry loads needs it */
        return 1;
    }
    if (is_of_cuda(name) || begins(name, "libnvidia")) {
        return 0;
    }
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            dynamic =
                (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    const char *strings = NULL;
    for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_STRTAB) {
            /* The loader has made it an address; the vDSO's is none. */
            strings = d->d_un.d_ptr > info->dlpi_addr
                          ? (const char *)d->d_un.d_ptr
                          : NULL;
        }
    }
    for (const ElfW(Dyn) *d = dynamic; strings && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_NEEDED &&
            is_of_cuda(last_part(strings + d->d_un.d_val))) {
            scan->found = true;
            return 1;
        }
    }
    return 0;
}

bool
cuda_users_any(void)
{
    struct scan scan = {.first = true};
    if (__atomic_load_n(&any, __ATOMIC_RELAXED)) {
        return true;
    }
    (void)dl_iterate_phdr(look_at, &scan);
    if (scan.found) {
        __atomic_store_n(&any, true, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(&seen_adds, scan.adds, __ATOMIC_RELAXED);
    }
    return scan.found;
}
