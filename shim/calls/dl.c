/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C halves of dlopen, dlsym and dlvsym (arch/.../dl.S), and dlclose. A
 * program that asks for an annotated name gets an object that behaves as the
 * one it asked for, with ferry before it; every other question is passed on as if
 * we were not there, the caller's return address included.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

/* NULL with the right dlerror(), for a name that nobody else defines. */
static void *
not_found(const char *name)
{
    void *volatile next = fy_libc_find()->dlsym(RTLD_NEXT, name);
    return fy_is_thunk(next) ? NULL : next;
}

/* Returns the program's answer where the real dlsym answered `found'. */
static void *
dress(uint32_t symbol, const char *name, void *found)
{
    struct fy_object object;
    if (!found) {
        return NULL;
    }
    if (fy_is_thunk(found)) { /* all that RTLD_GLOBAL opened is asked */
        void *original = fy_scope_global(name);
        return original ? fy_bind_pointer(symbol, original) : not_found(name);
    }
    /* A program's own function is bound to directly, without us, too. */
    if (fy_object_at(found, &object) || object.index == 0) {
        return found;
    }
    return fy_bind_pointer(symbol, found);
}

/* ---- dlopen calls that were jumped to --------------------------------------- */

/*
 * Objects that such a call brought are looked at when the program next asks
 * the dynamic linker for something: by then they are relocated, or that
 * question waits for it.
 */
enum {
    MAX_LATER = 8,
    NAME_BYTES = 64,
    PATH_BYTES = 1024,
};

struct later {
    const void *thread; /* an address of its own */
    uint64_t mark;
    int mode;
    char file[NAME_BYTES];
};
static struct later later[MAX_LATER]; /* under fy_lock() */
static unsigned later_count;

static void
look_later(const struct later *call)
{
    if (fy_lock()) {
        if (later_count < MAX_LATER) {
            later[later_count] = *call;
            __atomic_store_n(&later_count, later_count + 1, __ATOMIC_RELEASE);
        }
        fy_unlock();
    }
}

struct brought {
    const struct later *call;
    char path[PATH_BYTES];
};

static int
find_brought(const struct fy_object *object, void *closure)
{
    struct brought *brought = closure;
    const char *slash = strrchr(object->name, '/');
    if (object->serial < brought->call->mark || !slash ||
        strcmp(slash + 1, brought->call->file) != 0 ||
        strlen(object->name) >= PATH_BYTES) {
        return 0;
    }
    strcpy(brought->path, object->name);
    return 1;
}

static void
opened(const struct link_map *map, int mode, uint64_t mark)
{
    if (mode & RTLD_GLOBAL) {
        fy_bind_note_global(map->l_ld);
    }
    fy_patch_opened(map->l_ld, mark, (mode & RTLD_DEEPBIND) && fy_mode != 0);
}

static bool
look_now(const struct later *call)
{
    const struct fy_libc *libc = fy_libc_find();
    struct brought brought = {.call = call};
    if (!fy_object_each(find_brought, &brought)) {
        return false;
    }
    void *volatile map = libc->dlopen(brought.path, RTLD_NOLOAD | RTLD_LAZY);
    if (map) {
        opened(map, call->mode, call->mark);
        libc->dlclose(map);
    }
    return true;
}

static void
settle(void)
{
    struct later mine[MAX_LATER];
    unsigned count = 0;
    if (!__atomic_load_n(&later_count, __ATOMIC_ACQUIRE) || !fy_lock()) {
        return;
    }
    count = later_count;
    memcpy(mine, later, count * sizeof *mine);
    __atomic_store_n(&later_count, 0, __ATOMIC_RELEASE);
    fy_unlock();
    fy_linking(1);
    for (unsigned i = 0; i < count; i++) {
        /* If it is not there, the call has failed, or is still another
         * thread's. */
        if (!look_now(&mine[i]) && mine[i].thread != &fy_inside) {
            look_later(&mine[i]);
        }
    }
    fy_linking(-1);
}

/* ---- dlsym ------------------------------------------------------------------- */

/*
 * Finds the name behind the objects of the start; the library found then stays
 * (keep.c). FY_DL_TAIL: the real one decides, where the caller looks at home
 * first.
 */
static int
plan_default(struct fy_dl_call *call, uint32_t symbol, const char *name)
{
    struct fy_object caller;
    void *global = NULL, *local = NULL;
    if (fy_scope_startup(name)) {
        return FY_DL_TAIL;
    }
    bool known = fy_object_at(call->caller, &caller) == 0;
    /* Another thread may be closing it. */
    for (int i = 0; i < FY_KEEP_LOOKS; i++) {
        global = fy_scope_global(name);
        if (!global || !known ||
            (fy_keep_for(&caller, global) && fy_scope_global(name) == global)) {
            break;
        }
    }
    if (known && !global) {
        local = fy_scope_local(&caller, name);
    }
    if (!global && !local) {
        call->result = not_found(name);
        return FY_DL_DONE;
    }
    if (known && fy_patch_is_deep(caller.dynamic)) {
        return FY_DL_TAIL;
    }
    call->result = fy_bind_pointer(symbol, global ? global : local);
    (void)dlerror(); /* as the real one: an earlier error is over */
    (void)dlerror();
    return FY_DL_DONE;
}

/*
 * RTLD_DEFAULT and RTLD_NEXT depend on the caller. Whatever they find before
 * us, or in us, is what the program shall get, unless nobody else has it.
 */
static int
plan_by_caller(struct fy_dl_call *call, uint32_t symbol, const char *name)
{
    struct fy_object object;
    if (call->arg0 == RTLD_DEFAULT) {
        return plan_default(call, symbol, name);
    }
    if (fy_object_at(call->caller, &object) == 0 && object.index == 0) {
        /* Only the program is before us: find the next one after us. */
        void *volatile next = fy_libc_find()->dlsym(RTLD_NEXT, name);
        call->result = next ? fy_bind_pointer(symbol, next) : NULL;
        return FY_DL_DONE;
    }
    return FY_DL_TAIL;
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
    settle();
    uint32_t symbol = name ? fy_names_find(name) : FY_NIL;
    if (symbol == FY_NIL) {
        /* No name of ferry's. */
    } else if (call->arg0 == RTLD_DEFAULT || call->arg0 == RTLD_NEXT) {
        what = plan_by_caller(call, symbol, name);
    } else {
        *error = saved;
        void *volatile found = versioned
                                   ? libc->dlvsym(call->arg0, name, call->arg2)
                                   : libc->dlsym(call->arg0, name);
        saved = *error;
        call->result = dress(symbol, name, found);
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

/* ---- dlopen ------------------------------------------------------------------- */

/* Returns true if an object tells the dynamic linker where to look: `rpath'
 * by DT_RPATH alone, which libraries that it loads inherit; else also by its
 * own entries. */
static bool
directs(const struct fy_object *object, bool rpath)
{
    for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
        if (rpath
                ? d->d_tag == DT_RPATH
                : d->d_tag == DT_RUNPATH || (d->d_tag == DT_FLAGS_1 &&
                                             (d->d_un.d_val & DF_1_NODEFLIB))) {
            return true;
        }
    }
    return false;
}

static int
has_rpath(const struct fy_object *object, void *closure)
{
    (void)closure;
    return object->index > 0 && directs(object, true);
}

/*
 * Returns true if the real dlopen does the same for all callers (elf/dl-load.c
 * of glibc): a path without $ORIGIN and the like is taken as it is; a name is
 * looked for by DT_RPATH of the caller and of its loaders (the program's: for
 * all), DT_RUNPATH and DF_1_NODEFLIB of the caller, and then in the same
 * places for all.
 */
static bool
same_for_all(const char *file, const void *caller)
{
    struct fy_object object;
    if (strchr(file, '$')) {
        return false;
    }
    return strchr(file, '/') ||
           (fy_object_at(caller, &object) == 0 && !directs(&object, false) &&
            !fy_object_each(has_rpath, NULL));
}

int
fy_dlopen_plan(struct fy_dl_call *call)
{
    int *error = &errno, saved = *error;
    int mode = (int)(intptr_t)call->arg1, what = FY_DL_TAIL;
    const char *file = call->arg0;
    call->target = (void *)(uintptr_t)fy_libc_find()->dlopen;
    if (fy_image.model && file && file[0]) {
        settle();
        if (!(mode & RTLD_NOLOAD)) {
            fy_engine_loading(file);
        }
        call->extra = fy_object_mark();
        if (same_for_all(file, call->caller)) {
            what = FY_DL_DONE;
            fy_linking(1);
        } else {
            struct later this = {
                .thread = &fy_inside, .mark = call->extra, .mode = mode};
            const char *slash = strrchr(file, '/');
            file = slash ? slash + 1 : file;
            if (mode & RTLD_GLOBAL) {
                fy_bind_note_global(NULL);
            }
            if (strlen(file) < NAME_BYTES) {
                strcpy(this.file, file);
                look_later(&this);
            }
        }
    }
    *error = saved;
    return what;
}

void
fy_dlopen_after(struct fy_dl_call *call)
{
    int *error = &errno, saved = *error;
    if (call->result) {
        /* glibc's handle is the object's public description. */
        opened(call->result, (int)(intptr_t)call->arg1, call->extra);
    }
    fy_linking(-1);
    *error = saved;
}

/*
 * Forgets bindings from or to unloaded objects before they go, because
 * afterwards another thread may have opened others at their addresses.
 * Addresses that the engine knows are forgotten once more behind destructors,
 * which may call.
 */
int
fy_wrap_dlclose(void *handle)
{
    uint64_t loaded, before, after;
    int *error = &errno, saved = *error;
    const struct fy_libc *libc = fy_libc_find();
    settle();
    fy_object_counts(&loaded, &before);
    fy_bind_closing(1);
    fy_bind_retire();
    fy_engine_forget();
    *error = saved;
    fy_linking(1);
    int result = libc->dlclose(handle);
    saved = *error;
    fy_keep_settle();
    fy_linking(-1);
    fy_object_counts(&loaded, &after);
    if (before != after) {
        fy_bind_forget_global();
        fy_engine_forget();
    }
    fy_bind_closing(-1);
    *error = saved;
    return result;
}

__attribute__((visibility("default"), alias("fy_wrap_dlclose"))) int
dlclose(void *handle);

/* ---- dladdr -------------------------------------------------------------------- */

/*
 * The address that the caller would have without ferry in place of a stub, or of a
 * function that libferry.so exports. Any other address is not changed, those inside of
 * ferry's functions neither: profilers ask about them.
 */
static const void *
behind(const void *address, const void *caller)
{
    extern const char own_start[] __asm__("__ehdr_start") FY_HIDDEN;
    extern const char own_end[] __asm__("_end") FY_HIDDEN;
    Dl_info info;
    const void *original = fy_bind_original(address);
    bool ours = fy_is_thunk(address) || ((const char *)address >= own_start &&
                                         (const char *)address < own_end);
    if (!original && ours && fy_libc_find()->dladdr(address, &info) &&
        info.dli_saddr == address) {
        original = fy_original_find(info.dli_sname, caller);
    }
    return original ? original : address;
}

/* All that the caller learns is about the original: fname, fbase, sname and saddr belong
 * together. */
int
fy_wrap_dladdr(const void *address, Dl_info *info)
{
    int *error = &errno, saved = *error;
    settle();
    address = behind(address, __builtin_return_address(0));
    *error = saved;
    return fy_libc_find()->dladdr(address, info);
}

int
fy_wrap_dladdr1(const void *address, Dl_info *info, void **extra, int flags)
{
    int *error = &errno, saved = *error;
    settle();
    address = behind(address, __builtin_return_address(0));
    *error = saved;
    return fy_libc_find()->dladdr1(address, info, extra, flags);
}

__attribute__((visibility("default"), alias("fy_wrap_dladdr"))) int
dladdr(const void *address, Dl_info *info);
__attribute__((visibility("default"), alias("fy_wrap_dladdr1"))) int
dladdr1(const void *address, Dl_info *info, void **extra, int flags);
