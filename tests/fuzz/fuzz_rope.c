/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of the wire (proxy/wire/rope.h): what the input says is added, moved and
 * dropped, beside a plain array that must hold the same.
 */
#include "config.h"

#include "proxy/wire/rope.h"
#include "tests/fuzz/target.h"

enum {
    ROPES = 3,
    MAX_BYTES = 1 << 20
};

const char fuzz_shows[] = "queues hold what was added, in order";
const char *const fuzz_words[] = {NULL};

static struct {
    struct fy_rope rope;
    unsigned char *bytes;
    size_t n;
} both[ROPES];

static void
compare(unsigned i)
{
    struct iovec parts[64];
    int count = fy_rope_vector(&both[i].rope, parts, 64);
    size_t at = 0;
    MUST(both[i].rope.bytes == both[i].n && count >= 0 && count <= 64);
    for (int k = 0; k < count; k++) {
        MUST(parts[k].iov_len > 0 && parts[k].iov_len <= both[i].n - at);
        MUST(!memcmp(both[i].bytes + at, parts[k].iov_base, parts[k].iov_len));
        at += parts[k].iov_len;
    }
    MUST(at == both[i].n || count == 64);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static unsigned char noise[70000];
    struct fy_block_pool pool = {0};
    memset(both, 0, sizeof both);
    for (unsigned i = 0; i < ROPES; i++) {
        both[i].bytes = malloc(MAX_BYTES);
        MUST(both[i].bytes);
    }
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (unsigned char)(i * 31 + i / 251);
    }
    for (size_t at = 0; at + 3 <= n; at += 3) {
        unsigned i = bytes[at] % ROPES, j = bytes[at] / 16 % ROPES;
        size_t size = bytes[at + 1] * 256U + bytes[at + 2];
        size_t have = both[i].n;
        switch (bytes[at] / 64) {
        case 0:
        case 1:
            if (have + size > MAX_BYTES) {
                break;
            }
            MUST(!fy_rope_add(&both[i].rope, &pool, noise + at % 4000, size));
            memcpy(both[i].bytes + have, noise + at % 4000, size);
            both[i].n += size;
            break;
        case 2:
            size = size < have ? size : have;
            if (i == j || both[j].n + size > MAX_BYTES) {
                break;
            }
            MUST(!fy_rope_move(&both[j].rope, &both[i].rope, size));
            memcpy(both[j].bytes + both[j].n, both[i].bytes, size);
            memmove(both[i].bytes, both[i].bytes + size, have - size);
            both[j].n += size;
            both[i].n -= size;
            compare(j);
            break;
        default:
            size = size < have ? size : have;
            fy_rope_drop(&both[i].rope, &pool, size);
            memmove(both[i].bytes, both[i].bytes + size, have - size);
            both[i].n -= size;
        }
        compare(i);
    }
    fuzz_taken++;
    for (unsigned i = 0; i < ROPES; i++) {
        fy_rope_clear(&both[i].rope, &pool);
        free(both[i].bytes);
    }
    fy_block_pool_clear(&pool);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("\x00\x01\x10\x41\x80\x80\x80\x00\x05\xc0\x00\x07\xc1\xff\xff");
    FUZZ_SEED("\x00\x40\x00\x00\x40\x00\x10\x00\x01\x90\x60\x00\xc0\x20\x00");
    unsigned char many[600];
    for (size_t i = 0; i < sizeof many; i++) {
        many[i] = (unsigned char)(i % 3 == 1 ? 0 : i * 29);
    }
    fuzz_seed(many, sizeof many);
}
