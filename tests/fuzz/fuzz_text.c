/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file is text, which decides whether its lines may be sorted in parts
 * (proxy/server/split_text.c): all of it UTF-8 without a NUL, as common/plain.h finds it
 * character by character. The input lies at each offset from a page's begin.
 */
#include "config.h"

#include "common/plain.h"
#include "proxy/server/split_text.c" /* for text_bytes */
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "text is what holds UTF-8 and no NUL, to the byte";
const char *const fuzz_words[] = {
    "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
    "\xc0\x80",     "\xe0\x80\x80",     "eight of",     NULL};

/* One character after the other; a NUL is none. */
static size_t
slowly(const char *text, size_t n)
{
    size_t at = 0, size;
    while (at < n && text[at] && (size = fy_utf8_bytes(text + at)) > 0 &&
           size <= n - at) {
        at += size;
    }
    return at;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);
    MUST(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    size_t good = slowly(text, n);
    fuzz_taken += good == n;
    MUST(text_bytes(bytes, n) == good);
    for (size_t skip = 1; skip < 8 && skip < n; skip++) {
        MUST(text_bytes(bytes + skip, n - skip) ==
             slowly(text + skip, n - skip));
    }
    int fd = open(fuzz_file("text", bytes, n), O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0 && range_is_text(fd, 0, n) == (good == n));
    close(fd);
    free(text);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("some lines of text\nwith caf\xc3\xa9 and \xe2\x82\xac\n");
    FUZZ_SEED("\xf0\x9f\x98\x80 0123456789abcdef\0behind a NUL");
    FUZZ_SEED("cut \xe2\x82");
}
