/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by libcrypto, see the header. Its documentation calls these functions
 * deprecated since 3.0; they stay in the library, and nothing replaces what they
 * do without providers.
 */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "config.h"

#include "proxy/digest.h"

#include <openssl/sha.h>
#include <stdlib.h>

struct fy_digest {
    SHA256_CTX state;
};

struct fy_digest *
fy_digest_new(void)
{
    struct fy_digest *digest = malloc(sizeof *digest);
    if (digest) {
        (void)SHA256_Init(&digest->state);
    }
    return digest;
}

void
fy_digest_free(struct fy_digest *digest)
{
    free(digest);
}

void
fy_digest_add(struct fy_digest *digest, const void *bytes, size_t n)
{
    (void)SHA256_Update(&digest->state, bytes, n);
}

void
fy_digest_end(struct fy_digest *digest, unsigned char out[FY_DIGEST_BYTES])
{
    (void)SHA256_Final(out, &digest->state);
}

void
fy_digest_of(const void *bytes, size_t n, unsigned char out[FY_DIGEST_BYTES])
{
    struct fy_digest digest;
    (void)SHA256_Init(&digest.state);
    fy_digest_add(&digest, bytes, n);
    fy_digest_end(&digest, out);
}
