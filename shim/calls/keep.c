/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc keeps a library loaded for each object that has found a name in it, by its own
 * references or dlsym(RTLD_DEFAULT), until that object goes. Under ferry it sees that
 * object find ferry's thunk. So ferry keeps the library, by a second handle: for
 * objects of the start for ever, for others until a dlclose() has unloaded them.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

enum {
    MAX_KEPT = 128, /* pairs; libraries of more are kept for ever */
};

struct kept {
    const void *user, *library; /* their dynamic sections */
    void *handle; /* of the library; NULL: not complete, or free */
};
static struct kept kept[MAX_KEPT];
static unsigned kept_count; /* the highest that was used */

static bool
is_kept(const void *user, const void *library)
{
    unsigned count = __atomic_load_n(&kept_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++) {
        if (__atomic_load_n(&kept[i].handle, __ATOMIC_ACQUIRE) &&
            kept[i].user == user && kept[i].library == library) {
            return true;
        }
    }
    return false;
}

/* A free row is claimed by its library, which is cleared last. */
static void
note(const void *user, const void *library, void *handle)
{
    for (unsigned i = 0; i < MAX_KEPT; i++) {
        const void *none = NULL;
        if (!__atomic_compare_exchange_n(&kept[i].library, &none, library,
                                         false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED)) {
            continue;
        }
        kept[i].user = user;
        __atomic_store_n(&kept[i].handle, handle, __ATOMIC_RELEASE);
        unsigned count = __atomic_load_n(&kept_count, __ATOMIC_RELAXED);
        while (count <= i && !__atomic_compare_exchange_n(
                                 &kept_count, &count, i + 1, false,
                                 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        }
        return;
    }
}

/* The pending dlerror() stays. */
static void *
open_again(const struct fy_object *library)
{
    const struct fy_libc *libc = fy_libc_find();
    fy_linker_error_find();
    void *error = fy_linker_error_aside();
    fy_linking(1);
    struct link_map *volatile map =
        libc->dlopen(library->name, RTLD_NOLOAD | RTLD_LAZY);
    if (map && map->l_ld != library->dynamic) {
        libc->dlclose(map);
        map = NULL;
    }
    fy_linking(-1);
    fy_linker_error_back(error);
    return map;
}

bool
fy_keep_for(const struct fy_object *user, const void *original)
{
    int *error = &errno, saved = *error;
    struct fy_object library;
    if (fy_object_at(original, &library)) {
        return false;
    }
    const void *until =
        user->index < fy_startup_objects ? NULL : (const void *)user->dynamic;
    if (library.index < fy_startup_objects || library.dynamic == until ||
        is_kept(until, library.dynamic)) {
        return true;
    }
    void *handle = open_again(&library);
    if (handle) {
        note(until, library.dynamic, handle);
    }
    *error = saved;
    return handle != NULL;
}

static int
is_user(const struct fy_object *object, void *closure)
{
    return object->dynamic == closure;
}

static bool
is_gone(const void *user)
{
    return user && !fy_object_each(is_user, (void *)(uintptr_t)user);
}

/* True: a library was let go. Who has taken the handle has the row. */
static bool
let_go(struct kept *row)
{
    void *handle = __atomic_load_n(&row->handle, __ATOMIC_ACQUIRE);
    if (!handle || !is_gone(row->user) ||
        !__atomic_compare_exchange_n(&row->handle, &handle, NULL, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return false;
    }
    if (!is_gone(row->user)) { /* another pair, with the same library */
        __atomic_store_n(&row->handle, handle, __ATOMIC_RELEASE);
        return false;
    }
    __atomic_store_n(&row->library, NULL, __ATOMIC_RELEASE);
    fy_libc_find()->dlclose(handle);
    return true;
}

void
fy_keep_settle(void)
{
    bool again = true;
    while (again) {
        unsigned count = __atomic_load_n(&kept_count, __ATOMIC_ACQUIRE);
        again = false;
        for (unsigned i = 0; i < count; i++) {
            again |= let_go(&kept[i]);
        }
    }
}
