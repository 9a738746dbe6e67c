/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256, see the header. Most processes hash a few kilobytes: these take
 * common/sha256.c less than libcrypto's relocations take a process (1 ms and 100
 * pages, which each fork copies). So that library is loaded once about as much
 * time has gone into hashing without it; a digest that is on its way moves over
 * with its state. Where it cannot be loaded, all goes on without it. Its
 * documentation calls these functions deprecated since 3.0; they stay in the
 * library, and nothing replaces what they do without providers.
 */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "config.h"

#include "proxy/digest.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"

enum {
    FEW_BYTES = 256 << 10, /* of all digests of a process: 0.9 ms */
};

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#ifdef OPENSSL_SHLIB_VERSION
#define LIBRARY "libcrypto.so." TEXT(OPENSSL_SHLIB_VERSION)
#else
#define LIBRARY "libcrypto.so." SHLIB_VERSION_NUMBER
#endif

struct fy_digest {
    struct fy_sha256 own;
    SHA256_CTX state; /* counts instead once `moved' */
    bool moved;
};

static struct {
    pthread_once_t once;
    bool there;
    int (*update)(SHA256_CTX *state, const void *bytes, size_t n);
    int (*final)(unsigned char *out, SHA256_CTX *state);
} library = {.once = PTHREAD_ONCE_INIT};

static atomic_size_t hashed_bytes;

static void
load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (handle) {
        *(void **)&library.update = dlsym(handle, "SHA256_Update");
        *(void **)&library.final = dlsym(handle, "SHA256_Final");
        library.there = library.update && library.final;
    }
}

/* Whether the library is worth its loading, n bytes more being to be hashed. */
static bool
is_much(size_t n)
{
    size_t before =
        atomic_fetch_add_explicit(&hashed_bytes, n, memory_order_relaxed);
    if (n <= FEW_BYTES && before <= FEW_BYTES - n) {
        return false;
    }
    (void)pthread_once(&library.once, load);
    return library.there;
}

static void
move(struct fy_digest *digest)
{
    const struct fy_sha256 *own = &digest->own;
    SHA256_CTX *state = &digest->state;
    _Static_assert(sizeof state->h == sizeof own->state, "words of 32 bits");
    _Static_assert(sizeof state->data == sizeof own->block, "one block");
    memset(state, 0, sizeof *state);
    memcpy(state->h, own->state, sizeof own->state);
    memcpy(state->data, own->block, own->total_bytes % sizeof own->block);
    state->num = own->total_bytes % sizeof own->block;
    state->Nl = (SHA_LONG)(own->total_bytes << 3);
    state->Nh = (SHA_LONG)(own->total_bytes >> 29);
    state->md_len = SHA256_DIGEST_LENGTH;
    digest->moved = true;
}

static void
start(struct fy_digest *digest)
{
    digest->moved = false;
    fy_sha256_start(&digest->own);
}

struct fy_digest *
fy_digest_new(void)
{
    struct fy_digest *digest = malloc(sizeof *digest);
    if (digest) {
        start(digest);
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
    if (!digest->moved && is_much(n)) {
        move(digest);
    }
    if (digest->moved) {
        (void)library.update(&digest->state, bytes, n);
    } else {
        fy_sha256_add(&digest->own, bytes, n);
    }
}

void
fy_digest_end(struct fy_digest *digest, unsigned char out[FY_DIGEST_BYTES])
{
    if (digest->moved) {
        (void)library.final(out, &digest->state);
    } else {
        fy_sha256_end(&digest->own, out);
    }
}

void
fy_digest_of(const void *bytes, size_t n, unsigned char out[FY_DIGEST_BYTES])
{
    struct fy_digest digest;
    start(&digest);
    fy_digest_add(&digest, bytes, n);
    fy_digest_end(&digest, out);
}
