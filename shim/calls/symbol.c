/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds names and versions in the symbol tables of loaded objects (object.h). Written
 * against the ELF gABI, the GNU hash section and the LSB's symbol versions.
 */
#include "config.h"

#include "shim/calls/object.h"

static uint32_t
gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++) {
        h = h * 33 + *c;
    }
    return h;
}

static bool
matches(const struct fy_object *object, uint32_t i,
        const struct fy_query *query)
{
    const ElfW(Sym) *symbol = &object->symbols[i];
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF ||
        (query->tls ? type != STT_TLS
                    : symbol->st_value == 0 ||
                          (type != STT_FUNC && type != STT_NOTYPE &&
                           type != STT_OBJECT && type != STT_GNU_IFUNC))) {
        return false;
    }
    if (ELF64_ST_BIND(symbol->st_info) == STB_LOCAL) {
        return false;
    }
    return fy_texts_equal(object->strings + symbol->st_name, query->name);
}

enum {
    VERSION_BITS =
        0x7fff, /* of a row of DT_VERSYM; the other one: not the default */
};

static const char *
defined_version(const struct fy_object *object, uint32_t i)
{
    unsigned wanted = object->versions[i] & VERSION_BITS;
    const ElfW(Verdef) *row = fy_object_pointer(object, DT_VERDEF);
    while (row && row->vd_ndx != wanted) {
        row = row->vd_next ? (const void *)((const char *)row + row->vd_next)
                           : NULL;
    }
    if (!row) {
        return "";
    }
    const ElfW(Verdaux) *name = (const void *)((const char *)row + row->vd_aux);
    return object->strings + name->vda_name;
}

/* Returns true for a symbol in the version that the query is about. */
static bool
is_wanted(const struct fy_object *object, uint32_t i,
          const struct fy_query *query)
{
    if (!object->versions) {
        return true;
    }
    return query->version
               ? fy_texts_equal(defined_version(object, i), query->version)
               : object->versions[i] <= VERSION_BITS;
}

static const ElfW(Sym) *
    find_gnu(const struct fy_object *object, const struct fy_query *query)
{
    const char *name = query->name;
    const uint32_t *table = object->gnu_hash;
    uint32_t nbuckets = table[0], first = table[1], nbloom = table[2];
    const uint64_t *bloom = (const uint64_t *)(table + 4);
    const uint32_t *buckets = (const uint32_t *)(bloom + nbloom);
    const uint32_t *chain = buckets + nbuckets;
    uint32_t h = gnu_hash(name);
    uint64_t word = bloom[(h / 64) & (nbloom - 1)];
    if (!(word >> (h % 64) & word >> ((h >> table[3]) % 64) & 1)) {
        return NULL;
    }
    uint32_t i = nbuckets ? buckets[h % nbuckets] : 0;
    const ElfW(Sym) *found = NULL;
    if (i < first) {
        return NULL;
    }
    for (;; i++) {
        uint32_t entry = chain[i - first];
        if ((entry | 1) == (h | 1) && matches(object, i, query)) {
            if (is_wanted(object, i, query)) {
                return &object->symbols[i];
            }
            found = &object->symbols[i];
        }
        if (entry & 1) {
            return query->version ? NULL : found;
        }
    }
}

static const ElfW(Sym) *
    find_sysv(const struct fy_object *object, const struct fy_query *query)
{
    uint32_t h = 0;
    for (const unsigned char *c = (const void *)query->name; *c; c++) {
        h = (h << 4) + *c;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    const uint32_t *table = object->sysv_hash;
    uint32_t nbuckets = table[0];
    const uint32_t *chain = table + 2 + nbuckets;
    uint32_t i = nbuckets ? table[2 + h % nbuckets] : 0;
    const ElfW(Sym) *found = NULL;
    for (; i; i = chain[i]) {
        if (!matches(object, i, query)) {
            continue;
        }
        if (is_wanted(object, i, query)) {
            return &object->symbols[i];
        }
        found = &object->symbols[i];
    }
    return query->version ? NULL : found;
}

const ElfW(Sym) *
    fy_object_find(const struct fy_object *object, const struct fy_query *query)
{
    if (object->gnu_hash) {
        return find_gnu(object, query);
    }
    return object->sysv_hash ? find_sysv(object, query) : NULL;
}

const ElfW(Sym) *
    fy_object_symbol(const struct fy_object *object, const char *name)
{
    return fy_object_find(object, &(struct fy_query){.name = name});
}

bool
fy_object_imports(const struct fy_object *object, uint32_t i,
                  struct fy_query *out, const char **out_soname)
{
    const char *need = fy_object_pointer(object, DT_VERNEED);
    unsigned wanted = object->versions ? object->versions[i] & VERSION_BITS : 0;
    while (need && object->symbols[i].st_shndx == SHN_UNDEF) {
        const ElfW(Verneed) *file = (const void *)need;
        const char *at = need + file->vn_aux;
        for (unsigned n = 0; n < file->vn_cnt; n++) {
            const ElfW(Vernaux) *version = (const void *)at;
            if (version->vna_other == wanted) {
                *out = (struct fy_query){
                    .name = object->strings + object->symbols[i].st_name,
                    .version = object->strings + version->vna_name};
                *out_soname = object->strings + file->vn_file;
                return true;
            }
            at += version->vna_next;
        }
        need = file->vn_next ? need + file->vn_next : NULL;
    }
    return false;
}
