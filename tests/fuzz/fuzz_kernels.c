/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a compiled kernel (pager/device/cuda/kernel_cache.c): a card would run what is in
 * it. Only a file that the cache would write is believed: what is taken, and then
 * put, is the same file again.
 */
#include "config.h"

#include "common/sha256.h"
#include "pager/device/cuda/kernel_compile.h"
#include "tests/fuzz/target.h"

enum {
    HEAD_BYTES = 8 + 8 + 2 * FY_KERNEL_KEY_BYTES
};

const char fuzz_shows[] = "only files that the cache has written are kernels";
const char *const fuzz_words[] = {"ferryKR1", "\x01", ".version 7.0\n", NULL};

static const struct fy_kernel_key key = {{7, 1, 2, 3}};

static size_t
read_back(char *to, size_t room)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/cache/0701020300%054d", fuzz_folder(),
                   0);
    FILE *file = fopen(path, "rb");
    MUST(file);
    size_t n = fread(to, 1, room, file);
    (void)fclose(file);
    return n;
}

static void
try_file(const void *bytes, size_t n)
{
    char name[100];
    void *image = NULL;
    size_t size;
    (void)snprintf(name, sizeof name, "cache/0701020300%054d", 0);
    (void)fuzz_file(name, bytes, n);
    if (fy_kernel_cache_get(&key, &image, &size) != 0) {
        MUST(!image);
        return;
    }
    fuzz_taken++;
    char *again = malloc(n + 1);
    MUST(again && size == n - HEAD_BYTES);
    fy_kernel_cache_put(&key, image, size);
    MUST(read_back(again, n + 1) == n && !memcmp(again, bytes, n));
    free(again);
    free(image);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static char folder[600];
    (void)snprintf(folder, sizeof folder, "%s/cache", fuzz_folder());
    fy_kernel_cache_to(folder);
    try_file(bytes, n);
    if (n > HEAD_BYTES) { /* with the hash that its image has */
        struct fy_sha256 hash;
        unsigned char *copy = malloc(n);
        MUST(copy);
        memcpy(copy, bytes, n);
        fy_sha256_start(&hash);
        fy_sha256_add(&hash, bytes + HEAD_BYTES, n - HEAD_BYTES);
        fy_sha256_end(&hash, copy + 16 + FY_KERNEL_KEY_BYTES);
        try_file(copy, n);
        free(copy);
    }
    return 0;
}

void
fuzz_make_seeds(void)
{
    static char bytes[4096];
    char folder[600];
    (void)snprintf(folder, sizeof folder, "%s/cache", fuzz_folder());
    fy_kernel_cache_to(folder);
    fy_kernel_cache_put(&key, ".version 7.0\n.target sm_80\n", 27);
    fuzz_seed(bytes, read_back(bytes, sizeof bytes));
}
