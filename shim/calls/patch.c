/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes slots that the dynamic linker has filled in other objects: weak
 * references that only we satisfy become null again, and objects that dlopen
 * brought get pointers of their own to originals that only they see.
 */
#include "config.h"

#include <string.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

enum {
    MAX_OPENED = 256, /* objects that one dlopen brought */
    MAX_DEEP = 64,
};

/* Dynamic sections of objects that RTLD_DEEPBIND opened; of the last
 * 64. Another object may have come there since. */
static const void *deep_objects[MAX_DEEP];
static unsigned deep_count;

static const ElfW(Sym) *
    symbol_of(const struct fy_object *object, const ElfW(Rela) * relocation)
{
    return &object->symbols[ELF64_R_SYM(relocation->r_info)];
}

/* ---- weak references ------------------------------------------------------ */

struct weak {
    struct fy_object object; /* the one that refers */
    struct fy_writer writer;
    unsigned first;   /* in load order */
    const char *name; /* looked for elsewhere */
    bool defined;
    unsigned count; /* of objects */
};

static bool
refers_weakly(const struct fy_object *object)
{
    uint32_t count = fy_object_undefined(object);
    for (uint32_t i = 1; i < count; i++) {
        const ElfW(Sym) *symbol = &object->symbols[i];
        if (symbol->st_shndx == SHN_UNDEF &&
            ELF64_ST_BIND(symbol->st_info) == STB_WEAK &&
            fy_names_find(object->strings + symbol->st_name) != FY_NIL) {
            return true;
        }
    }
    return false;
}

static int
next_weak(const struct fy_object *object, void *closure)
{
    struct weak *weak = closure;
    weak->count = object->index + 1;
    if (object->index < weak->first || !refers_weakly(object)) {
        return 0;
    }
    weak->object = *object;
    return 1;
}

static int
defines(const struct fy_object *object, void *closure)
{
    struct weak *weak = closure;
    weak->defined = fy_object_symbol(object, weak->name);
    return weak->defined;
}

static int
reset_weak(const struct fy_object *object, const ElfW(Rela) * relocation,
           bool lazy, void *closure)
{
    struct weak *weak = closure;
    const ElfW(Sym) *symbol = symbol_of(object, relocation);
    (void)lazy;
    if (symbol->st_shndx != SHN_UNDEF ||
        ELF64_ST_BIND(symbol->st_info) != STB_WEAK || relocation->r_addend) {
        return 0;
    }
    uintptr_t slot = object->base + relocation->r_offset;
    weak->name = object->strings + symbol->st_name;
    if (fy_names_find(weak->name) == FY_NIL) {
        return 0;
    }
    /* Only slots that were bound to us; lazily bound ones are not tested for null. */
    if (!fy_is_thunk((const void *)*(const uintptr_t *)slot)) {
        return 0;
    }
    weak->defined = false;
    fy_object_each(defines, weak);
    if (!weak->defined) {
        fy_writer_store(&weak->writer, slot, 0);
    }
    return 0;
}

static void
reset_object(struct weak *weak)
{
    fy_writer_start(&weak->writer, &weak->object);
    fy_object_relocations(&weak->object, reset_weak, weak);
    fy_writer_end(&weak->writer);
}

unsigned
fy_patch_start(void)
{
    struct weak weak = {.first = 0};
    while (fy_object_each(next_weak, &weak)) {
        reset_object(&weak);
        weak.first = weak.object.index + 1;
    }
    return weak.count;
}

/* ---- objects that came later ------------------------------------------------ */

struct late {
    struct fy_object object;
    struct fy_writer writer;
    struct fy_object root; /* the object that dlopen was asked for */
    bool deep;             /* RTLD_DEEPBIND */
    /* A name is in several slots, one after the other: the last look-up. */
    uint32_t row;
    void *original;
    bool global; /* by objects that RTLD_GLOBAL opened */
};

/* Our replacement for one of libc's questions to the dynamic linker, or NULL. */
static void *
wrapper(const char *name)
{
    const struct {
        const char *name;
        void *ours;
    } rows[] = {
        {"dlsym", (void *)(uintptr_t)fy_wrap_dlsym},
        {"dlvsym", (void *)(uintptr_t)fy_wrap_dlvsym},
        {"dlopen", (void *)(uintptr_t)fy_wrap_dlopen},
        {"dlclose", (void *)(uintptr_t)fy_wrap_dlclose},
        {"dladdr", (void *)(uintptr_t)fy_wrap_dladdr},
        {"dladdr1", (void *)(uintptr_t)fy_wrap_dladdr1},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (fy_texts_equal(name, rows[i].name)) {
            return rows[i].ours;
        }
    }
    return NULL;
}

/* Most objects import nothing of interest: their relocations are not read. */
static bool
interesting(const struct late *late, const struct fy_object *object)
{
    uint32_t count = fy_object_undefined(object);
    if (late->deep) {
        return true;
    }
    for (uint32_t i = 1; i < count; i++) {
        if (fy_names_find(object->strings + object->symbols[i].st_name) !=
            FY_NIL) {
            return true;
        }
    }
    return false;
}

static void *
find(struct late *late, uint32_t row)
{
    if (row != late->row) {
        late->row = row;
        late->global = false;
        late->original =
            late->deep ? fy_original_deep(row, &late->root)
                       : fy_original_late(row, &late->root, &late->global);
    }
    return late->original;
}

static int
lead_through(const struct fy_object *object, const ElfW(Rela) * relocation,
             bool lazy, void *closure)
{
    struct late *late = closure;
    const ElfW(Sym) *symbol = symbol_of(object, relocation);
    const char *name = object->strings + symbol->st_name;
    uintptr_t slot = object->base + relocation->r_offset;
    uintptr_t value = *(const uintptr_t *)slot;
    if (relocation->r_addend && !lazy) {
        return 0; /* inside a function or a table */
    }
    void *ours = late->deep ? wrapper(name) : NULL;
    uint32_t row = ours ? FY_NIL : fy_names_find(name);
    if (ours) {
        fy_writer_store(&late->writer, slot, (uintptr_t)ours);
    }
    if (row == FY_NIL || value == 0) {
        return 0;
    }
    /*
     * A slot that still leads into its own object's PLT would be overwritten
     * at the first call: look its target up now, as the linker would then.
     */
    bool unbound = lazy && symbol->st_shndx == SHN_UNDEF &&
                   value >= object->low && value < object->high;
    void *original = NULL;
    if (unbound || fy_is_thunk((const void *)value)) {
        original = find(late, row);
    } else if (late->deep) {
        original = (void *)value;
    }
    if (!original || fy_is_thunk(original) || (unbound && late->global)) {
        return 0; /* the last is looked up at the first call, as without us */
    }
    if (late->global &&
        (!fy_keep_for(object, original) || fy_scope_global(name) != original)) {
        return 0;
    }
    void *pointer = late->deep ? fy_bind_pointer(row, original)
                               : fy_bind_stub(row, original);
    if (pointer != (void *)value) {
        fy_writer_store(&late->writer, slot, (uintptr_t)pointer);
    }
    return 0;
}

/* ---- objects of one dlopen ------------------------------------------------ */

/*
 * The new objects among the root and its dependencies. They are relocated, and
 * stay while the root is open; about others that are new we do not know either:
 * another thread may be loading or unloading them just now.
 */
struct opened {
    uint64_t first;                       /* serial */
    const ElfW(Dyn) * member[MAX_OPENED]; /* by their dynamic sections */
    unsigned count;
    const ElfW(Dyn) * wanted;
    struct fy_object current;
};

static int
fetch(const struct fy_object *object, void *closure)
{
    struct opened *opened = closure;
    if (object->dynamic != opened->wanted || object->serial < opened->first) {
        return 0;
    }
    opened->current = *object;
    return 1;
}

static bool
fetch_member(struct opened *opened, unsigned i)
{
    opened->wanted = opened->member[i];
    return fy_object_each(fetch, opened) != 0;
}

/* The dependencies of an old object are older: a new one is reached through
 * new ones. */
static int
add_needed(const struct fy_object *object, void *closure)
{
    struct opened *opened = closure;
    if (object->serial < opened->first) {
        return 0;
    }
    for (unsigned i = 0; i < opened->count; i++) {
        if (opened->member[i] == object->dynamic) {
            return 0;
        }
    }
    if (opened->count < MAX_OPENED &&
        fy_object_needs(&opened->current, object)) {
        opened->member[opened->count++] = object->dynamic;
    }
    return 0;
}

bool
fy_patch_is_deep(const void *dynamic)
{
    for (unsigned i = 0; i < MAX_DEEP; i++) {
        if (__atomic_load_n(&deep_objects[i], __ATOMIC_RELAXED) == dynamic) {
            return true;
        }
    }
    return false;
}

static void
patch_late(const struct opened *opened, struct late *late)
{
    late->object = opened->current;
    if (late->deep && !fy_patch_is_deep(late->object.dynamic)) {
        unsigned i = __atomic_fetch_add(&deep_count, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&deep_objects[i % MAX_DEEP], late->object.dynamic,
                         __ATOMIC_RELAXED);
    }
    if (!interesting(late, &late->object)) {
        return;
    }
    fy_writer_start(&late->writer, &late->object);
    fy_object_relocations(&late->object, lead_through, late);
    fy_writer_end(&late->writer);
}

void
fy_patch_opened(const void *dynamic, uint64_t first, bool deep)
{
    struct opened opened = {.first = first, .member = {dynamic}, .count = 1};
    struct weak weak = {.first = 0};
    struct late late = {.deep = deep, .row = FY_NIL};
    if (!fetch_member(&opened, 0)) {
        return; /* it was there before, and all that it needs */
    }
    late.root = opened.current;
    for (unsigned i = 0; i < opened.count; i++) {
        if (!fetch_member(&opened, i)) {
            continue;
        }
        fy_object_each(add_needed, &opened);
        if (refers_weakly(&opened.current)) {
            weak.object = opened.current;
            reset_object(&weak);
        }
    }
    for (unsigned i = 0; i < opened.count; i++) {
        if (fetch_member(&opened, i)) {
            patch_late(&opened, &late);
        }
    }
}
