/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzzers share: numbers from a seed (FERRY_FUZZ_SEED), a
 * time to run (FERRY_FUZZ_SECONDS, 5), the input that is being tried kept on
 * disk in case we die of it, changes to bytes, memory in use.
 */
#ifndef FERRY_TESTS_FUZZ_H
#define FERRY_TESTS_FUZZ_H

#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t fuzz_state = 20261121;

static inline uint32_t
below(uint32_t n)
{
    fuzz_state = fuzz_state * UINT64_C(6364136223846793005) +
                 UINT64_C(1442695040888963407);
    return (uint32_t)(fuzz_state >> 33) % n;
}

static inline double
fuzz_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* When to stop. */
static inline double
fuzz_begin(void)
{
    const char *seed = getenv("FERRY_FUZZ_SEED");
    seed = seed ? seed : getenv("FERRY_SEED"); /* of ./check --full */
    const char *seconds = getenv("FERRY_FUZZ_SECONDS");
    fuzz_state = seed ? strtoull(seed, NULL, 10) : fuzz_state;
    return fuzz_seconds() + (seconds ? strtod(seconds, NULL) : 5);
}

static char fuzz_path[64];

static inline void
fuzz_keep(const char *name, const void *bytes, size_t n)
{
    static int file = -1;
    if (file < 0) {
        (void)snprintf(fuzz_path, sizeof fuzz_path, "fuzz-%s-%ld.bin", name,
                       (long)getpid());
        file = open(fuzz_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (pwrite(file, bytes, n, 0) != (ssize_t)n || ftruncate(file, (off_t)n)) {
        printf("# cannot write %s\n", fuzz_path);
    }
}

/* Whatever must hold; the input stays on disk. */
#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("not ok 1 - %s:%d: %s, see %s\n1..1\n", __FILE__, __LINE__, \
                   #condition, fuzz_path);                                     \
            fflush(stdout);                                                    \
            abort();                                                           \
        }                                                                      \
    } while (0)

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static inline size_t
fuzz_memory(void)
{
    return __sanitizer_get_current_allocated_bytes
               ? __sanitizer_get_current_allocated_bytes()
               : mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* A few changes that know nothing of what the bytes mean. */
static inline size_t
fuzz_bytes(unsigned char *bytes, size_t n, size_t most)
{
    for (unsigned rounds = 1 + below(4); rounds && n > 1; rounds--) {
        size_t at = below((uint32_t)n), k = 1 + below(16);
        k = k < n - at ? k : n - at;
        switch (below(6)) {
        case 0:
            bytes[at] = (unsigned char)below(256);
            break;
        case 1:
            bytes[at] ^= (unsigned char)(1U << below(8));
            break;
        case 2: /* a piece away */
            memmove(bytes + at, bytes + at + k, n - at - k);
            n -= k;
            break;
        case 3: /* a piece twice */
            if (n + k <= most) {
                memmove(bytes + at + k, bytes + at, n - at);
                n += k;
            }
            break;
        case 4: /* a piece of another place */
            memmove(bytes + at, bytes + below((uint32_t)(n - k + 1)), k);
            break;
        default:
            if (below(8) == 0) {
                n = at;
            } else {
                bytes[at] = "\0\x7f\x80\xff"[below(4)];
            }
        }
    }
    return n;
}

#endif
