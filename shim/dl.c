/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C halves of dlopen, dlsym and dlvsym (arch/.../dl.S), and dlclose. A
 * program that asks for an annotated name gets something that behaves as what
 * it asked for, with ferry before it; every other question is passed on as if
 * we were not there, the caller's return address included.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>

#include "shim/object.h"
#include "shim/shim.h"

static void *
gadget(const void *caller)
{
    struct fy_object object;
    uintptr_t low, high;
    if (fy_object_at(caller, &object) ||
        !fy_object_code(&object, caller, &low, &high)) {
        return NULL;
    }
    return fy_arch_find_return(caller, (void *)low, (void *)high);
}

/* NULL with the right dlerror(), for a name that nobody else defines. */
static void *
not_found(const char *name)
{
    void *volatile next = fy_libc_find()->dlsym(RTLD_NEXT, name);
    return fy_is_thunk(next) ? NULL : next;
}

/* What the program shall get where the real dlsym answered `found'. */
static void *
dress(uint32_t symbol, const char *name, const void *caller, void *found)
{
    struct fy_object object;
    if (!found) {
        return NULL;
    }
    if (fy_is_thunk(found)) {
        return fy_original_find(symbol, caller) ? found : not_found(name);
    }
    /* A program's own function is bound to directly, without us, too. */
    if (fy_object_at(found, &object) || object.index == 0) {
        return found;
    }
    return fy_bind_pointer(symbol, found);
}

static int
plan(struct fy_dl_call *call, bool versioned)
{
    int *error = &errno, saved = *error;
    const struct fy_libc *libc = fy_libc_find();
    const char *name = call->arg1;
    int what = FY_DL_TAIL;
    call->target = versioned ? (void *)(uintptr_t)libc->dlvsym
                             : (void *)(uintptr_t)libc->dlsym;
    uint32_t symbol = name ? fy_names_find(name) : FY_NIL;
    call->extra = symbol;
    if (symbol == FY_NIL) {
        /* Not ours. */
    } else if (call->arg0 == RTLD_DEFAULT || call->arg0 == RTLD_NEXT) {
        call->gadget = gadget(call->caller);
        if (call->gadget) {
            what = FY_DL_THROUGH;
        }
    } else {
        *error = saved;
        void *volatile found = versioned
                                   ? libc->dlvsym(call->arg0, name, call->arg2)
                                   : libc->dlsym(call->arg0, name);
        saved = *error;
        call->result = dress(symbol, name, call->caller, found);
        what = FY_DL_DONE;
    }
    *error = saved;
    return what;
}

int
fy_dlsym_plan(struct fy_dl_call *call)
{
    return plan(call, false);
}

int
fy_dlvsym_plan(struct fy_dl_call *call)
{
    return plan(call, true);
}

void
fy_dlsym_after(struct fy_dl_call *call)
{
    int *error = &errno, saved = *error;
    call->result =
        dress((uint32_t)call->extra, call->arg1, call->caller, call->result);
    *error = saved;
}

int
fy_dlopen_plan(struct fy_dl_call *call)
{
    int *error = &errno, saved = *error;
    int mode = (int)(intptr_t)call->arg1, what = FY_DL_TAIL;
    call->target = (void *)(uintptr_t)fy_libc_find()->dlopen;
    if (fy_image.model && call->arg0) {
        if (!(mode & RTLD_NOLOAD)) {
            fy_engine_loading(call->arg0);
        }
        call->gadget = gadget(call->caller);
        call->extra = fy_patch_mark();
        if (call->gadget) {
            what = FY_DL_THROUGH;
        } else if (mode & RTLD_GLOBAL) {
            fy_bind_note_global(NULL);
        }
    }
    *error = saved;
    return what;
}

void
fy_dlopen_after(struct fy_dl_call *call)
{
    int *error = &errno, saved = *error;
    int mode = (int)(intptr_t)call->arg1;
    /* glibc's handle is the object's public description. */
    const struct link_map *map = call->result;
    if (map) {
        if (mode & RTLD_GLOBAL) {
            fy_bind_note_global(map->l_ld);
        }
        fy_patch_opened(map->l_ld, call->extra,
                        (mode & RTLD_DEEPBIND) && fy_mode != 0);
    }
    *error = saved;
}

int
fy_wrap_dlclose(void *handle)
{
    uint64_t loaded, before, after;
    int *error = &errno, saved = *error;
    const struct fy_libc *libc = fy_libc_find();
    fy_object_counts(&loaded, &before);
    *error = saved;
    bool told = fy_engine_before_change(); /* calls of what is unloaded */
    int result = libc->dlclose(handle);
    saved = *error;
    fy_engine_after_change(told);
    fy_object_counts(&loaded, &after);
    if (before != after) {
        fy_bind_retire();
        fy_engine_forget();
    }
    *error = saved;
    return result;
}

__attribute__((visibility("default"), alias("fy_wrap_dlclose"))) int
dlclose(void *handle);
