/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extends libferry.so by one segment (names.h). The file keeps everything it
 * has, at its place; after it come, in one read-only and executable segment,
 * new program headers, a symbol table that holds the old symbols under their
 * old numbers, its hash table, the model and the thunks. The slots of the
 * thunks are zeroed memory at the end of the writable segment. ELF gABI,
 * System V AMD64 psABI, and the GNU hash section as binutils writes it.
 */
#include "config.h"

#include "shim/names.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/arch/x86_64/thunk.h"
#include "shim/image.h"

enum {
    PAGE = 4096,
    MAX_FILE_BYTES = 64 << 20,
    MAX_MODEL_BYTES = 512 << 20,
    MAX_NAMES = 1 << 20,
    EXTRA_STUBS = 1024, /* beyond one per name */
    BLOOM_SHIFT = 26,
    BLOOM_BITS_PER_NAME = 12,
    THUNK_ROOM = 2 * 2048 + 256, /* the largest thunk */
};

/* A growing block; its offset 0 is at a known address of the new file. */
struct block {
    uint8_t *bytes;
    size_t used, capacity;
    bool failed;
};

/* The linker's file, parsed; pointers are into `file'. */
struct base {
    uint8_t *file;
    size_t bytes;
    Elf64_Ehdr *header;
    Elf64_Phdr *segments;
    Elf64_Phdr *last; /* the writable segment, highest of all */
    Elf64_Dyn *dynamic;
    size_t ndynamic;
    const Elf64_Sym *symbols;
    uint32_t nsymbols;
    const char *strings;
    size_t strings_bytes;
    const Elf64_Half *versions; /* or NULL */
    struct fy_image *image;
    uint64_t image_address;
};

struct job {
    struct base base;
    const struct fy_model *model;
    struct fy_preload_summary summary;
    struct fy_buffer *why;
    struct block out;     /* the new segment */
    uint64_t address;     /* of its start */
    uint32_t *rows;       /* symbol rows that are exported */
    uint32_t nrows, nold; /* nold: exports of libferry.so */
    uint32_t *old;
    uint64_t slots, pool; /* addresses */
    uint64_t at_symbols, at_strings, at_hash, at_versions, at_bloom;
    uint64_t strings_bytes;
};

static int
fail(struct job *job, int status, const char *text)
{
    fy_buffer_add(job->why, text);
    return status;
}

/* ---- blocks ------------------------------------------------------------- */

/* Room for `bytes' at the end, zeroed; its offset. */
static size_t
reserve(struct block *block, size_t bytes, size_t align)
{
    size_t at = (block->used + align - 1) / align * align;
    if (block->failed || bytes > MAX_MODEL_BYTES - at) {
        block->failed = true;
        return 0;
    }
    if (at + bytes > block->capacity) {
        size_t capacity = (at + bytes) * 2;
        uint8_t *grown = realloc(block->bytes, capacity);
        if (!grown) {
            block->failed = true;
            return 0;
        }
        memset(grown + block->capacity, 0, capacity - block->capacity);
        block->bytes = grown;
        block->capacity = capacity;
    }
    block->used = at + bytes;
    return at;
}

static size_t
append(struct block *block, const void *data, size_t bytes, size_t align)
{
    size_t at = reserve(block, bytes, align);
    if (!block->failed && bytes)
        memcpy(block->bytes + at, data, bytes);
    return at;
}

/* ---- reading libferry.so --------------------------------------------------- */

static int
read_file(struct job *job, const char *path)
{
    struct base *base = &job->base;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return fail(job, FY_ERR_IO, "cannot open libferry.so");
    int result = 0;
    if (fstat(file, &status) || status.st_size < (off_t)sizeof(Elf64_Ehdr) ||
        status.st_size > MAX_FILE_BYTES)
        result = fail(job, FY_ERR_INVALID, "libferry.so has no usable size");
    if (!result) {
        base->bytes = (size_t)status.st_size;
        base->file = malloc(base->bytes);
        if (!base->file)
            result = FY_ERR_NOMEM;
    }
    for (size_t done = 0; !result && done < base->bytes;) {
        ssize_t n = read(file, base->file + done, base->bytes - done);
        if (n <= 0)
            result = fail(job, FY_ERR_IO, "cannot read libferry.so");
        else
            done += (size_t)n;
    }
    int saved = errno;
    close(file);
    errno = saved;
    return result;
}

/* Where `bytes' at a virtual address are in the file, or NULL. */
static void *
at_address(const struct base *base, uint64_t address, uint64_t bytes)
{
    for (unsigned i = 0; i < base->header->e_phnum; i++) {
        const Elf64_Phdr *segment = &base->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr > segment->p_filesz ||
            bytes > segment->p_filesz - (address - segment->p_vaddr))
            continue;
        uint64_t offset = segment->p_offset + (address - segment->p_vaddr);
        if (offset > base->bytes || bytes > base->bytes - offset)
            return NULL;
        return base->file + offset;
    }
    return NULL;
}

static Elf64_Dyn *
dynamic_entry(const struct base *base, Elf64_Sxword tag)
{
    for (size_t i = 0; i < base->ndynamic; i++) {
        if (base->dynamic[i].d_tag == tag)
            return &base->dynamic[i];
    }
    return NULL;
}

static int
parse_segments(struct job *job)
{
    struct base *base = &job->base;
    Elf64_Ehdr *header = base->header = (Elf64_Ehdr *)base->file;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != EM_X86_64 || header->e_type != ET_DYN ||
        header->e_phentsize != sizeof(Elf64_Phdr) ||
        header->e_phoff > base->bytes ||
        header->e_phnum > (base->bytes - header->e_phoff) / sizeof(Elf64_Phdr))
        return fail(job, FY_ERR_INVALID,
                    "libferry.so is not an x86-64 library");
    base->segments = (Elf64_Phdr *)(base->file + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr *segment = &base->segments[i];
        if (segment->p_type == PT_LOAD)
            base->last = segment;
        if (segment->p_type == PT_DYNAMIC) {
            base->dynamic =
                at_address(base, segment->p_vaddr, segment->p_filesz);
            base->ndynamic = segment->p_filesz / sizeof(Elf64_Dyn);
        }
    }
    if (!base->dynamic || !base->last || !(base->last->p_flags & PF_W))
        return fail(job, FY_ERR_INVALID, "libferry.so has no dynamic section");
    return 0;
}

/* The number of symbols: the hash table covers the last one. */
static int
count_symbols(struct job *job, const Elf64_Dyn *hash)
{
    struct base *base = &job->base;
    const uint32_t *table = at_address(base, hash->d_un.d_ptr, 16);
    if (!table)
        return FY_ERR_INVALID;
    uint64_t words = 4 + (uint64_t)table[2] * 2 + table[0];
    table = at_address(base, hash->d_un.d_ptr, words * 4);
    if (!table)
        return FY_ERR_INVALID;
    uint32_t last = 0;
    for (uint32_t i = 0; i < table[0]; i++) {
        uint32_t bucket = table[4 + table[2] * 2 + i];
        if (bucket > last)
            last = bucket;
    }
    for (; last >= table[1]; last++) {
        const uint32_t *chain = at_address(
            base, hash->d_un.d_ptr + (words + last - table[1]) * 4, 4);
        if (!chain)
            return FY_ERR_INVALID;
        if (*chain & 1)
            break;
    }
    base->nsymbols = last + 1;
    return 0;
}

static int
parse_symbols(struct job *job)
{
    struct base *base = &job->base;
    const Elf64_Dyn *symbols = dynamic_entry(base, DT_SYMTAB),
                    *strings = dynamic_entry(base, DT_STRTAB),
                    *bytes = dynamic_entry(base, DT_STRSZ),
                    *hash = dynamic_entry(base, DT_GNU_HASH),
                    *versions = dynamic_entry(base, DT_VERSYM);
    if (!symbols || !strings || !bytes || !hash || count_symbols(job, hash))
        return fail(job, FY_ERR_INVALID, "libferry.so has no GNU hash table");
    base->symbols = at_address(base, symbols->d_un.d_ptr,
                               (uint64_t)base->nsymbols * sizeof(Elf64_Sym));
    base->strings_bytes = bytes->d_un.d_val;
    base->strings = at_address(base, strings->d_un.d_ptr, base->strings_bytes);
    if (versions)
        base->versions = at_address(base, versions->d_un.d_ptr,
                                    (uint64_t)base->nsymbols * 2);
    if (!base->symbols || !base->strings || base->strings_bytes == 0 ||
        base->strings[base->strings_bytes - 1] != '\0')
        return fail(job, FY_ERR_INVALID, "libferry.so has no symbol table");
    for (uint32_t i = 0; i < base->nsymbols; i++) {
        const Elf64_Sym *symbol = &base->symbols[i];
        if (symbol->st_name >= base->strings_bytes)
            return fail(job, FY_ERR_INVALID, "libferry.so is damaged");
        if (symbol->st_shndx == SHN_UNDEF)
            continue;
        job->old[job->nold++] = i;
        if (strcmp(base->strings + symbol->st_name, FY_IMAGE_SYMBOL) == 0) {
            base->image_address = symbol->st_value;
            base->image =
                at_address(base, symbol->st_value, sizeof *base->image);
        }
    }
    if (!base->image || memcmp(base->image->magic, FY_IMAGE_MAGIC, 8) != 0 ||
        base->image->version != FY_IMAGE_VERSION || base->image->model)
        return fail(job, FY_ERR_INVALID,
                    "libferry.so is not of this version of ferry");
    return 0;
}

/* ---- names ------------------------------------------------------------------ */

static uint32_t
hash_name(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++)
        h = h * 33 + *c;
    return h;
}

static const char *
row_name(const struct job *job, uint32_t row)
{
    return fy_model_string(job->model,
                           FY_TABLE(job->model, fy_symbol, symbols)[row].name);
}

/* Names that our own code calls must stay libc's, and dlsym's ours. */
static bool
in_use(const struct base *base, const char *name)
{
    for (uint32_t i = 1; i < base->nsymbols; i++) {
        if (strcmp(base->strings + base->symbols[i].st_name, name) == 0)
            return true;
    }
    return false;
}

static void
choose_names(struct job *job)
{
    for (uint32_t i = 0; i < job->model->symbols.count; i++) {
        if (in_use(&job->base, row_name(job, i)))
            job->summary.skipped++;
        else
            job->rows[job->nrows++] = i;
    }
    job->summary.names = job->nrows;
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
    if (left->bucket != right->bucket)
        return left->bucket < right->bucket ? -1 : 1;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return left->symbol.st_name < right->symbol.st_name ? -1 : 1;
}

/* Fills symbol, version and hash tables, all reserved before, from entries. */
static void
write_tables(struct job *job, struct entry *entries, uint32_t count,
             uint32_t nbuckets, uint32_t nbloom)
{
    const struct base *base = &job->base;
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
    for (uint32_t i = 0; i < base->nsymbols; i++)
        versions[i] = base->versions ? base->versions[i] : VER_NDX_GLOBAL;
    for (uint32_t i = 0; i < count; i++)
        entries[i].bucket = entries[i].hash % nbuckets;
    qsort(entries, count, sizeof *entries, by_bucket);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = base->nsymbols + i, h = entries[i].hash;
        bool ends =
            i + 1 == count || entries[i + 1].bucket != entries[i].bucket;
        symbols[number] = entries[i].symbol;
        versions[number] = entries[i].version;
        if (!buckets[entries[i].bucket])
            buckets[entries[i].bucket] = number;
        chain[i] = (h & ~UINT32_C(1)) | ends;
        bloom[(h / 64) & (nbloom - 1)] |=
            UINT64_C(1) << (h % 64) | UINT64_C(1) << ((h >> BLOOM_SHIFT) % 64);
    }
}

/* ---- the new segment ---------------------------------------------------------- */

static int32_t
from_image(const struct job *job, uint64_t address)
{
    return (int32_t)(address - job->base.image_address);
}

static uint64_t
target(const struct job *job, int32_t offset)
{
    return job->base.image_address + (uint64_t)(int64_t)offset;
}

static int
add_code(struct job *job, size_t at_info)
{
    struct base *base = &job->base;
    struct fy_thunk_info *info;
    struct fy_code code = {.address = 0};
    size_t start = reserve(&job->out, 0, 64);
    struct fy_thunk_targets targets = {
        .mode = target(job, base->image->mode),
        .miss = target(job, base->image->miss),
        .other = target(job, base->image->other),
        .accept = target(job, base->image->accept),
    };
    for (uint32_t i = 0; i < job->nrows && !job->out.failed; i++) {
        uint32_t row = job->rows[i];
        size_t at = reserve(&job->out, THUNK_ROOM, 16), bound;
        if (job->out.failed)
            break;
        code = (struct fy_code){.bytes = job->out.bytes + at,
                                .capacity = THUNK_ROOM,
                                .address = job->address + at};
        bool has_predicate;
        targets.slot = job->slots + (uint64_t)row * 8;
        int status = fy_thunk_emit(&code, job->model, row, &targets, &bound,
                                   &has_predicate);
        if (status)
            return fail(job, status, "a thunk does not fit its room");
        info = (void *)(job->out.bytes + at_info);
        const struct fy_symbol *symbol =
            FY_TABLE(job->model, fy_symbol, symbols) + row;
        const struct fy_function *function =
            FY_TABLE(job->model, fy_function, functions) + symbol->function;
        info[row].thunk = from_image(job, job->address + at);
        info[row].bound = from_image(job, job->address + at + bound);
        info[row].stack_words =
            (uint16_t)fy_abi_stack_words(job->model, function);
        info[row].has_predicate = has_predicate;
        job->summary.predicates += has_predicate;
        job->summary.uncompiled += !has_predicate && function->worth != FY_NIL;
        memset(job->out.bytes + at + code.used, 0, THUNK_ROOM - code.used);
        job->out.used = at + code.used;
    }
    uint32_t nstubs = job->nrows + EXTRA_STUBS;
    size_t stubs = reserve(&job->out, (size_t)nstubs * FY_STUB_BYTES, 16);
    if (job->out.failed)
        return FY_ERR_NOMEM;
    code = (struct fy_code){.bytes = job->out.bytes + stubs,
                            .capacity = (size_t)nstubs * FY_STUB_BYTES,
                            .address = job->address + stubs};
    for (uint32_t i = 0; i < nstubs; i++)
        fy_stub_emit(&code, job->pool + (uint64_t)i * 8);
    base->image->stubs = from_image(job, job->address + stubs);
    base->image->nstubs = nstubs;
    base->image->code_low = from_image(job, job->address + start);
    base->image->code_high = from_image(job, job->address + job->out.used);
    return 0;
}

static int
add_names(struct job *job, size_t at_info)
{
    const struct base *base = &job->base;
    uint32_t count = job->nrows + job->nold, nbuckets = count / 2 + 1,
             nbloom = 1;
    while ((uint64_t)nbloom * 64 < (uint64_t)count * BLOOM_BITS_PER_NAME)
        nbloom *= 2;
    struct entry *entries = calloc(count, sizeof *entries);
    if (!entries)
        return FY_ERR_NOMEM;
    const struct fy_thunk_info *info = (void *)(job->out.bytes + at_info);
    uint16_t section = base->symbols[job->old[0]].st_shndx;
    size_t used = base->strings_bytes;
    job->at_strings = append(&job->out, base->strings, used, 1);
    for (uint32_t i = 0; i < job->nold; i++) {
        entries[i].symbol = base->symbols[job->old[i]];
        entries[i].hash = hash_name(base->strings + entries[i].symbol.st_name);
        entries[i].version =
            base->versions ? base->versions[job->old[i]] : VER_NDX_GLOBAL;
    }
    for (uint32_t i = 0; i < job->nrows; i++) {
        const char *name = row_name(job, job->rows[i]);
        entries[job->nold + i] = (struct entry){
            .symbol = {.st_name = (Elf64_Word)used,
                       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                       .st_shndx = section,
                       .st_value = target(job, info[job->rows[i]].thunk),
                       .st_size = 16},
            .hash = hash_name(name),
            .version = VER_NDX_GLOBAL,
        };
        append(&job->out, name, strlen(name) + 1, 1);
        used += strlen(name) + 1;
        info = (void *)(job->out.bytes + at_info);
    }
    job->strings_bytes = used;
    uint32_t total = base->nsymbols + count;
    job->at_symbols = reserve(&job->out, total * sizeof(Elf64_Sym), 8);
    job->at_versions = reserve(&job->out, total * sizeof(Elf64_Half), 8);
    job->at_hash = reserve(
        &job->out, 16 + (size_t)nbloom * 8 + ((size_t)nbuckets + count) * 4, 8);
    job->at_bloom = job->at_hash + 16;
    if (!job->out.failed)
        write_tables(job, entries, count, nbuckets, nbloom);
    free(entries);
    job->base.image->bloom = from_image(job, job->address + job->at_bloom);
    job->base.image->nbloom = nbloom;
    job->base.image->bloom_shift = BLOOM_SHIFT;
    return job->out.failed ? FY_ERR_NOMEM : 0;
}

/* ---- the old file, pointed at the new tables ----------------------------------- */

static void
redirect_sections(struct job *job, uint64_t file_offset)
{
    struct base *base = &job->base;
    Elf64_Ehdr *header = base->header;
    if (!header->e_shoff || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shoff > base->bytes ||
        header->e_shnum > (base->bytes - header->e_shoff) / sizeof(Elf64_Shdr))
        return;
    Elf64_Shdr *sections = (void *)(base->file + header->e_shoff);
    uint32_t total = base->nsymbols + job->nrows + job->nold;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        uint64_t at, bytes;
        switch (sections[i].sh_type) {
        case SHT_DYNSYM:
            at = job->at_symbols;
            bytes = total * sizeof(Elf64_Sym);
            break;
        case SHT_GNU_versym:
            at = job->at_versions;
            bytes = total * sizeof(Elf64_Half);
            break;
        case SHT_GNU_HASH:
            at = job->at_hash;
            bytes = job->at_bloom - job->at_hash +
                    (uint64_t)base->image->nbloom * 8 +
                    ((uint64_t)(total - base->nsymbols) / 2 + 1 + total -
                     base->nsymbols) *
                        4;
            break;
        case SHT_STRTAB:
            if (!(sections[i].sh_flags & SHF_ALLOC))
                continue;
            at = job->at_strings;
            bytes = job->strings_bytes;
            break;
        default:
            continue;
        }
        sections[i].sh_addr = job->address + at;
        sections[i].sh_offset = file_offset + at;
        sections[i].sh_size = bytes;
    }
}

static void
redirect_dynamic(struct job *job)
{
    struct base *base = &job->base;
    const struct {
        Elf64_Sxword tag;
        uint64_t value;
    } rows[] = {
        {DT_SYMTAB, job->address + job->at_symbols},
        {DT_STRTAB, job->address + job->at_strings},
        {DT_STRSZ, job->strings_bytes},
        {DT_GNU_HASH, job->address + job->at_hash},
        {DT_VERSYM, job->address + job->at_versions},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Elf64_Dyn *entry = dynamic_entry(base, rows[i].tag);
        if (entry)
            entry->d_un.d_val = rows[i].value;
    }
}

/* Slots and pool: more zeroed memory after what libferry.so has of it. */
static void
place_slots(struct job *job)
{
    Elf64_Phdr *last = job->base.last;
    uint64_t end = (last->p_vaddr + last->p_memsz + 63) / 64 * 64;
    job->slots = end;
    end += (uint64_t)job->model->symbols.count * 8;
    job->pool = end;
    end += (uint64_t)(job->nrows + EXTRA_STUBS) * 8;
    last->p_memsz = end - last->p_vaddr;
    job->address = (end + PAGE - 1) / PAGE * PAGE;
}

static int
add_segment(struct job *job, uint64_t file_offset)
{
    struct base *base = &job->base;
    unsigned nsegments = base->header->e_phnum;
    size_t headers =
        reserve(&job->out, (nsegments + 1u) * sizeof(Elf64_Phdr), 8);
    size_t info = reserve(&job->out,
                          ((size_t)job->model->symbols.count + 1) *
                              sizeof(struct fy_thunk_info),
                          8);
    size_t model = append(&job->out, job->model, job->model->size_bytes, 8);
    if (job->out.failed)
        return FY_ERR_NOMEM;
    base->image->model = from_image(job, job->address + model);
    base->image->info = from_image(job, job->address + info);
    base->image->slots = from_image(job, job->slots);
    base->image->pool = from_image(job, job->pool);
    base->image->nsymbols = job->model->symbols.count;
    int status = add_code(job, info);
    if (!status)
        status = add_names(job, info);
    if (status)
        return status;
    Elf64_Phdr *table = (void *)(job->out.bytes + headers);
    memcpy(table, base->segments, nsegments * sizeof *table);
    /* The dynamic linker wants PT_LOADs in ascending order; this is highest. */
    table[nsegments] = (Elf64_Phdr){
        .p_type = PT_LOAD,
        .p_flags = PF_R | PF_X,
        .p_offset = file_offset,
        .p_vaddr = job->address,
        .p_paddr = job->address,
        .p_filesz = job->out.used,
        .p_memsz = job->out.used,
        .p_align = PAGE,
    };
    redirect_dynamic(job);
    redirect_sections(job, file_offset);
    base->header->e_phoff = file_offset + headers;
    base->header->e_phnum = (Elf64_Half)(nsegments + 1);
    return 0;
}

/* ---- writing ---------------------------------------------------------------------- */

static int
write_all(int file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = write(file, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return FY_ERR_IO;
        at += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int
write_out(struct job *job, const char *path, size_t padding)
{
    static const char zeros[PAGE];
    size_t bytes = strlen(path) + 32;
    char *temporary = malloc(bytes);
    if (!temporary)
        return FY_ERR_NOMEM;
    snprintf(temporary, bytes, "%s.%ld.XXXXXX", path, (long)getpid());
    int file = mkstemp(temporary), result = 0;
    if (file < 0) {
        free(temporary);
        return fail(job, FY_ERR_IO, "cannot create the preload object");
    }
    if (write_all(file, job->base.file, job->base.bytes) ||
        write_all(file, zeros, padding) ||
        write_all(file, job->out.bytes, job->out.used) || fchmod(file, 0644))
        result = fail(job, FY_ERR_IO, "cannot write the preload object");
    if (close(file) && !result)
        result = fail(job, FY_ERR_IO, "cannot write the preload object");
    if (!result && rename(temporary, path))
        result = fail(job, FY_ERR_IO, "cannot rename the preload object");
    if (result) {
        int saved = errno;
        unlink(temporary);
        errno = saved;
    }
    free(temporary);
    return result;
}

int
fy_preload_build(const char *libferry_path, const struct fy_model *model,
                 const char *out_path, struct fy_preload_summary *summary,
                 struct fy_buffer *why)
{
    struct job job = {.model = model, .why = why};
    if (model->symbols.count > MAX_NAMES)
        return fail(&job, FY_ERR_OVERFLOW, "too many annotated names");
    int status = read_file(&job, libferry_path);
    if (!status)
        status = parse_segments(&job);
    if (!status) {
        job.rows = calloc((size_t)model->symbols.count + 1, sizeof *job.rows);
        job.old =
            calloc(job.base.bytes / sizeof(Elf64_Sym) + 1, sizeof *job.old);
        if (!job.rows || !job.old)
            status = FY_ERR_NOMEM;
    }
    if (!status)
        status = parse_symbols(&job);
    if (!status) {
        choose_names(&job);
        place_slots(&job);
        size_t padding = (PAGE - job.base.bytes % PAGE) % PAGE;
        status = add_segment(&job, job.base.bytes + padding);
        if (!status)
            status = write_out(&job, out_path, padding);
        job.summary.bytes = job.base.bytes + padding + job.out.used;
    }
    if (!status && summary)
        *summary = job.summary;
    free(job.rows);
    free(job.old);
    free(job.out.bytes);
    free(job.base.file);
    return status;
}
