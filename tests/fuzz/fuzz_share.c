/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other processes say of a card in shared memory (pager/device/cuda/share.c), which
 * each of them can write at any time. The input is the table. Whatever stands in
 * it, a process finds a fair part for itself, takes no row of a living one, and
 * gives its own back.
 */
#include "config.h"

#include "pager/device/cuda/share.c" /* for the table */
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "rows of others leave each process its part";
const char *const fuzz_words[] = {"\xff\xff\xff\xff\xff\xff\xff\xff", "\x01",
                                  NULL};

static const uint64_t total = UINT64_C(80) << 30;

static void
judge(struct cuda_share *share)
{
    struct cuda_share_view view;
    for (unsigned active = 0; active < 2; active++) {
        cuda_share_look(share, total, active, &view);
        MUST(view.processes >= 1 && view.processes <= ROWS);
        MUST(view.fair_bytes == total / view.processes);
        MUST(view.wanted_bytes <= (ROWS - 1) * view.fair_bytes);
    }
    (void)cuda_share_is_wanted(share);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct cuda_share *share = cuda_share_alone();
    MUST(share);
    memcpy(share->table, bytes,
           n < sizeof *share->table ? n : sizeof *share->table);
    /* This process lives, and so does the first one. */
    share->table->rows[5].owner = owner_of((uint32_t)getppid());
    share->mine = take_row(share->table);
    if (share->mine) {
        unsigned at = (unsigned)(share->mine - share->table->rows);
        fuzz_taken++;
        MUST(at < ROWS && at != 5 && own[at]);
        MUST(share->mine->held_bytes == 0 && share->mine->wanted_bytes == 0);
        cuda_share_want(share, 1 << 20);
        judge(share);
        give_row(share);
        MUST(share->mine->owner == 0 && !own[at]);
    }
    cuda_share_forget(share);
    return 0;
}

void
fuzz_make_seeds(void)
{
    struct table table = {.identity = 1};
    fuzz_seed(&table, sizeof table);
    for (unsigned i = 0; i < ROWS; i++) {
        table.rows[i] = (struct row){i * 7919 + 1, i % 2, i << 20, 0, i << 24};
    }
    fuzz_seed(&table, sizeof table);
}
