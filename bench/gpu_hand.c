/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of matrices in pageable memory as one would write it by hand for
 * cuBLAS: everything fits on the card, copies in, computing and copies out
 * overlap. Tiles of C are computed in the order in which what they need comes
 * in. Three ways to copy: page-locked slots filled by threads; the operands
 * registered for this call; registered once, outside of the time.
 */
#include "config.h"

#include <stdlib.h>

#include "bench/gpu_card.h"

enum {
    BLOCKS = 8, /* of each extent */
    BLOCK_MIN = 16,
};

enum strategy {
    STRATEGY_RING,
    STRATEGY_REGISTER,
    STRATEGY_REGISTERED,
};

struct cut {
    int64_t extent, block;
    int count;
};

static struct cut
cut(int64_t extent)
{
    struct cut c = {.extent = extent, .block = (extent + BLOCKS - 1) / BLOCKS};
    c.block = c.block < BLOCK_MIN ? BLOCK_MIN : c.block;
    c.count = (int)((extent + c.block - 1) / c.block);
    return c;
}

static int64_t
length(const struct cut *c, int i)
{
    int64_t left = c->extent - i * c->block;
    return left < c->block ? left : c->block;
}

/* Block (i, j) of a matrix whose copy on the device has the same layout. */
static struct piece
block(const struct matrix *m, uint64_t device, const struct cut *rows, int i,
      const struct cut *columns, int j)
{
    size_t element = bench_element_bytes(m->type);
    size_t pitch = (size_t)m->rows * element;
    size_t at = (size_t)(j * columns->block) * pitch +
                (size_t)(i * rows->block) * element;
    return (struct piece){.host = (char *)m->data + at,
                          .device = device + at,
                          .width_bytes = (size_t)length(rows, i) * element,
                          .rows = (size_t)length(columns, j),
                          .host_pitch = pitch,
                          .device_pitch = pitch};
}

/* In the order of need: B's first columns, all of A, B's other columns; before them
 * the columns of C that they are added to. */
static int
list_in(const struct job *job, const uint64_t at[3], const struct cut *m,
        const struct cut *n, const struct cut *k, struct piece *out)
{
    int count = 0;
    for (int j = 0; j < n->count; j++) {
        for (int l = 0; l < k->count; l++) {
            out[count++] = block(&job->b, at[1], k, l, n, j);
        }
        for (int i = 0; i < m->count; i++) {
            for (int l = 0; j == 0 && l < k->count; l++) {
                out[count++] = block(&job->a, at[0], m, i, k, l);
            }
            if (job->adds) {
                out[count++] = block(&job->c, at[2], m, i, n, j);
            }
        }
    }
    return count;
}

/* Lets the compute stream wait for what tile (i, j) is the first to need. */
static void
await_operands(struct mover *in, struct card *card, const struct job *job,
               const struct cut *m, const struct cut *k, int i, int j)
{
    int added = job->adds ? 1 : 0;
    int column =
        j == 0 ? 0 : j * (k->count + added * m->count) + m->count * k->count;
    int row = column + k->count + i * ((j == 0 ? k->count : 0) + added);
    for (int l = 0; i == 0 && l < k->count; l++) {
        bench_mover_await(in, column + l, card->compute);
    }
    for (int l = 0; l < (j == 0 ? k->count : 0) + added; l++) {
        bench_mover_await(in, row + l, card->compute);
    }
}

static void
product(struct job *job, struct card *card, void *gemm, bool straight)
{
    size_t element = bench_element_bytes(job->type);
    struct cut m = cut(job->m), n = cut(job->n), k = cut(job->k);
    int most = m.count * k.count + k.count * n.count + m.count * n.count;
    struct piece *in_pieces = calloc((size_t)most, sizeof *in_pieces);
    struct piece *out_pieces =
        calloc((size_t)m.count * (size_t)n.count, sizeof *out_pieces);
    uint64_t a = bench_card_alloc(card, (size_t)(job->m * job->k) * element);
    uint64_t b = bench_card_alloc(card, (size_t)(job->k * job->n) * element);
    uint64_t c = bench_card_alloc(card, (size_t)(job->m * job->n) * element);
    int count = 0;
    if (in_pieces == NULL || out_pieces == NULL) {
        abort();
    }
    for (int j = 0; j < n.count; j++) {
        for (int i = 0; i < m.count; i++) {
            out_pieces[count++] = block(&job->c, c, &m, i, &n, j);
        }
    }
    struct mover *out =
        bench_mover_start(card, out_pieces, count, true, straight);
    const uint64_t places[3] = {a, b, c};
    count = list_in(job, places, &m, &n, &k, in_pieces);
    struct mover *in =
        bench_mover_start(card, in_pieces, count, false, straight);
    for (int j = 0; j < n.count; j++) {
        for (int i = 0; i < m.count; i++) {
            const int64_t sizes[3] = {length(&m, i), length(&n, j), job->k};
            uint64_t at_a = a + (uint64_t)(i * m.block) * element;
            uint64_t at_b = b + (uint64_t)(j * n.block * job->k) * element;
            await_operands(in, card, job, &m, &k, i, j);
            bench_must(
                "gemm",
                bench_gemm(
                    gemm, card->blas, job->type, sizes, (void *)(uintptr_t)at_a,
                    job->m, (void *)(uintptr_t)at_b, job->k, job->adds,
                    (void *)(uintptr_t)out_pieces[j * m.count + i].device,
                    job->m));
            bench_mover_allow(out, j * m.count + i, card->compute);
        }
    }
    bench_mover_end(out);
    bench_mover_end(in);
    bench_must("cuMemFree", card->driver.free(a));
    bench_must("cuMemFree", card->driver.free(b));
    bench_must("cuMemFree", card->driver.free(c));
    free(in_pieces);
    free(out_pieces);
}

static void
lock_pages(struct card *card, const struct job *job, bool on)
{
    const struct matrix *all[] = {&job->a, &job->b, &job->c};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t bytes = (size_t)all[i]->rows * (size_t)all[i]->columns *
                       bench_element_bytes(job->type);
        if (on) {
            bench_must("cuMemHostRegister",
                       card->host_register(all[i]->data, bytes, 0));
        } else {
            bench_must("cuMemHostUnregister",
                       card->host_unregister(all[i]->data));
        }
    }
}

static int
by_hand(struct job *job, struct times *times, const char **why,
        enum strategy strategy)
{
    char name[32] = "cublas?gemm_v2_64";
    struct card *card = bench_card(why);
    if (card == NULL) {
        return -1;
    }
    name[6] = (char)(job->type - 'a' + 'A');
    void *gemm = bench_function(card->cublas, name);
    if (gemm == NULL || job->kind != KIND_GEMM) {
        *why = gemm == NULL ? "an older cuBLAS, without 64-bit integers"
                            : "written by hand for products only";
        return -1;
    }
    if (strategy == STRATEGY_REGISTERED) {
        lock_pages(card, job, true);
    }
    double start = bench_now();
    if (strategy == STRATEGY_REGISTER) {
        lock_pages(card, job, true);
    }
    product(job, card, gemm, strategy != STRATEGY_RING);
    if (strategy == STRATEGY_REGISTER) {
        lock_pages(card, job, false);
    }
    times->call = bench_now() - start;
    if (strategy == STRATEGY_REGISTERED) {
        lock_pages(card, job, false);
    }
    return 0;
}

int
bench_hand_ring(struct job *job, struct times *times, const char **why)
{
    return by_hand(job, times, why, STRATEGY_RING);
}

int
bench_hand_register(struct job *job, struct times *times, const char **why)
{
    return by_hand(job, times, why, STRATEGY_REGISTER);
}

int
bench_hand_registered(struct job *job, struct times *times, const char **why)
{
    return by_hand(job, times, why, STRATEGY_REGISTERED);
}
