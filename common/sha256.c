/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 as FIPS 180-4 writes it down; see the header. No allocation, no libc
 * beyond memcpy and memset.
 */
#include "config.h"

#include "common/sha256.h"

#include <stdatomic.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64
 * primes (FIPS 180-4, 4.2.2). */
const uint32_t fy_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t
rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void
one_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64];
    for (size_t t = 0; t < 16; t++) {
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    }
    for (unsigned t = 16; t < 64; t++) {
        uint32_t s0 =
            rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 =
            rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    /* In registers: an array that is shifted takes twice as long. */
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (unsigned t = 0; t < 64; t++) {
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t t1 =
            h + s1 + ((e & f) ^ (~e & g)) + fy_sha256_constants[t] + w[t];
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const uint32_t result[8] = {a, b, c, d, e, f, g, h};
    for (unsigned i = 0; i < 8; i++) {
        state[i] += result[i];
    }
}

void
fy_sha256_plain(uint32_t state[8], const unsigned char *blocks, size_t n)
{
    for (; n > 0; n--, blocks += 64) {
        one_block(state, blocks);
    }
}

static void
compress(uint32_t state[8], const unsigned char *blocks, size_t n)
{
    enum {
        UNKNOWN,
        PLAIN,
        FAST
    };
    static atomic_int way; /* threads that ask at once find the same */
    int known = atomic_load_explicit(&way, memory_order_relaxed);
    if (known == UNKNOWN) {
        known = fy_sha256_is_fast() ? FAST : PLAIN;
        atomic_store_explicit(&way, known, memory_order_relaxed);
    }
    if (known == FAST) {
        fy_sha256_fast(state, blocks, n);
    } else {
        fy_sha256_plain(state, blocks, n);
    }
}

void
fy_sha256_start(struct fy_sha256 *hash)
{
    static const uint32_t initial[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    memcpy(hash->state, initial, sizeof initial);
    hash->total_bytes = 0;
}

void
fy_sha256_add(struct fy_sha256 *hash, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    size_t waiting = hash->total_bytes % 64;
    hash->total_bytes += n;
    if (waiting > 0) {
        size_t part = n < 64 - waiting ? n : 64 - waiting;
        memcpy(hash->block + waiting, from, part);
        from += part;
        n -= part;
        if (waiting + part < 64) {
            return;
        }
        compress(hash->state, hash->block, 1);
    }
    if (n >= 64) {
        compress(hash->state, from, n / 64);
    }
    if (n % 64 > 0) {
        memcpy(hash->block, from + n / 64 * 64, n % 64);
    }
}

void
fy_sha256_end(struct fy_sha256 *hash, unsigned char out[32])
{
    uint64_t bits = hash->total_bytes * 8;
    unsigned char tail[72] = {0x80};
    size_t waiting = hash->total_bytes % 64;
    size_t zeros = (waiting < 56 ? 56 : 120) - waiting;
    for (unsigned i = 0; i < 8; i++) {
        tail[zeros + i] = (unsigned char)(bits >> (56 - 8 * i));
    }
    fy_sha256_add(hash, tail, zeros + 8);
    for (unsigned i = 0; i < 32; i++) {
        out[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void
fy_sha256_of(const void *bytes, size_t n, unsigned char out[32])
{
    struct fy_sha256 hash;
    fy_sha256_start(&hash);
    fy_sha256_add(&hash, bytes, n);
    fy_sha256_end(&hash, out);
}
