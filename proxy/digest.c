/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by libcrypto, see the header. The method is fetched by name once:
 * EVP_sha256() would look it up anew for each digest, under locks that are not
 * there when libcrypto could not get ready.
 */
#include "config.h"

#include "proxy/digest.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/status.h"

enum {
    ROOM_BYTES = 4 << 20, /* libcrypto 3.0 takes a tenth of that */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static EVP_MD *method; /* NULL: there are no digests */

static void
get_ready(void)
{
    void *volatile room = malloc(ROOM_BYTES);
    if (!room) {
        return;
    }
    free(room);
    /* Threads of the pool may still run when the process ends: nothing is taken
     * from under them. */
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1) {
        method = EVP_MD_fetch(NULL, "SHA256", NULL);
    }
}

int
fy_digest_prepare(void)
{
    (void)pthread_once(&once, get_ready);
    return method ? 0 : FY_ERR_NOMEM;
}

EVP_MD_CTX *
fy_digest_new(void)
{
    if (fy_digest_prepare()) {
        return NULL;
    }
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (digest && EVP_DigestInit_ex(digest, method, NULL) != 1) {
        EVP_MD_CTX_free(digest);
        return NULL;
    }
    return digest;
}

int
fy_digest_of(const void *bytes, size_t n, unsigned char out[32])
{
    EVP_MD_CTX *digest = fy_digest_new();
    bool good = digest && EVP_DigestUpdate(digest, bytes, n) == 1 &&
                EVP_DigestFinal_ex(digest, out, NULL) == 1;
    EVP_MD_CTX_free(digest);
    return good ? 0 : FY_ERR_NOMEM;
}
