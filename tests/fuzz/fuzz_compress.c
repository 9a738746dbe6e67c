/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of zstd that a proxy answers with (proxy/wire/compress.h). The first byte
 * chooses: even, the rest is what a proxy says; odd, the rest is compressed first
 * and must come back as it was. The pieces that are added and taken are cut by the
 * input's own bytes.
 */
#include "config.h"

#include "proxy/wire/compress.h"
#include "tests/fuzz/target.h"

enum {
    MAX_OUT = 1 << 22 /* of one input that no squeezer made */
};

const char fuzz_shows[] = "every compressed stream comes back or is refused";
const char *const fuzz_words[] = {"\x28\xb5\x2f\xfd", NULL};

struct bytes {
    unsigned char *at;
    size_t n;
};

static int
keep(void *context, const void *bytes, size_t n)
{
    struct bytes *all = context;
    unsigned char *larger = realloc(all->at, all->n + n + 1);
    MUST(larger);
    memcpy(larger + all->n, bytes, n);
    all->at = larger;
    all->n += n;
    return 0;
}

static struct bytes
squeeze(const uint8_t *bytes, size_t n)
{
    struct fy_squeeze *squeeze;
    struct bytes out = {0};
    MUST(fy_squeeze_new(0, &squeeze) == 0);
    for (size_t at = 0; at < n;) {
        size_t part = 1 + bytes[at] * 16U;
        part = part < n - at ? part : n - at;
        fy_squeeze_set(squeeze, bytes[at] & 1 ? 1e3 : 1e12, 1e8);
        MUST(!fy_squeeze_add(squeeze, bytes + at, part, bytes[at] & 2, keep,
                             &out));
        at += part;
    }
    MUST(!fy_squeeze_end(squeeze, keep, &out));
    fy_squeeze_free(squeeze);
    return out;
}

/* 0, or the decoder's refusal. */
static int
unsqueeze(const uint8_t *bytes, size_t n, struct bytes *out)
{
    struct fy_unsqueeze *unsqueeze;
    int status = 0;
    MUST(fy_unsqueeze_new(&unsqueeze) == 0);
    for (size_t at = 0; at < n && !status && out->n < MAX_OUT;) {
        size_t part = 1 + bytes[at] * 8U, got = 1;
        part = part < n - at ? part : n - at;
        MUST(fy_unsqueeze_add(unsqueeze, bytes + at, part) == 0);
        at += part;
        while (!status && got && out->n < MAX_OUT) {
            unsigned char to[700];
            size_t most = 1 + (out->n + part) % sizeof to;
            status = fy_unsqueeze_take(unsqueeze, to, most, &got);
            MUST(status == 0 || status == FY_ERR_INVALID);
            MUST(status || got <= most);
            MUST(status || keep(out, to, got) == 0);
        }
        MUST(fy_unsqueeze_waiting(unsqueeze) <= n);
    }
    fy_unsqueeze_free(unsqueeze);
    return status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct bytes out = {0};
    if (n == 0) {
        return 0;
    }
    if (bytes[0] & 1) {
        struct bytes small = squeeze(bytes + 1, n - 1);
        MUST(unsqueeze(small.at, small.n, &out) == 0);
        MUST(out.n == n - 1 && (!out.n || !memcmp(out.at, bytes + 1, out.n)));
        free(small.at);
    } else if (unsqueeze(bytes + 1, n - 1, &out) == 0 && out.n) {
        fuzz_taken++;
    }
    free(out.at);
    return 0;
}

void
fuzz_make_seeds(void)
{
    static unsigned char text[6000];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (unsigned char)("words and words "[i % 16] + (i % 97 == 0));
    }
    text[0] = 1;
    fuzz_seed(text, sizeof text);
    FUZZ_SEED("\1"); /* the last block is of no bytes, and from nowhere */
    struct bytes small = squeeze(text, sizeof text);
    memmove(small.at + 1, small.at, small.n);
    small.at[0] = 0;
    fuzz_seed(small.at, small.n + 1);
    free(small.at);
}
