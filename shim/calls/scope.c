/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the original of a name as the dynamic linker would for some caller:
 * first the objects of the start, in load order (that is the order of the
 * global scope), then those that came later with RTLD_GLOBAL, then the caller and its
 * dependencies, breadth first. Reads the loaded objects; opens none, and takes
 * no lock that a constructor may hold.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

const char *
fy_symbol_name(uint32_t symbol)
{
    const struct fy_model *model = fy_shim_model();
    return fy_model_string(model,
                           FY_TABLE(model, fy_symbol, symbols)[symbol].name);
}

enum {
    MAX_CLOSURE = 128, /* objects, of one caller's dependencies */
    MAX_GLOBAL = 64,   /* bits of find_gone() */
};

/* ---- one object after the other ------------------------------------------- */

struct lookup {
    const char *name;
    unsigned low, high; /* of load order */
    struct fy_object object;
    const ElfW(Sym) * symbol;
};

static int
look_in(const struct fy_object *object, void *closure)
{
    struct lookup *lookup = closure;
    if (object->index < lookup->low || object->index >= lookup->high) {
        return 0;
    }
    lookup->symbol = fy_object_symbol(object, lookup->name);
    lookup->object = *object;
    return lookup->symbol != NULL;
}

/* An IFUNC's resolver is foreign code: called after the walk. */
static void *
find_between(const char *name, unsigned low, unsigned high)
{
    struct lookup lookup = {.name = name, .low = low, .high = high};
    if (!fy_object_each(look_in, &lookup)) {
        return NULL;
    }
    return fy_object_address(&lookup.object, lookup.symbol);
}

void *
fy_scope_anywhere(const char *name)
{
    return find_between(name, 0, UINT32_MAX);
}

/* ---- the start -------------------------------------------------------------- */

void *
fy_scope_startup(const char *name)
{
    /*
     * The program itself (0) is before us in every scope: whoever reached a
     * thunk was not bound to it, except through a pointer we gave out.
     */
    unsigned n = 0;
    const struct fy_object *startup = fy_object_startup(&n);
    if (!startup) {
        void *found = find_between(name, 1, fy_startup_objects);
        return found ? found : find_between(name, 0, 1);
    }
    for (unsigned k = 1; k <= n; k++) {
        const struct fy_object *object = &startup[k % n];
        const ElfW(Sym) *symbol = fy_object_symbol(object, name);
        if (symbol) {
            return fy_object_address(object, symbol);
        }
    }
    return NULL;
}

/* ---- a caller and its dependencies -------------------------------------------- */

struct closure {
    const ElfW(Dyn) * member[MAX_CLOSURE]; /* by their dynamic sections */
    unsigned count;
    const ElfW(Dyn) * wanted;
    struct fy_object current;
    const char *name;
    ElfW(Sym) symbol; /* of that name */
    bool found;
};

/* Looks while no object can be unloaded. */
static int
fetch(const struct fy_object *object, void *data)
{
    struct closure *closure = data;
    if (object->dynamic != closure->wanted) {
        return 0;
    }
    closure->current = *object;
    const ElfW(Sym) *symbol = fy_object_symbol(object, closure->name);
    if (symbol) {
        closure->symbol = *symbol;
        closure->found = true;
    }
    return 1;
}

static int
add_needed(const struct fy_object *object, void *data)
{
    struct closure *closure = data;
    if (closure->count == MAX_CLOSURE) {
        return 1;
    }
    for (unsigned i = 0; i < closure->count; i++) {
        if (closure->member[i] == object->dynamic) {
            return 0;
        }
    }
    if (fy_object_needs(&closure->current, object)) {
        closure->member[closure->count++] = object->dynamic;
    }
    return 0;
}

void *
fy_scope_local(const struct fy_object *root, const char *name)
{
    struct closure closure = {.count = 1, .name = name};
    closure.member[0] = root->dynamic;
    for (unsigned at = 0; at < closure.count; at++) {
        closure.wanted = closure.member[at];
        if (!fy_object_each(fetch, &closure)) {
            continue; /* unloaded meanwhile */
        }
        if (closure.found) {
            return fy_object_address(&closure.current, &closure.symbol);
        }
        fy_object_each(add_needed, &closure);
    }
    return NULL;
}

/* ---- everything global ------------------------------------------------------------ */

/* Dynamic sections of objects that were opened with RTLD_GLOBAL, in that order; NULL: of
 * one that has gone. Written under fy_lock(). */
static const void *global_roots[MAX_GLOBAL];
static unsigned global_count; /* more than MAX_GLOBAL: not all are known */
static unsigned global_notes; /* calls of note_global() */

static void
note_global(const void *dynamic)
{
    unsigned count = __atomic_load_n(&global_count, __ATOMIC_RELAXED);
    __atomic_add_fetch(&global_notes, 1, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < count && i < MAX_GLOBAL; i++) {
        if (global_roots[i] == dynamic) {
            return;
        }
    }
    if (count < MAX_GLOBAL) {
        __atomic_store_n(&global_roots[count], dynamic, __ATOMIC_RELEASE);
    }
    if (count <= MAX_GLOBAL) {
        __atomic_store_n(&global_count, count + 1, __ATOMIC_RELEASE);
    }
}

void
fy_bind_note_global(const void *dynamic)
{
    if (dynamic && fy_lock()) {
        note_global(dynamic);
        fy_unlock();
    } else {
        __atomic_store_n(&global_count, MAX_GLOBAL + 1, __ATOMIC_RELEASE);
    }
}

/* Bits of the places whose object has gone. */
static uint64_t
find_gone(void)
{
    uint64_t gone = 0;
    for (unsigned i = 0; i < MAX_GLOBAL; i++) {
        struct fy_object object;
        const void *root = __atomic_load_n(&global_roots[i], __ATOMIC_ACQUIRE);
        bool is_there =
            root && fy_object_at(root, &object) == 0 && object.dynamic == root;
        gone |= (uint64_t)(root && !is_there) << i;
    }
    return gone;
}

/* Places are never moved: a reader may stand at one. */
static void
clear(uint64_t gone)
{
    unsigned count = __atomic_load_n(&global_count, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < MAX_GLOBAL; i++) {
        if (gone >> i & 1) {
            __atomic_store_n(&global_roots[i], NULL, __ATOMIC_RELEASE);
        }
    }
    while (count > 0 && count <= MAX_GLOBAL && !global_roots[count - 1]) {
        count--;
    }
    __atomic_store_n(&global_count, count, __ATOMIC_RELEASE);
}

void
fy_bind_forget_global(void)
{
    unsigned before;
    bool again;
    do { /* an object opened meanwhile may be where another has gone */
        before = __atomic_load_n(&global_notes, __ATOMIC_ACQUIRE);
        uint64_t gone = find_gone();
        if (!gone || !fy_lock()) {
            return;
        }
        again = before != global_notes;
        if (!again) {
            clear(gone);
        }
        fy_unlock();
    } while (again);
}

void *
fy_scope_global(const char *name)
{
    void *found = fy_scope_startup(name);
    unsigned count = __atomic_load_n(&global_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count && i < MAX_GLOBAL && !found; i++) {
        struct fy_object object;
        const void *root = __atomic_load_n(&global_roots[i], __ATOMIC_ACQUIRE);
        if (root && fy_object_at(root, &object) == 0 &&
            object.dynamic == root) {
            found = fy_scope_local(&object, name);
        }
    }
    if (found || count <= MAX_GLOBAL) {
        return found;
    }
    /* This must be no tail call: the real dlsym must see ferry as its
     * caller. */
    fy_linker_error_find();
    void *error = fy_linker_error_aside();
    void *volatile next = fy_libc_find()->dlsym(RTLD_NEXT, name);
    fy_linker_error_back(error);
    return fy_is_thunk(next) ? NULL : next;
}

/* ---- originals --------------------------------------------------------------------- */

void *
fy_original_deep(uint32_t symbol, const struct fy_object *root)
{
    const char *name = fy_symbol_name(symbol);
    void *found = root->dynamic ? fy_scope_local(root, name) : NULL;
    return found ? found : fy_scope_global(name);
}

void *
fy_original_late(uint32_t symbol, const struct fy_object *root,
                 bool *out_global)
{
    const char *name = fy_symbol_name(symbol);
    if (fy_scope_startup(name)) {
        return NULL;
    }
    void *found = fy_scope_global(name);
    *out_global = found;
    return found ? found : fy_scope_local(root, name);
}

void *
fy_original_find(const char *name, const void *caller)
{
    void *found = fy_scope_global(name);
    struct fy_object object;
    if (!found && fy_object_at(caller, &object) == 0) {
        found = fy_scope_local(&object, name);
    }
    return found;
}

void *
fy_bind_sibling(void *original, const char *name)
{
    int *error = &errno, saved = *error;
    struct fy_object object;
    void *found = NULL;
    if (fy_object_at(original, &object) == 0) {
        found = fy_scope_local(&object, name);
    }
    *error = saved;
    return found;
}
