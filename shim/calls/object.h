/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded ELF objects of this process, read where they are mapped: no
 * handle is opened, no lock of the dynamic linker is held while we look (only
 * dl_iterate_phdr's own, which no constructor runs under), nothing allocated.
 */
#ifndef FERRY_SHIM_CALLS_OBJECT_H
#define FERRY_SHIM_CALLS_OBJECT_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* An object's own dynamic section and headers. Borrows its mapping. */
struct fy_object {
    uintptr_t base;
    const char *name; /* path as loaded; "" is the program */
    unsigned index;   /* in load order */
    unsigned nphdr;
    /*
     * Index plus the objects unloaded until it was read: never less than that
     * of an object that came before, at whatever time that one was read.
     */
    uint64_t serial;
    uintptr_t low, high; /* addresses of its segments */
    const ElfW(Phdr) * phdr;
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions; /* or NULL */
    const uint32_t *gnu_hash;    /* or NULL */
    const uint32_t *sysv_hash;   /* or NULL */
    const char *soname;          /* or NULL */
};

/* Returns non-zero to end the walk, which then returns that value. */
typedef int fy_object_visit(const struct fy_object *object, void *closure);

/*
 * Visits the loaded objects in load order, without ourselves. The visitor runs
 * under dl_iterate_phdr's lock: it must not load, look up by dlsym, or wait.
 */
int fy_object_each(fy_object_visit *visit, void *closure);

/* Returns a number that is above the serial of each object of now, and not above those of
 * objects that come later. */
uint64_t fy_object_mark(void);

/*
 * Returns the objects that were loaded before main, which stay, in load order;
 * NULL: too many. The first call, before main, walks to them. Later calls, and
 * fy_object_at() for addresses in these objects, take no lock of the dynamic
 * linker, because a child that was forked while another thread held it would
 * wait for ever.
 */
const struct fy_object *fy_object_startup(unsigned *out_n);

/*
 * Walks as fy_object_each() does, but visits the objects behind ferry's first
 * and takes no lock, so that it can be called where another process or thread
 * may hold the lock for ever: the visitor must stop at an object that was
 * there before main. `out' has only the fields that fy_object_symbol() needs, the soname,
 * and the index: 0 for the program alone.
 */
int fy_object_each_early(fy_object_visit *visit, void *closure);

/* Returns true for equal texts. strcmp() would have to be bound in every program that
 * closes a file, and may be a function of the program that is not ready yet. */
bool fy_texts_equal(const char *a, const char *b);

/* Counts the objects that were ever loaded and unloaded. */
void fy_object_counts(uint64_t *loaded, uint64_t *unloaded);

/* The object that contains `address', also ourselves. */
int fy_object_at(const void *address, struct fy_object *out) FY_MUST_CHECK;

/*
 * The symbol that the object defines and exports under that name, in its
 * default version; NULL when it does not.
 */
const ElfW(Sym) *
    fy_object_symbol(const struct fy_object *object, const char *name);

/* A name in the symbol table of an object. */
struct fy_query {
    const char *name;
    const char *version; /* NULL: the default version, else any */
    bool tls;            /* a thread-local variable */
};
/* The symbol that the object defines and exports, or NULL. */
const ElfW(Sym) * fy_object_find(const struct fy_object *object,
                                 const struct fy_query *query);
/*
 * The name and version of the object's symbol i, and the soname of the library that the
 * object was linked with for this import. False: symbol i is no import that names a
 * library. Borrows.
 */
bool fy_object_imports(const struct fy_object *object, uint32_t i,
                       struct fy_query *out, const char **out_soname);

/* The address that a tag of the dynamic section tells, or NULL. */
const void *fy_object_pointer(const struct fy_object *object, ElfW(Sxword) tag);

/* The tables of the preloaded object; it has no name and no segments. No libc. */
void fy_object_own(struct fy_object *out);

/* The relocations of the object's PLT, by their number. */
const ElfW(Rela) *
    fy_object_slots(const struct fy_object *object, uint64_t *out_count);

/* The calling thread's own of a thread-local variable that the object of that soname
 * exports; NULL: none. */
void *fy_object_thread_local(const char *soname, const char *name);

/* Its address; the target, for an IFUNC. */
void *fy_object_address(const struct fy_object *object,
                        const ElfW(Sym) * symbol);

/* Calls visit for each name that the object needs (DT_NEEDED). */
bool fy_object_needs(const struct fy_object *object,
                     const struct fy_object *other);

/* Number of undefined symbols at the start of its table, with the null one. */
uint32_t fy_object_undefined(const struct fy_object *object);

/* The executable segment around `address'; false when it is in none. */
bool fy_object_code(const struct fy_object *object, const void *address,
                    uintptr_t *low, uintptr_t *high);

/* Every relocation that stores a symbol's address; return non-zero to stop. */
typedef int fy_relocation_visit(const struct fy_object *object,
                                const ElfW(Rela) * relocation, bool lazy,
                                void *closure);
int fy_object_relocations(const struct fy_object *object,
                          fy_relocation_visit *visit, void *closure);

#endif
