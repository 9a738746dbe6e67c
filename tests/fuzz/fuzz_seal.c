/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a sealed connection (proxy/wire/seal.h). The input is opened as it is; and
 * its bytes are sent as records, of which one is then spoilt as the input says: all
 * before it must open to what was sent, and it must not.
 */
#include "config.h"

#include "proxy/wire/seal.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "only records that are as they were sent open";
const char *const fuzz_words[] = {"\xf5", NULL};

/* How many records open, of the first `n' bytes; their content to `out'. */
static unsigned
open_all(const unsigned char *bytes, size_t n, bool is_client,
         unsigned char *out, size_t *out_n)
{
    struct fy_seal *seal;
    unsigned opened = 0;
    size_t at = 0, size;
    int status;
    *out_n = 0;
    MUST(fy_seal_new(is_client, &seal) == 0);
    while ((status = fy_seal_open(seal, bytes + at, n - at, &size)) == 0) {
        MUST(size >= 1 && size <= FY_SEAL_MAX_BYTES);
        MUST(FY_SEAL_HEAD_BYTES + size <= n - at);
        memcpy(out + *out_n, bytes + at + FY_SEAL_HEAD_BYTES, size);
        *out_n += size;
        at += FY_SEAL_HEAD_BYTES + size;
        opened++;
    }
    MUST(status == FY_ERR_BUSY || status == FY_ERR_INVALID);
    MUST(status == FY_ERR_INVALID ||
         n - at < FY_SEAL_HEAD_BYTES + FY_SEAL_MAX_BYTES);
    fy_seal_free(seal);
    return opened;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fy_seal *seal;
    unsigned char *sent = malloc(n * (1 + FY_SEAL_HEAD_BYTES) + 1);
    unsigned char *got = malloc(n * (1 + FY_SEAL_HEAD_BYTES) + 1);
    size_t nsent = 0, ngot, spoilt = SIZE_MAX, intact = 0, content = 0;
    MUST(sent && got);
    (void)open_all(bytes, n, true, got, &ngot);
    (void)open_all(bytes, n, false, got, &ngot);
    if (n < 4) {
        goto done;
    }
    MUST(fy_seal_new(true, &seal) == 0);
    unsigned records = 0, victim = bytes[0] % 8;
    for (size_t at = 3; at < n; records++) {
        size_t size = 1 + bytes[at] % 64;
        size = size < n - at ? size : n - at;
        const struct iovec part = {(void *)(uintptr_t)(bytes + at), size};
        if (records == victim) {
            spoilt = nsent + bytes[1] % (FY_SEAL_HEAD_BYTES + size);
            intact = content;
        }
        MUST(!fy_seal_close(seal, &part, size, sent + nsent));
        memcpy(sent + nsent + FY_SEAL_HEAD_BYTES, bytes + at, size);
        nsent += FY_SEAL_HEAD_BYTES + size;
        content += size;
        at += size;
    }
    fy_seal_free(seal);
    MUST(open_all(sent, nsent, false, got, &ngot) == records);
    MUST(ngot == n - 3 && !memcmp(got, bytes + 3, ngot));
    /* Back to its sender nothing opens. */
    MUST(open_all(sent, nsent, true, got, &ngot) == 0);
    if (spoilt != SIZE_MAX && bytes[2]) {
        sent[spoilt] ^= bytes[2];
        MUST(open_all(sent, nsent, false, got, &ngot) == victim);
        MUST(ngot == intact && !memcmp(got, bytes + 3, ngot));
        fuzz_taken++;
    }
done:
    free(sent);
    free(got);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("\x01\x05\x80#this is sent in records of some length, cut by it");
    FUZZ_SEED("\x00\x0c\x01ZZZZZZZZZZ\x01\x02\x03");
}
