/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symbol table of the preload object: the symbols of libferry.so under
 * their old numbers (its relocations name them), then its exports once
 * more and every annotated name, sorted as the GNU hash table wants it.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/image/build.h"

enum {
    BLOOM_SHIFT = 26,
    BLOOM_BITS_PER_NAME = 12,
};

static uint32_t
hash_name(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++) {
        h = h * 33 + *c;
    }
    return h;
}

static const char *
row_name(const struct fy_build *job, uint32_t row)
{
    return fy_model_string(job->model,
                           FY_TABLE(job->model, fy_symbol, symbols)[row].name);
}

/* Names that our own code calls must stay libc's, and dlsym's ours. */
static bool
in_use(const struct fy_build_base *base, const char *name)
{
    for (uint32_t i = 1; i < base->nsymbols; i++) {
        if (strcmp(base->strings + base->symbols[i].st_name, name) == 0) {
            return true;
        }
    }
    return false;
}

int
fy_build_choose_names(struct fy_build *job)
{
    job->rows =
        calloc((size_t)job->model->symbols.count + 1, sizeof *job->rows);
    if (!job->rows) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < job->model->symbols.count; i++) {
        if (in_use(&job->base, row_name(job, i))) {
            job->summary.skipped++;
        } else {
            job->rows[job->nrows++] = i;
        }
    }
    job->summary.names = job->nrows;
    return 0;
}

void
fy_build_reserve_hash(struct fy_build *job)
{
    size_t count = job->nrows + job->base.nexports;
    job->nbuckets = (uint32_t)count / 2 + 1;
    job->nbloom = 1;
    while ((uint64_t)job->nbloom * 64 < (uint64_t)count * BLOOM_BITS_PER_NAME) {
        job->nbloom *= 2;
    }
    job->hash_bytes =
        16 + (size_t)job->nbloom * 8 + (job->nbuckets + count) * 4;
    job->at_hash = fy_block_reserve(&job->out, job->hash_bytes, 8);
}

/* One line of the new symbol table, before it is sorted by bucket. */
struct entry {
    Elf64_Sym symbol;
    uint32_t hash;
    uint32_t bucket;
    Elf64_Half version;
};

static int
by_bucket(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->bucket != right->bucket) {
        return left->bucket < right->bucket ? -1 : 1;
    }
    if (left->hash != right->hash) {
        return left->hash < right->hash ? -1 : 1;
    }
    return left->symbol.st_name < right->symbol.st_name ? -1 : 1;
}

/* Fills symbol, version and hash tables, all reserved before, from entries. */
static void
write_tables(struct fy_build *job, struct entry *entries, uint32_t count)
{
    uint32_t nbuckets = job->nbuckets, nbloom = job->nbloom;
    const struct fy_build_base *base = &job->base;
    uint8_t *out = job->out.bytes;
    Elf64_Sym *symbols = (void *)(out + job->at_symbols);
    Elf64_Half *versions = (void *)(out + job->at_versions);
    uint32_t *hash = (void *)(out + job->at_hash);
    uint64_t *bloom = (uint64_t *)(hash + 4);
    uint32_t *buckets = (uint32_t *)(bloom + nbloom);
    uint32_t *chain = buckets + nbuckets;
    hash[0] = nbuckets;
    hash[1] = base->nsymbols;
    hash[2] = nbloom;
    hash[3] = BLOOM_SHIFT;
    memcpy(symbols, base->symbols, base->nsymbols * sizeof *symbols);
    for (uint32_t i = 0; i < base->nsymbols; i++) {
        versions[i] = base->versions ? base->versions[i] : VER_NDX_GLOBAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i].bucket = entries[i].hash % nbuckets;
    }
    qsort(entries, count, sizeof *entries, by_bucket);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = base->nsymbols + i, h = entries[i].hash;
        bool ends =
            i + 1 == count || entries[i + 1].bucket != entries[i].bucket;
        symbols[number] = entries[i].symbol;
        versions[number] = entries[i].version;
        if (!buckets[entries[i].bucket]) {
            buckets[entries[i].bucket] = number;
        }
        chain[i] = (h & ~UINT32_C(1)) | ends;
        bloom[(h / 64) & (nbloom - 1)] |=
            UINT64_C(1) << (h % 64) | UINT64_C(1) << ((h >> BLOOM_SHIFT) % 64);
    }
}

int
fy_build_names(struct fy_build *job)
{
    const struct fy_build_base *base = &job->base;
    uint32_t count = job->nrows + base->nexports;
    struct entry *entries = calloc(count, sizeof *entries);
    if (!entries) {
        return FY_ERR_NOMEM;
    }
    uint16_t section = base->symbols[job->base.exports[0]].st_shndx;
    size_t used = base->strings_bytes;
    job->at_strings = fy_block_append(&job->out, base->strings, used, 1);
    for (uint32_t i = 0; i < job->base.nexports; i++) {
        entries[i].symbol = base->symbols[job->base.exports[i]];
        entries[i].hash = hash_name(base->strings + entries[i].symbol.st_name);
        entries[i].version = base->versions
                                 ? base->versions[job->base.exports[i]]
                                 : VER_NDX_GLOBAL;
    }
    for (uint32_t i = 0; i < job->nrows; i++) {
        const char *name = row_name(job, job->rows[i]);
        entries[job->base.nexports + i] = (struct entry){
            .symbol = {.st_name = (Elf64_Word)used,
                       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                       .st_shndx = section,
                       .st_value = fy_build_target(
                           job, fy_build_info(job)[job->rows[i]].thunk),
                       .st_size = 16},
            .hash = hash_name(name),
            .version = VER_NDX_GLOBAL,
        };
        fy_block_append(&job->out, name, strlen(name) + 1, 1);
        used += strlen(name) + 1;
    }
    job->strings_bytes = used;
    uint32_t total = base->nsymbols + count;
    job->at_symbols = fy_block_reserve(&job->out, total * sizeof(Elf64_Sym), 8);
    job->at_versions =
        fy_block_reserve(&job->out, total * sizeof(Elf64_Half), 8);
    if (!job->out.failed) {
        write_tables(job, entries, count);
    }
    free(entries);
    job->base.image->bloom =
        fy_build_from_image(job, job->address + job->at_hash + 16);
    job->base.image->nbloom = job->nbloom;
    job->base.image->bloom_shift = BLOOM_SHIFT;
    return job->out.failed ? FY_ERR_NOMEM : 0;
}
