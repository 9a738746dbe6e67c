/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program may define functions with the names of libc's, count their calls, or end at
 * the first call. Ferry's own objects therefore do not call the functions that the
 * dynamic linker finds for them, which are the program's, but those of the library that
 * they were linked with, in the version that they say. Exceptions: functions for memory,
 * because ferry frees some that libc has allocated by the program's malloc(); and
 * programs with a runtime that has to know every thread of the process. Before main, then
 * any thread, any handler, vfork children.
 */
#include "config.h"

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

void *fy_imports_linker;
static bool followed; /* by a runtime */

static bool
is_memory(const char *name)
{
    static const char *const names[] = {
        "malloc",         "calloc",   "realloc",       "reallocarray",
        "free",           "memalign", "aligned_alloc", "malloc_usable_size",
        "posix_memalign", "mallopt",  "malloc_trim",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (fy_texts_equal(name, names[i])) {
            return true;
        }
    }
    return false;
}

/*
 * Sanitizers, also in the program's file, define both: they replace malloc() and have to
 * know of threads, because those hold memory, and run code that they have instrumented.
 */
static int
is_runtime(const struct fy_object *object, void *closure)
{
    (void)closure;
    return !(object->soname && fy_texts_equal(object->soname, "libc.so.6")) &&
           fy_object_symbol(object, "__libc_memalign") &&
           fy_object_symbol(object, "pthread_create");
}

struct library {
    const char *soname;
    struct fy_object *out;
};

static int
is_library(const struct fy_object *object, void *closure)
{
    const struct library *wanted = closure;
    if (!object->soname || !fy_texts_equal(object->soname, wanted->soname)) {
        return 0;
    }
    *wanted->out = *object;
    return 1;
}

/* The libraries of the preloaded object were there before main. */
static bool
find_library(const char *soname, bool early, struct fy_object *out)
{
    struct library wanted = {soname, out};
    unsigned n = 0;
    const struct fy_object *startup = fy_object_startup(&n);
    for (unsigned i = 0; startup && i < n; i++) {
        if (is_library(&startup[i], &wanted)) {
            return true;
        }
    }
    return early ? fy_object_each_early(is_library, &wanted)
                 : fy_object_each(is_library, &wanted);
}

static void *
find(const struct fy_object *object, uint32_t i, bool early)
{
    const char *name = object->strings + object->symbols[i].st_name;
    struct fy_object library;
    struct fy_query import;
    const char *soname;
    if (is_memory(name) ||
        (followed && !fy_texts_equal(name, "dl_iterate_phdr"))) {
        return NULL;
    }
    fy_object_own(&library);
    const ElfW(Sym) *symbol = fy_object_symbol(&library, name);
    void *address = symbol ? fy_object_address(&library, symbol) : NULL;
    if (address && !fy_is_thunk(address)) {
        return address;
    }
    if (!fy_object_imports(object, i, &import, &soname) ||
        !find_library(soname, early, &library)) {
        return NULL;
    }
    symbol = fy_object_find(&library, &import);
    return symbol && ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT
               ? fy_object_address(&library, symbol)
               : NULL;
}

void *
fy_imports_bind(uint64_t slot)
{
    struct fy_object own;
    uint64_t count;
    fy_object_own(&own);
    const ElfW(Rela) *row = fy_object_slots(&own, &count) + slot;
    void *address = find(&own, ELF64_R_SYM(row->r_info), true);
    if (address) {
        __atomic_store_n((void **)(own.base + row->r_offset), address,
                         __ATOMIC_RELEASE);
    }
    return address;
}

/* The slots of the PLT are found when they are first called: a start pays for none. With
 * LD_BIND_NOW the dynamic linker has filled all of them, and has not told its function. */
void
fy_imports_start(void)
{
    extern void *table[] __asm__("_GLOBAL_OFFSET_TABLE_") FY_HIDDEN;
    struct fy_object own;
    uint64_t count;
    followed = fy_object_each_early(is_runtime, NULL);
    if (table[2]) {
        fy_imports_linker = table[2];
        table[2] = (void *)(uintptr_t)fy_imports_entry;
        return;
    }
    fy_object_own(&own);
    (void)fy_object_slots(&own, &count);
    for (uint64_t i = 0; i < count; i++) {
        (void)fy_imports_bind(i);
    }
}

/* ---- the engine ------------------------------------------------------------------ */

enum {
    MAX_LED = 8
};
struct led {
    struct fy_object
        objects[MAX_LED]; /* the engine, and objects that came with it */
    unsigned count;
    uint64_t mark;
};

static int
add_needed(const struct fy_object *object, void *closure)
{
    struct led *led = closure;
    if (led->count < MAX_LED && object->serial >= led->mark &&
        fy_object_needs(&led->objects[0], object)) {
        led->objects[led->count++] = *object;
    }
    return 0;
}

static int
lead(const struct fy_object *object, const ElfW(Rela) * relocation, bool lazy,
     void *closure)
{
    void *function = relocation->r_addend && !lazy
                         ? NULL
                         : find(object, ELF64_R_SYM(relocation->r_info), false);
    if (function) {
        fy_writer_store(closure, object->base + relocation->r_offset,
                        (uintptr_t)function);
    }
    return 0;
}

void
fy_imports_lead(const struct fy_object *engine, uint64_t mark)
{
    struct led led = {.objects = {*engine}, .count = 1, .mark = mark};
    struct fy_writer writer;
    fy_object_each(add_needed, &led);
    for (unsigned i = 0; i < led.count; i++) {
        fy_writer_start(&writer, &led.objects[i]);
        fy_object_relocations(&led.objects[i], lead, &writer);
        fy_writer_end(&writer);
    }
}
