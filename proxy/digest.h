/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256: by common/sha256.c while a process hashes little. From 256 KiB on
 * libcrypto is loaded and hashes. Its SHA256_ functions need nothing but the state
 * that they are given. EVP, its interface by names of methods, takes a millisecond
 * of each process for providers and their configuration file, and crashes where
 * memory ends while it gets ready. Any thread; a digest is
 * used by one at a time.
 */
#ifndef FERRY_PROXY_DIGEST_H
#define FERRY_PROXY_DIGEST_H

#include <stddef.h>

enum {
    FY_DIGEST_BYTES = 32
};

struct fy_digest;

/* An empty digest, fy_digest_free() it; NULL: no memory. */
struct fy_digest *fy_digest_new(void);
void fy_digest_free(struct fy_digest *digest);
void fy_digest_add(struct fy_digest *digest, const void *bytes, size_t n);
/* Of all that was added; `digest' is used up. */
void fy_digest_end(struct fy_digest *digest,
                   unsigned char out[FY_DIGEST_BYTES]);

/* Of n bytes at once. */
void fy_digest_of(const void *bytes, size_t n,
                  unsigned char out[FY_DIGEST_BYTES]);

#endif
