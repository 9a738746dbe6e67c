/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by libcrypto, which crashes where memory ends while it gets ready, and
 * does that by itself at the first use, in whatever thread that is. So it is made
 * ready here, once, with room; without it there are no digests.
 */
#ifndef FERRY_PROXY_DIGEST_H
#define FERRY_PROXY_DIGEST_H

#include <openssl/evp.h>
#include <stddef.h>

/* Makes it ready; before there are threads that take memory as well. 0, or
 * FY_ERR_NOMEM, now and ever after. */
int fy_digest_prepare(void);

/* An empty digest, for EVP_DigestUpdate(); NULL: no memory. */
EVP_MD_CTX *fy_digest_new(void);

/* Of n bytes. 0 or FY_ERR_NOMEM. */
int fy_digest_of(const void *bytes, size_t n, unsigned char out[32]);

#endif
