/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information of thunks and stubs, so that profilers, debuggers and
 * backtrace() come through a signal at any of their instructions. One frame
 * description per thunk, one for all stubs, and a table for binary search that
 * has libferry.so's own descriptions as well. DWARF 4 section 6.4, and LSB's
 * .eh_frame_hdr.
 */
#include "config.h"

#include <string.h>

#include "shim/arch/x86_64/thunk.h"
#include "shim/image/build.h"

enum {
    HEAD_BYTES = 12, /* of .eh_frame_hdr: encodings, .eh_frame, count */
    PCREL_SDATA4 = 0x1b,
    DATAREL_SDATA4 = 0x3b,
    UDATA4 = 0x03,
    CFA_ADVANCE_LOC2 = 0x03,
    CFA_DEF_CFA_OFFSET = 0x0e,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
};

/* The code to describe, and its rules in job->rules. */
struct thunk_frame {
    uint64_t address, bytes;
    size_t rules, rule_bytes;
};

struct table_row {
    int32_t code, frame; /* from the start of the table's header */
};

/* The convention at a function's entry: CFA = rsp + 8, return address below. */
static const uint8_t cie[] = {
    20,   0,    0,   0,          /* length */
    0,    0,    0,   0,          /* a CIE */
    1,    'z',  'R', 0,          /* version, augmentation */
    1,    0x78, 16,  1,          /* alignments 1, -8; return address */
    0x1b, 0x0c, 7,   8, 0x90, 1, /* pcrel; def_cfa rsp+8; ra at cfa-8 */
    0,    0,                     /* nop */
};

/* Stubs of 16 bytes begin with a push of one: CFA = rsp + 8 + 8 behind it. */
static const uint8_t stub_rules[] = {
    0x0f, 11,               /* def_cfa_expression */
    0x77, 8,    0x80, 0,    /* rsp + 8, rip */
    0x3f, 0x1a, 0x31, 0x2a, /* & 15, >= 1 */
    0x33, 0x24, 0x22,       /* << 3, + */
};
_Static_assert(FY_STUB_BYTES == 16, "the expression above");

static void
put32(struct fy_block *block, size_t at, uint64_t value)
{
    uint32_t word = (uint32_t)value;
    if (!block->failed) {
        memcpy(block->bytes + at, &word, sizeof word);
    }
}

static size_t
append32(struct fy_block *block, uint64_t value)
{
    size_t at = fy_block_reserve(block, 4, 1);
    put32(block, at, value);
    return at;
}

static void
add_frame(struct fy_build *job, uint64_t address, uint64_t bytes, size_t rules)
{
    struct thunk_frame frame = {.address = address,
                                .bytes = bytes,
                                .rules = rules,
                                .rule_bytes = job->rules.used - rules};
    fy_block_append(&job->frames, &frame, sizeof frame, 8);
}

void
fy_unwind_thunk(struct fy_build *job, const struct fy_code *code)
{
    size_t start = job->rules.used;
    uint32_t offset = 0;
    for (unsigned i = 0; i < code->nrows; i++) {
        const struct fy_code_row *row = &code->rows[i];
        uint32_t distance = row->offset - offset;
        const uint8_t rules[] = {
            CFA_ADVANCE_LOC2,   (uint8_t)distance, (uint8_t)(distance >> 8),
            CFA_DEF_CFA_OFFSET, row->depth,        CFA_OFFSET | row->reg,
            row->slot};
        _Static_assert(FY_CODE_MAX_DEPTH < 128, "one byte of LEB128");
        fy_block_append(&job->rules, rules, row->reg && row->slot ? 7 : 5, 1);
        if (row->reg && !row->slot) {
            fy_block_append(&job->rules, (uint8_t[]){CFA_RESTORE | row->reg}, 1,
                            1);
        }
        offset = row->offset;
    }
    add_frame(job, code->address, code->used, start);
}

/* Appends the description of one range; its address. */
static uint64_t
append_frame(struct fy_build *job, const struct thunk_frame *frame,
             uint64_t cie_address)
{
    struct fy_block *out = &job->out;
    size_t start = append32(out, 0);
    append32(out, job->address + out->used - cie_address);
    append32(out, frame->address - (job->address + out->used));
    append32(out, frame->bytes);
    fy_block_append(out, "", 1, 1); /* no augmentation data */
    fy_block_append(out, job->rules.bytes + frame->rules, frame->rule_bytes, 1);
    fy_block_reserve(out, 0, 4); /* with DW_CFA_nop, which is 0 */
    put32(out, start, out->used - start - 4);
    return job->address + start;
}

/* The old table, or NULL when the linker has made another one than we know. */
static const uint8_t *
old_table(const struct fy_build_base *base, uint32_t *count)
{
    const Elf64_Phdr *unwind = base->unwind;
    const uint8_t *head =
        fy_build_at(base, unwind->p_vaddr, unwind->p_filesz, 4);
    if (!head || unwind->p_filesz < HEAD_BYTES || head[0] != 1 ||
        head[1] != PCREL_SDATA4 || head[2] != UDATA4 ||
        head[3] != DATAREL_SDATA4) {
        return NULL;
    }
    memcpy(count, head + 8, sizeof *count);
    return *count <= (unwind->p_filesz - HEAD_BYTES) / sizeof(struct table_row)
               ? head
               : NULL;
}

int
fy_unwind_write(struct fy_build *job, uint64_t stubs, uint64_t stub_bytes,
                uint64_t file_offset)
{
    Elf64_Phdr *unwind = job->base.unwind;
    struct fy_block *out = &job->out;
    uint32_t old;
    const uint8_t *head = old_table(&job->base, &old);
    if (!head) {
        return fy_build_fail(job, FY_ERR_INVALID,
                             "libferry.so was linked in another way");
    }
    size_t rules =
        fy_block_append(&job->rules, stub_rules, sizeof stub_rules, 1);
    add_frame(job, stubs, stub_bytes, rules);
    if (job->frames.failed || job->rules.failed) {
        return FY_ERR_NOMEM;
    }
    uint32_t added = (uint32_t)(job->frames.used / sizeof(struct thunk_frame));
    size_t bytes = HEAD_BYTES + (old + added) * sizeof(struct table_row);
    size_t at = fy_block_reserve(out, bytes, 4);
    uint64_t address = job->address + at,
             cie_address =
                 job->address + fy_block_append(out, cie, sizeof cie, 4);
    int32_t moved = (int32_t)(unwind->p_vaddr - address);
    for (uint32_t i = 0; i < old + added && !out->failed; i++) {
        struct table_row row;
        if (i < old) {
            memcpy(&row, head + HEAD_BYTES + i * sizeof row, sizeof row);
            row.code += moved;
            row.frame += moved;
        } else {
            const struct thunk_frame *frame =
                (const struct thunk_frame *)job->frames.bytes + (i - old);
            row.code = (int32_t)(frame->address - address);
            row.frame =
                (int32_t)(append_frame(job, frame, cie_address) - address);
        }
        if (!out->failed) {
            memcpy(out->bytes + at + HEAD_BYTES + i * sizeof row, &row,
                   sizeof row);
        }
    }
    append32(out, 0); /* the end, for those who read it from the start */
    if (out->failed) {
        return FY_ERR_NOMEM;
    }
    int32_t frames;
    memcpy(&frames, head + 4, sizeof frames);
    memcpy(out->bytes + at, head, 4);
    put32(out, at + 4, (uint32_t)(frames + moved));
    put32(out, at + 8, old + added);
    unwind->p_vaddr = unwind->p_paddr = address;
    unwind->p_offset = file_offset + at;
    unwind->p_filesz = unwind->p_memsz = bytes;
    return 0;
}
