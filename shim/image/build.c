/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extends libferry.so by one segment (names.h). The file keeps everything it
 * has; after it come a larger copy of the writable segment, with the slots of
 * the thunks at its end, and one read-only and executable segment with a symbol
 * table that holds the old symbols under their old numbers, its hash table, the
 * model and the thunks. ELF gABI, System V AMD64 psABI, and the GNU hash section
 * as binutils writes it.
 *
 * Every program start pays for this layout. The new segment takes the program
 * header of the build id, so that the dynamic linker finds all headers where it
 * first reads; zeroed memory is part of the file, not of p_memsz alone, and no
 * page lies between two segments: they are mapped with one system call each.
 */
#include "config.h"

#include "shim/image/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/whole.h"
#include "shim/arch/x86_64/thunk.h"

enum {
    PAGE = FY_BUILD_PAGE,
    MAX_MODEL_BYTES = 512 << 20,
    MAX_NAMES = 1 << 20,
    EXTRA_STUBS = 1024, /* beyond one per name */
    BLOOM_SHIFT = 26,
    BLOOM_BITS_PER_NAME = 12,
    THUNK_ROOM = 2 * 2048 + 256, /* the largest thunk */
    THUNK_ROWS = 1024,
};

int
fy_build_fail(struct fy_build *job, int status, const char *text)
{
    fy_buffer_add(job->why, text);
    return status;
}

/* ---- blocks ------------------------------------------------------------- */

size_t
fy_block_reserve(struct fy_block *block, size_t bytes, size_t align)
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

size_t
fy_block_append(struct fy_block *block, const void *data, size_t bytes,
                size_t align)
{
    size_t at = fy_block_reserve(block, bytes, align);
    if (!block->failed && bytes) {
        memcpy(block->bytes + at, data, bytes);
    }
    return at;
}

static int
add_code(struct fy_build *job)
{
    struct fy_build_base *base = &job->base;
    struct fy_thunk_info *info;
    struct fy_code code = {.address = 0};
    struct fy_code_row rows[THUNK_ROWS];
    size_t start = fy_block_reserve(&job->out, 0, 64);
    struct fy_thunk_targets targets = {
        .mode = fy_build_target(job, base->image->mode),
        .miss = fy_build_target(job, base->image->miss),
        .other = fy_build_target(job, base->image->other),
        .accept = fy_build_target(job, base->image->accept),
    };
    for (uint32_t i = 0; i < job->nrows && !job->out.failed; i++) {
        uint32_t row = job->rows[i];
        size_t at = fy_block_reserve(&job->out, THUNK_ROOM, 16), bound;
        if (job->out.failed) {
            break;
        }
        code = (struct fy_code){.bytes = job->out.bytes + at,
                                .capacity = THUNK_ROOM,
                                .address = job->address + at,
                                .rows = rows,
                                .row_capacity = THUNK_ROWS};
        bool has_predicate;
        targets.slot = job->slots + (uint64_t)row * 8;
        int status = fy_thunk_emit(&code, job->model, row, &targets, &bound,
                                   &has_predicate);
        if (status) {
            return fy_build_fail(job, status, "a thunk does not fit its room");
        }
        fy_unwind_thunk(job, &code);
        info = fy_build_info(job);
        const struct fy_symbol *symbol =
            FY_TABLE(job->model, fy_symbol, symbols) + row;
        const struct fy_function *function =
            FY_TABLE(job->model, fy_function, functions) + symbol->function;
        info[row].thunk = fy_build_from_image(job, job->address + at);
        info[row].bound = fy_build_from_image(job, job->address + at + bound);
        info[row].stack_words =
            (uint16_t)fy_abi_stack_words(job->model, function);
        info[row].has_predicate = has_predicate;
        job->summary.predicates += has_predicate;
        job->summary.uncompiled += !has_predicate && function->worth != FY_NIL;
        memset(job->out.bytes + at + code.used, 0, THUNK_ROOM - code.used);
        job->out.used = at + code.used;
    }
    uint32_t nstubs = job->nrows + FY_BUILD_EXTRA_STUBS;
    size_t stubs =
        fy_block_reserve(&job->out, (size_t)nstubs * FY_STUB_BYTES, 16);
    if (job->out.failed) {
        return FY_ERR_NOMEM;
    }
    code = (struct fy_code){.bytes = job->out.bytes + stubs,
                            .capacity = (size_t)nstubs * FY_STUB_BYTES,
                            .address = job->address + stubs};
    for (uint32_t i = 0; i < nstubs; i++) {
        fy_stub_emit(&code, job->pool + (uint64_t)i * 8);
    }
    base->image->stubs = fy_build_from_image(job, job->address + stubs);
    base->image->nstubs = nstubs;
    base->image->code_low = fy_build_from_image(job, job->address + start);
    base->image->code_high =
        fy_build_from_image(job, job->address + job->out.used);
    return 0;
}

/* ---- the old file, pointed at the new tables ----------------------------------- */

/* The section headers, or NULL when there are none. */
static Elf64_Shdr *
sections_of(const struct fy_build_base *base)
{
    const Elf64_Ehdr *header = base->header;
    if (!header->e_shoff || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shoff > base->bytes || header->e_shoff % 8 ||
        header->e_shnum >
            (base->bytes - header->e_shoff) / sizeof(Elf64_Shdr)) {
        return NULL;
    }
    return (void *)(base->file + header->e_shoff);
}

static void
redirect_sections(struct fy_build *job, uint64_t file_offset)
{
    struct fy_build_base *base = &job->base;
    Elf64_Shdr *sections = sections_of(base);
    uint32_t total = base->nsymbols + job->nrows + job->base.nexports;
    for (unsigned i = 0; sections && i < base->header->e_shnum; i++) {
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
            bytes = job->hash_bytes;
            break;
        case SHT_STRTAB:
            if (!(sections[i].sh_flags & SHF_ALLOC)) {
                continue;
            }
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
redirect_dynamic(struct fy_build *job)
{
    struct fy_build_base *base = &job->base;
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
        Elf64_Dyn *entry = fy_build_dynamic(base, rows[i].tag);
        if (entry) {
            entry->d_un.d_val = rows[i].value;
        }
    }
}

/* Slots and pool: more zeroed memory after libferry.so's own. */
static void
place_slots(struct fy_build *job)
{
    const Elf64_Phdr *last = job->base.last;
    uint64_t end = (last->p_vaddr + last->p_memsz + 63) / 64 * 64;
    job->slots = end;
    end += (uint64_t)job->model->symbols.count * 8;
    job->pool = end;
    end += (uint64_t)(job->nrows + FY_BUILD_EXTRA_STUBS) * 8;
    job->address = (end + PAGE - 1) / PAGE * PAGE;
}

/* The writable segment, at its new place in the file, up to ours. */
static void
move_writable(struct fy_build *job, uint64_t to)
{
    struct fy_build_base *base = &job->base;
    Elf64_Phdr *table = base->segments;
    const Elf64_Phdr last = *base->last;
    uint64_t delta = to - last.p_offset;
    for (unsigned i = 0; i < base->header->e_phnum; i++) {
        if (table[i].p_vaddr >= last.p_vaddr &&
            table[i].p_vaddr - last.p_vaddr < last.p_memsz &&
            table[i].p_offset >= last.p_offset) {
            table[i].p_offset += delta;
        }
    }
    base->last->p_memsz = base->last->p_filesz = job->address - last.p_vaddr;
    Elf64_Shdr *sections = sections_of(base);
    for (unsigned i = 0; sections && i < base->header->e_shnum; i++) {
        if ((sections[i].sh_flags & (SHF_ALLOC | SHF_WRITE)) ==
                (SHF_ALLOC | SHF_WRITE) &&
            sections[i].sh_type != SHT_NOBITS) {
            sections[i].sh_offset += delta;
        }
    }
}

/* Places of the parts of the file. */
struct layout {
    uint64_t writable, segment;          /* offsets */
    uint64_t old_offset, old_file_bytes; /* of the writable segment */
};

static int
add_segment(struct fy_build *job, const struct layout *layout)
{
    struct fy_build_base *base = &job->base;
    fy_build_reserve_hash(job);
    job->at_info = fy_block_reserve(&job->out,
                                    ((size_t)job->model->symbols.count + 1) *
                                        sizeof(struct fy_thunk_info),
                                    8);
    size_t model =
        fy_block_append(&job->out, job->model, job->model->size_bytes, 8);
    if (job->out.failed) {
        return FY_ERR_NOMEM;
    }
    base->image->model = fy_build_from_image(job, job->address + model);
    base->image->info = fy_build_from_image(job, job->address + job->at_info);
    base->image->slots = fy_build_from_image(job, job->slots);
    base->image->pool = fy_build_from_image(job, job->pool);
    base->image->nsymbols = job->model->symbols.count;
    int status = add_code(job);
    if (!status) {
        status = fy_unwind_write(job, fy_build_target(job, base->image->stubs),
                                 (uint64_t)base->image->nstubs * FY_STUB_BYTES,
                                 layout->segment);
    }
    if (!status) {
        status = fy_build_names(job);
    }
    if (status) {
        return status;
    }
    redirect_dynamic(job);
    redirect_sections(job, layout->segment);
    move_writable(job, layout->writable);
    /* The dynamic linker wants PT_LOADs in ascending order; this is highest. */
    *base->note = (Elf64_Phdr){
        .p_type = PT_LOAD,
        .p_flags = PF_R | PF_X,
        .p_offset = layout->segment,
        .p_vaddr = job->address,
        .p_paddr = job->address,
        .p_filesz = job->out.used,
        .p_memsz = job->out.used,
        .p_align = PAGE,
    };
    return 0;
}

/* ---- writing ---------------------------------------------------------------------- */

/* Zeros up to the offset `to' of the file. */
static int
pad(int file, uint64_t from, uint64_t to)
{
    static const char zeros[PAGE];
    int status = 0;
    while (!status && from < to) {
        uint64_t bytes = to - from < PAGE ? to - from : PAGE;
        status = fy_write_whole(file, zeros, bytes);
        from += bytes;
    }
    return status;
}

static int
write_parts(const struct fy_build *job, const struct layout *layout, int file)
{
    const struct fy_build_base *base = &job->base;
    int status = fy_write_whole(file, base->file, base->bytes);
    if (!status) {
        status = pad(file, base->bytes, layout->writable);
    }
    if (!status) {
        status = fy_write_whole(file, base->file + layout->old_offset,
                                layout->old_file_bytes);
    }
    if (!status) {
        status = pad(file, layout->writable + layout->old_file_bytes,
                     layout->segment);
    }
    return status ? status
                  : fy_write_whole(file, job->out.bytes, job->out.used);
}

/* Four sums side by side: each step waits for the one before. */
static void
add_words(const unsigned char *at, size_t words, uint64_t sums[4])
{
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, at + i * sizeof word, sizeof word);
        uint64_t sum = (sums[i % 4] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sums[i % 4] = sum ^ sum >> 29;
    }
}

int
fy_preload_sum(int file, uint64_t bytes, uint64_t *out)
{
    enum {
        BLOCK_BYTES = 128 << 10 /* stays in the processor's cache */
    };
    unsigned char *block = malloc(BLOCK_BYTES);
    uint64_t sums[4] = {bytes, 1, 2, 3}, at = 0;
    while (block && at < bytes) {
        size_t used = 0, n = BLOCK_BYTES;
        n = bytes - at < n ? (size_t)(bytes - at) : n;
        while (used < n) {
            ssize_t got =
                pread(file, block + used, n - used, (off_t)(at + used));
            if (got <= 0) {
                free(block);
                return FY_ERR_IO;
            }
            used += (size_t)got;
        }
        memset(block + n, 0, -n % 32);
        add_words(block, (n + 31) / 32 * 4, sums);
        at += n;
    }
    if (!block) {
        return FY_ERR_NOMEM;
    }
    free(block);
    add_words((const unsigned char *)(sums + 1), 1, sums);
    add_words((const unsigned char *)(sums + 2), 1, sums);
    add_words((const unsigned char *)(sums + 3), 1, sums);
    *out = sums[0];
    return 0;
}

/* The sum of the written bytes, after them: the loader never looks there. */
static int
write_sum(int file, size_t bytes)
{
    uint64_t sum;
    int status = fy_preload_sum(file, bytes, &sum);
    return status ? status : fy_write_whole(file, &sum, sizeof sum);
}

static int
write_out(struct fy_build *job, const struct layout *layout, const char *path)
{
    size_t bytes = strlen(path) + 32;
    char *temporary = malloc(bytes);
    if (!temporary) {
        return FY_ERR_NOMEM;
    }
    (void)snprintf(temporary, bytes, "%s.%ld.XXXXXX", path, (long)getpid());
    int file = mkstemp(temporary), result = 0;
    if (file < 0) {
        free(temporary);
        return fy_build_fail(job, FY_ERR_IO,
                             "cannot create the preload object");
    }
    if (write_parts(job, layout, file) ||
        write_sum(file, layout->segment + job->out.used) ||
        fchmod(file, 0644)) {
        result =
            fy_build_fail(job, FY_ERR_IO, "cannot write the preload object");
    }
    if (close(file) && !result) {
        result =
            fy_build_fail(job, FY_ERR_IO, "cannot write the preload object");
    }
    if (!result && rename(temporary, path)) {
        result =
            fy_build_fail(job, FY_ERR_IO, "cannot rename the preload object");
    }
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
    struct fy_build job = {.model = model, .why = why};
    if (model->symbols.count > MAX_NAMES) {
        return fy_build_fail(&job, FY_ERR_OVERFLOW, "too many annotated names");
    }
    int status = fy_build_read(&job, libferry_path);
    if (!status) {
        status = fy_build_choose_names(&job);
    }
    if (!status) {
        place_slots(&job);
        const Elf64_Phdr *last = job.base.last;
        uint64_t start = last->p_vaddr;
        struct layout layout = {.old_offset = last->p_offset,
                                .old_file_bytes = last->p_filesz};
        layout.writable =
            (job.base.bytes + PAGE - 1) / PAGE * PAGE + start % PAGE;
        layout.segment = layout.writable + (job.address - start);
        status = add_segment(&job, &layout);
        if (!status) {
            status = write_out(&job, &layout, out_path);
        }
        job.summary.bytes = layout.segment + job.out.used + sizeof(uint64_t);
    }
    if (!status && summary) {
        *summary = job.summary;
    }
    free(job.rows);
    free(job.base.exports);
    free(job.out.bytes);
    free(job.frames.bytes);
    free(job.rules.bytes);
    free(job.base.file);
    return status;
}
