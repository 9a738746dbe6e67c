/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4) without a library, for ferry-stub, which links nothing:
 * it compares what a repeated command writes with what was delivered before, and
 * for the little that most other processes hash (proxy/digest.h). Not fast.
 */
#ifndef FERRY_COMMON_SHA256_H
#define FERRY_COMMON_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct fy_sha256 {
    uint32_t state[8];
    uint64_t total_bytes;
    unsigned char block[64]; /* total_bytes % 64 of them are waiting */
};

void fy_sha256_start(struct fy_sha256 *hash);
void fy_sha256_add(struct fy_sha256 *hash, const void *bytes, size_t n);
/* Of all that was added; `hash' is used up. */
void fy_sha256_end(struct fy_sha256 *hash, unsigned char out[32]);

#endif
