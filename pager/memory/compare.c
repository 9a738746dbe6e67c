/* SPDX-License-Identifier: Apache-2.0 */
/* Copies pages to ferry's memory, by calls that cannot fault, and hashes the copies. */
#define XXH_INLINE_ALL
#include "config.h"

#include "pager/memory/compare.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <xxhash.h>

#include "common/clock.h"
#include "pager/device/host_access.h"
#include "pager/memory/watch.h"

enum {
    BLOCK_BYTES =
        64 * FY_PAGE_BYTES, /* stays in the cache between copy and hash */
    ROUNDS = 3,             /* of a measurement: the best counts */
};

int
fy_compare_start(struct fy_compare *compare)
{
    int saved = errno, status = FY_OK;

    compare->block = malloc(BLOCK_BYTES);
    if (!compare->block) {
        status = FY_ERR_NOMEM;
    } else if (getrandom(compare->secret, FY_COMPARE_SECRET_BYTES,
                         GRND_NONBLOCK) != FY_COMPARE_SECRET_BYTES) {
        status = FY_ERR_IO;
        fy_compare_end(compare);
    }
    errno = saved;
    return status;
}

void
fy_compare_end(struct fy_compare *compare)
{
    free(compare->block);
    compare->block = NULL;
}

int
fy_compare_pages(struct fy_compare *compare, uintptr_t first, uintptr_t end,
                 fy_compare_told *told, void *state)
{
    int saved = errno, status = FY_OK;

    while (first < end && status == FY_OK) {
        size_t bytes = end - first < BLOCK_BYTES ? end - first : BLOCK_BYTES;
        struct fy_host_access access;
        fy_host_access_begin(&access, false, false);
        fy_host_access_row(&access, (char *)first, compare->block, 1, 0, 0,
                           bytes);
        status = fy_host_access_end(&access);
        for (size_t at = 0; at < bytes && status == FY_OK;
             at += FY_PAGE_BYTES) {
            XXH128_hash_t hash = XXH3_128bits_withSecret(
                compare->block + at, FY_PAGE_BYTES, compare->secret,
                FY_COMPARE_SECRET_BYTES);
            told(state, first + at,
                 (struct fy_page_hash){hash.low64, hash.high64});
        }
        first += bytes;
    }
    errno = saved;
    return status;
}

static void
ignore(void *state, uintptr_t page, struct fy_page_hash hash)
{
    (void)state;
    (void)page;
    (void)hash;
}

double
fy_compare_rate(const char *memory, size_t bytes)
{
    struct fy_compare compare;
    const uintptr_t first =
        ((uintptr_t)memory + FY_PAGE_BYTES - 1) / FY_PAGE_BYTES * FY_PAGE_BYTES;
    double best = 0;

    if (fy_compare_start(&compare)) {
        return 0;
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        double start = fy_clock_seconds();
        int status =
            fy_compare_pages(&compare, first, first + bytes, ignore, NULL);
        double rate = (double)bytes / (fy_clock_seconds() - start);
        best = status == FY_OK && rate > best ? rate : best;
    }
    fy_compare_end(&compare);
    return best;
}
