/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the generator of the preload object: one job, shared by build.c
 * (layout and writing), base.c (reading libferry.so), names.c (the
 * symbol table) and unwind.c. Tool side, one thread a job.
 */
#ifndef FERRY_SHIM_IMAGE_BUILD_H
#define FERRY_SHIM_IMAGE_BUILD_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/buffer.h"
#include "shim/arch/x86_64/layout.h"
#include "shim/image/image.h"
#include "shim/image/names.h"

enum {
    FY_BUILD_PAGE = 4096,
    FY_BUILD_EXTRA_STUBS = 1024, /* beyond one per name */
};

/* A growing, zeroed block; sticky failure. */
struct fy_block {
    uint8_t *bytes;
    size_t used, capacity;
    bool failed;
};

/* Room for `bytes' at the end; its offset (0 on failure). */
size_t fy_block_reserve(struct fy_block *block, size_t bytes, size_t align);
size_t fy_block_append(struct fy_block *block, const void *data, size_t bytes,
                       size_t align);

/* The linker's file, parsed; pointers are into `file'. */
struct fy_build_base {
    uint8_t *file;
    size_t bytes;
    Elf64_Ehdr *header;
    Elf64_Phdr *segments;
    Elf64_Phdr *last;   /* the writable segment, highest of all */
    Elf64_Phdr *note;   /* that of the build id, given up */
    Elf64_Phdr *unwind; /* of .eh_frame_hdr */
    Elf64_Dyn *dynamic;
    size_t ndynamic;
    const Elf64_Sym *symbols;
    uint32_t nsymbols;
    const char *strings;
    size_t strings_bytes;
    const Elf64_Half *versions; /* or NULL */
    uint32_t *exports;          /* numbers of the symbols it defines */
    uint32_t nexports;
    struct fy_image *image;
    uint64_t image_address;
};

struct fy_build {
    struct fy_build_base base;
    const struct fy_model *model;
    struct fy_preload_summary summary;
    struct fy_buffer *why;
    struct fy_block out;    /* the new segment */
    struct fy_block frames; /* struct thunk_frame of unwind.c */
    struct fy_block rules;  /* the rules that those point to */
    uint64_t address;       /* of its start */
    uint32_t *rows;         /* symbol rows that are exported */
    uint32_t nrows;
    uint64_t slots, pool; /* addresses */
    /* Offsets in `out', and sizes. */
    size_t at_info, at_symbols, at_strings, at_hash, at_versions;
    size_t strings_bytes, hash_bytes;
    uint32_t nbuckets, nbloom;
};

/* Adds a clause to `why' and returns status. */
int fy_build_fail(struct fy_build *job, int status, const char *text);

static inline int32_t
fy_build_from_image(const struct fy_build *job, uint64_t address)
{
    return (int32_t)(address - job->base.image_address);
}

static inline uint64_t
fy_build_target(const struct fy_build *job, int32_t offset)
{
    return job->base.image_address + (uint64_t)(int64_t)offset;
}

static inline struct fy_thunk_info *
fy_build_info(const struct fy_build *job)
{
    return (struct fy_thunk_info *)(job->out.bytes + job->at_info);
}

/* base.c: reads and checks libferry.so. */
int fy_build_read(struct fy_build *job, const char *path) FY_MUST_CHECK;
Elf64_Dyn *fy_build_dynamic(const struct fy_build_base *base, Elf64_Sxword tag);
/* Returns the place in the file of `bytes' at a virtual address, so aligned,
 * or NULL. */
void *fy_build_at(const struct fy_build_base *base, uint64_t address,
                  uint64_t bytes, unsigned align);

/*
 * unwind.c: the rules for unwinding from each instruction of the emitted code.
 * Call fy_unwind_thunk() for each thunk in ascending order (the rows are those
 * of its code, which lies at `address'), then fy_unwind_write(), which appends
 * to `out' and leads the program header there.
 */
struct fy_code;
void fy_unwind_thunk(struct fy_build *job, const struct fy_code *code);
int fy_unwind_write(struct fy_build *job, uint64_t stubs, uint64_t stub_bytes,
                    uint64_t file_offset) FY_MUST_CHECK;

/* names.c: which names, then room for the hash table, then all tables. */
int fy_build_choose_names(struct fy_build *job) FY_MUST_CHECK;
void fy_build_reserve_hash(struct fy_build *job);
int fy_build_names(struct fy_build *job) FY_MUST_CHECK;

#endif
