/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See seal.h. The checksum is eight lanes of xor, rotate, multiply: each step
 * loses nothing of the lane or the word, so that one changed word always shows,
 * and the lanes do not wait for one another (a third of what the quickest MAC of
 * libcrypto takes).
 */
#include "config.h"

#include "proxy/wire/seal.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 4, /* with the first byte */
    SUM_BYTES = 8,
    LANES = 8,
    BLOCK_BYTES = 64, /* a word for each lane */
};

#define MULTIPLIER UINT64_C(0x9e3779b97f4a7c15)

struct fy_seal {
    uint64_t sent, received; /* records */
    uint64_t direction;      /* of what we send */
};

struct sum {
    uint64_t lanes[LANES];
    unsigned char rest[BLOCK_BYTES]; /* of a block that is not full */
    size_t nrest;
};

int
fy_seal_new(bool is_client, struct fy_seal **out)
{
    struct fy_seal *seal = calloc(1, sizeof *seal);
    if (!seal) {
        return FY_ERR_NOMEM;
    }
    seal->direction = is_client;
    *out = seal;
    return FY_OK;
}

void
fy_seal_free(struct fy_seal *seal)
{
    free(seal);
}

static uint64_t
step(uint64_t lane, uint64_t word)
{
    lane ^= word;
    return (lane << 29 | lane >> 35) * MULTIPLIER;
}

static void
add_blocks(struct sum *sum, const unsigned char *bytes, size_t nblocks)
{
    uint64_t lanes[LANES], words[LANES];
    memcpy(lanes, sum->lanes, sizeof lanes);
    for (; nblocks; nblocks--, bytes += BLOCK_BYTES) {
        memcpy(words, bytes, sizeof words);
        for (int i = 0; i < LANES; i++) {
            lanes[i] = step(lanes[i], le64toh(words[i]));
        }
    }
    memcpy(sum->lanes, lanes, sizeof lanes);
}

static void
add(struct sum *sum, const unsigned char *bytes, size_t n)
{
    if (sum->nrest) {
        size_t k = BLOCK_BYTES - sum->nrest;
        k = k < n ? k : n;
        memcpy(sum->rest + sum->nrest, bytes, k);
        sum->nrest += k;
        bytes += k;
        n -= k;
        if (sum->nrest < BLOCK_BYTES) {
            return;
        }
        add_blocks(sum, sum->rest, 1);
        sum->nrest = 0;
    }
    add_blocks(sum, bytes, n / BLOCK_BYTES);
    sum->nrest = n % BLOCK_BYTES;
    memcpy(sum->rest, bytes + (n - sum->nrest), sum->nrest);
}

/* The checksum of the first n bytes of the parts, as a record's. */
static void
compute(uint64_t number, uint64_t direction, const struct iovec *parts,
        size_t n, unsigned char out[SUM_BYTES])
{
    struct sum sum = {.nrest = 0};
    uint64_t all = step(step(0, number), direction << 32 | n);
    for (uint64_t i = 0; i < LANES; i++) {
        sum.lanes[i] = i + 1;
    }
    for (; n; parts++) {
        size_t k = parts->iov_len < n ? parts->iov_len : n;
        add(&sum, parts->iov_base, k);
        n -= k;
    }
    if (sum.nrest) {
        memset(sum.rest + sum.nrest, 0, BLOCK_BYTES - sum.nrest);
        add_blocks(&sum, sum.rest, 1);
    }
    for (int i = 0; i < LANES; i++) {
        all = step(all, sum.lanes[i]);
    }
    all = htole64(all ^ all >> 32);
    memcpy(out, &all, SUM_BYTES);
}

int
fy_seal_close(struct fy_seal *seal, const struct iovec *parts, size_t n,
              unsigned char head[FY_SEAL_HEAD_BYTES])
{
    if (n == 0 || n > FY_SEAL_MAX_BYTES) {
        return FY_ERR_INVALID;
    }
    head[0] = FY_SEAL_FIRST_BYTE;
    head[1] = (unsigned char)(n >> 16);
    head[2] = (unsigned char)(n >> 8);
    head[3] = (unsigned char)n;
    compute(seal->sent++, seal->direction, parts, n, head + LENGTH_BYTES);
    return FY_OK;
}

int
fy_seal_open(struct fy_seal *seal, const unsigned char *bytes, size_t n,
             size_t *out_n)
{
    unsigned char sum[SUM_BYTES];
    if (n && bytes[0] != FY_SEAL_FIRST_BYTE) {
        return FY_ERR_INVALID;
    }
    if (n < FY_SEAL_HEAD_BYTES) {
        return FY_ERR_BUSY;
    }
    size_t holds =
        (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | (size_t)bytes[3];
    if (holds == 0 || holds > FY_SEAL_MAX_BYTES) {
        return FY_ERR_INVALID;
    }
    if (n - FY_SEAL_HEAD_BYTES < holds) {
        return FY_ERR_BUSY;
    }
    const struct iovec part = {(void *)(uintptr_t)(bytes + FY_SEAL_HEAD_BYTES),
                               holds};
    compute(seal->received++, !seal->direction, &part, holds, sum);
    if (memcmp(sum, bytes + LENGTH_BYTES, SUM_BYTES) != 0) {
        return FY_ERR_INVALID;
    }
    *out_n = holds;
    return FY_OK;
}
