/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4) without a library: by the processor's instructions for it
 * where there are such, else in C. No allocation. Any thread; a hash is used by
 * one at a time.
 */
#ifndef FERRY_COMMON_SHA256_H
#define FERRY_COMMON_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fy_sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    unsigned char block[64]; /* total_bytes % 64 of them are waiting */
};

/* Begins a hash; nothing has to be freed. */
void fy_sha256_start(struct fy_sha256 *hash);
/* Appends n bytes to the message. */
void fy_sha256_add(struct fy_sha256 *hash, const void *bytes, size_t n);
/* Returns the hash of all that was added; `hash' is used up. */
void fy_sha256_end(struct fy_sha256 *hash, unsigned char out[32]);

/* Hashes n bytes at once. */
void fy_sha256_of(const void *bytes, size_t n, unsigned char out[32]);

/*
 * For sha256.c and its test: n blocks of 64 bytes into a state, in C (plain) and
 * by instructions (fast) that the processor has where fy_sha256_is_fast(). Both
 * take fy_sha256_constants, those of FIPS 180-4, 4.2.2.
 */
extern const uint32_t fy_sha256_constants[64];
bool fy_sha256_is_fast(void);
void fy_sha256_plain(uint32_t state[8], const unsigned char *blocks, size_t n);
void fy_sha256_fast(uint32_t state[8], const unsigned char *blocks, size_t n);

#endif
