/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the symbol tables of loaded objects in place (object.h). Written
 * against the ELF gABI and the GNU hash section; trusts tables that the
 * dynamic linker has already accepted and relocated.
 */
#include "config.h"

#include "shim/calls/object.h"

#include <string.h>
#include <sys/auxv.h>

#include "shim/calls/shim.h"

enum {
    MAX_STARTUP = 48 /* objects remembered; more are walked to */
};

static uintptr_t
absolute(const struct fy_object *object, uintptr_t pointer)
{
    /* glibc relocates most dynamic sections in place, but not all (vDSO). */
    return pointer < object->base ? pointer + object->base : pointer;
}

static const ElfW(Dyn) *
    dynamic_entry(const struct fy_object *object, ElfW(Sxword) tag)
{
    const ElfW(Dyn) *entry = object->dynamic;
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == tag) {
            return entry;
        }
    }
    return NULL;
}

const void *
fy_object_pointer(const struct fy_object *object, ElfW(Sxword) tag)
{
    const ElfW(Dyn) *entry = dynamic_entry(object, tag);
    return entry ? (const void *)absolute(object, entry->d_un.d_ptr) : NULL;
}

/* False for an object without symbols to look at. */
static bool
read_object(const struct dl_phdr_info *info, struct fy_object *out)
{
    *out = (struct fy_object){.base = info->dlpi_addr,
                              .name = info->dlpi_name ? info->dlpi_name : "",
                              .phdr = info->dlpi_phdr,
                              .nphdr = info->dlpi_phnum,
                              .low = UINTPTR_MAX};
    for (unsigned i = 0; i < out->nphdr; i++) {
        const ElfW(Phdr) *segment = &out->phdr[i];
        uintptr_t start = out->base + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) {
            out->dynamic = (const void *)start;
        }
        if (segment->p_type != PT_LOAD) {
            continue;
        }
        if (start < out->low) {
            out->low = start;
        }
        if (start + segment->p_memsz > out->high) {
            out->high = start + segment->p_memsz;
        }
    }
    return out->dynamic && out->low < out->high;
}

static bool
read_tables(struct fy_object *object)
{
    for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)absolute(object, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_SYMTAB:
            object->symbols = at;
            break;
        case DT_STRTAB:
            object->strings = at;
            break;
        case DT_VERSYM:
            object->versions = at;
            break;
        case DT_GNU_HASH:
            object->gnu_hash = at;
            break;
        case DT_HASH:
            object->sysv_hash = at;
            break;
        default:
            break;
        }
    }
    const ElfW(Dyn) *soname = dynamic_entry(object, DT_SONAME);
    if (soname && object->strings) {
        object->soname = object->strings + soname->d_un.d_val;
    }
    return object->symbols && object->strings;
}

static int
iterate(int (*visit)(struct dl_phdr_info *, size_t, void *), void *closure)
{
    fy_walking(1);
    int result = dl_iterate_phdr(visit, closure);
    fy_walking(-1);
    return result;
}

struct walk {
    fy_object_visit *visit;
    void *closure;
    unsigned index;
};

static int
walk_one(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)size;
    struct walk *walk = closure;
    unsigned index = walk->index++;
    struct fy_object object;
    if (!read_object(info, &object)) {
        return 0;
    }
    uintptr_t self = (uintptr_t)&fy_image;
    if (self >= object.low && self < object.high) {
        return 0;
    }
    if (!read_tables(&object)) {
        return 0;
    }
    object.index = index;
    object.serial = index + info->dlpi_subs;
    return walk->visit(&object, walk->closure);
}

int
fy_object_each(fy_object_visit *visit, void *closure)
{
    struct walk walk = {visit, closure, 0};
    return iterate(walk_one, &walk);
}

static int
find_end(const struct fy_object *object, void *closure)
{
    *(uint64_t *)closure = object->serial + 1;
    return 0;
}

uint64_t
fy_object_mark(void)
{
    uint64_t end = 0;
    fy_object_each(find_end, &end);
    return end;
}

/* ---- the objects of the start ---------------------------------------------------- */

/* These are never unloaded: read once. */
static struct fy_object startup[MAX_STARTUP];
static unsigned startup_count;
static uint8_t startup_state; /* 0, 1 being filled, 2 ready, 3 too many */

static int
remember(const struct fy_object *object, void *closure)
{
    (void)closure;
    if (object->index >= fy_startup_objects) {
        return 1;
    }
    if (startup_count == MAX_STARTUP) {
        return 2;
    }
    startup[startup_count++] = *object;
    return 0;
}

const struct fy_object *
fy_object_startup(unsigned *out_n)
{
    uint8_t state = __atomic_load_n(&startup_state, __ATOMIC_ACQUIRE), none = 0;
    if (state == 0 && fy_startup_objects > 0 &&
        __atomic_compare_exchange_n(&startup_state, &none, 1, false,
                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        state = fy_object_each(remember, NULL) == 2 ? 3 : 2;
        __atomic_store_n(&startup_state, state, __ATOMIC_RELEASE);
    }
    *out_n = startup_count;
    return state == 2 ? startup : NULL;
}

/* The dynamic linker's list of objects, which it publishes for debuggers. */
static const struct link_map *
first_map(void)
{
    const ElfW(Phdr) *phdr = (const void *)fy_start_phdr;
    unsigned long count = fy_start_phnum;
    if (!phdr) {
        phdr = (const void *)getauxval(AT_PHDR);
        count = getauxval(AT_PHNUM);
    }
    const ElfW(Phdr) *own = NULL, *found = NULL;
    for (unsigned long i = 0; phdr && i < count; i++) {
        if (phdr[i].p_type == PT_PHDR) {
            own = &phdr[i];
        } else if (phdr[i].p_type == PT_DYNAMIC) {
            found = &phdr[i];
        }
    }
    if (!own || !found) {
        return NULL; /* where it was loaded is not told */
    }
    const ElfW(Dyn) *dynamic =
        (const void *)((uintptr_t)phdr - own->p_vaddr + found->p_vaddr);
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr) {
            return ((const struct r_debug *)dynamic->d_un.d_ptr)->r_map;
        }
    }
    return NULL;
}

extern const ElfW(Dyn) own[] __asm__("_DYNAMIC") FY_HIDDEN;

void
fy_object_own(struct fy_object *out)
{
    extern const char start[] __asm__("__ehdr_start") FY_HIDDEN;
    *out = (struct fy_object){.base = (uintptr_t)start, .dynamic = own};
    (void)read_tables(out);
}

int
fy_object_each_early(fy_object_visit *visit, void *closure)
{
    const struct link_map *first = first_map(), *self = first;
    while (self && self->l_ld != own) {
        self = self->l_next;
    }
    if (!self) {
        return fy_object_each(visit, closure);
    }
    for (const struct link_map *map = self->l_next; map != self;
         map = map ? map->l_next : first) {
        struct fy_object object;
        if (!map) {
            continue;
        }
        object = (struct fy_object){.base = map->l_addr,
                                    .name = map->l_name,
                                    .index = map == first ? 0 : 1,
                                    .dynamic = map->l_ld};
        int result = read_tables(&object) ? visit(&object, closure) : 0;
        if (result) {
            return result;
        }
    }
    return 0;
}

static int
read_counts(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)size;
    uint64_t *counts = closure;
    counts[0] = info->dlpi_adds;
    counts[1] = info->dlpi_subs;
    return 1;
}

void
fy_object_counts(uint64_t *loaded, uint64_t *unloaded)
{
    uint64_t counts[2] = {0, 0};
    iterate(read_counts, counts);
    *loaded = counts[0];
    *unloaded = counts[1];
}

/* Another object may lie in a gap between segments. */
static bool
contains(const struct fy_object *object, uintptr_t address)
{
    bool inside = false;
    if (address < object->low || address >= object->high) {
        return false;
    }
    for (unsigned i = 0; i < object->nphdr && !inside; i++) {
        const ElfW(Phdr) *segment = &object->phdr[i];
        inside = segment->p_type == PT_LOAD &&
                 address - object->base - segment->p_vaddr < segment->p_memsz;
    }
    return inside;
}

struct at {
    uintptr_t address;
    unsigned index;
    struct fy_object *out;
};

static int
match_at(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)size;
    struct at *at = closure;
    struct fy_object object;
    unsigned index = at->index++;
    if (!read_object(info, &object) || !contains(&object, at->address) ||
        !read_tables(&object)) {
        return 0;
    }
    object.index = index;
    *at->out = object;
    return 1;
}

int
fy_object_at(const void *address, struct fy_object *out)
{
    struct at at = {(uintptr_t)address, 0, out};
    unsigned n = 0;
    const struct fy_object *known = fy_object_startup(&n);
    for (unsigned i = 0; known && i < n; i++) {
        if (contains(&known[i], at.address)) {
            *out = known[i];
            return 0;
        }
    }
    return iterate(match_at, &at) ? 0 : FY_ERR_NOENT;
}

bool
fy_texts_equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

struct variable {
    const char *soname, *name;
    void *found;
};

static int
find_variable(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)size;
    struct variable *variable = closure;
    struct fy_object object;
    if (!info->dlpi_tls_data || !read_object(info, &object) ||
        !read_tables(&object) || !object.soname ||
        !fy_texts_equal(object.soname, variable->soname)) {
        return 0;
    }
    const ElfW(Sym) *symbol = fy_object_find(
        &object, &(struct fy_query){.name = variable->name, .tls = true});
    if (symbol) {
        variable->found = (char *)info->dlpi_tls_data + symbol->st_value;
    }
    return 1;
}

void *
fy_object_thread_local(const char *soname, const char *name)
{
    struct variable variable = {.soname = soname, .name = name};
    (void)iterate(find_variable, &variable);
    return variable.found;
}

void *
fy_object_address(const struct fy_object *object, const ElfW(Sym) * symbol)
{
    uintptr_t address = symbol->st_value;
    if (symbol->st_shndx != SHN_ABS) {
        address += object->base;
    }
    if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC) {
        return ((void *(*)(void))address)();
    }
    return (void *)address;
}

static const char *
last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool
fy_object_needs(const struct fy_object *object, const struct fy_object *other)
{
    for (const ElfW(Dyn) *d = object->dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag != DT_NEEDED) {
            continue;
        }
        const char *name = object->strings + d->d_un.d_val;
        if ((other->soname && strcmp(name, other->soname) == 0) ||
            strcmp(name, other->name) == 0 ||
            strcmp(last_part(name), last_part(other->name)) == 0) {
            return true;
        }
    }
    return false;
}

uint32_t
fy_object_undefined(const struct fy_object *object)
{
    /* The GNU table hashes defined symbols, and sorts them to the end. */
    if (object->gnu_hash) {
        return object->gnu_hash[1];
    }
    return object->sysv_hash ? object->sysv_hash[1] : 0;
}

bool
fy_object_code(const struct fy_object *object, const void *address,
               uintptr_t *low, uintptr_t *high)
{
    for (unsigned i = 0; i < object->nphdr; i++) {
        const ElfW(Phdr) *segment = &object->phdr[i];
        uintptr_t start = object->base + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
            (uintptr_t)address - start < segment->p_filesz) {
            *low = start;
            *high = start + segment->p_filesz;
            return true;
        }
    }
    return false;
}

const ElfW(Rela) *
    fy_object_slots(const struct fy_object *object, uint64_t *out_count)
{
    const ElfW(Dyn) *bytes = dynamic_entry(object, DT_PLTRELSZ);
    *out_count = bytes ? bytes->d_un.d_val / sizeof(ElfW(Rela)) : 0;
    return fy_object_pointer(object, DT_JMPREL);
}

static int
visit_rela(const struct fy_object *object, ElfW(Sxword) tag, size_t bytes,
           fy_relocation_visit *visit, void *closure)
{
    const ElfW(Rela) *row = fy_object_pointer(object, tag);
    for (size_t i = 0; row && i < bytes / sizeof *row; i++) {
        uint32_t type = ELF64_R_TYPE(row[i].r_info);
        if ((type != R_X86_64_64 && type != R_X86_64_GLOB_DAT &&
             type != R_X86_64_JUMP_SLOT) ||
            ELF64_R_SYM(row[i].r_info) == 0) {
            continue;
        }
        int result =
            visit(object, &row[i], type == R_X86_64_JUMP_SLOT, closure);
        if (result) {
            return result;
        }
    }
    return 0;
}

int
fy_object_relocations(const struct fy_object *object,
                      fy_relocation_visit *visit, void *closure)
{
    const ElfW(Dyn) *bytes = dynamic_entry(object, DT_RELASZ);
    if (bytes) {
        int result =
            visit_rela(object, DT_RELA, bytes->d_un.d_val, visit, closure);
        if (result) {
            return result;
        }
    }
    bytes = dynamic_entry(object, DT_PLTRELSZ);
    return bytes ? visit_rela(object, DT_JMPREL, bytes->d_un.d_val, visit,
                              closure)
                 : 0;
}

bool
fy_is_thunk(const void *address)
{
    intptr_t offset = (intptr_t)((uintptr_t)address - (uintptr_t)&fy_image);
    return fy_image.model && offset >= fy_image.code_low &&
           offset < fy_image.code_high;
}
