/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See provider.h. isamax with n = 0xffffffff00000003 sees 3 elements where
 * INTEGER has 32 bits and a negative number, hence none, where it has 64 (the
 * idea is libblastrampoline's).
 */
#include "config.h"

#include "pager/bind/provider.h"

static const uint8_t widths[] = {0, 32, 64};

/* By the answer's index of the largest of three elements, or of none. */
static unsigned
bits_of(int32_t answer, int32_t largest)
{
    return answer == largest ? 32 : answer == 0 ? 64 : 0;
}

static unsigned
probe_fortran(void *function)
{
    int64_t (*isamax)(const int64_t *, const float *, const int64_t *);
    const int64_t n = (int64_t)0xffffffff00000003, one = 1;
    static const float x[4] = {1, 2, 3, 0};

    *(void **)&isamax = function;
    return bits_of((int32_t)isamax(&n, x, &one), 3);
}

static unsigned
probe_c(void *function)
{
    size_t (*isamax)(int64_t, const float *, int64_t);
    static const float x[4] = {1, 2, 3, 0};

    *(void **)&isamax = function;
    return bits_of((int32_t)isamax((int64_t)0xffffffff00000003, x, 1), 2);
}

static unsigned
probe(const struct fy_shim_services *services, void *original)
{
    static const char *const fortran[] = {"isamax_", "isamax", "isamax_64_"};
    void *function;

    if (!services->sibling) {
        return 0;
    }
    for (unsigned i = 0; i < sizeof(fortran) / sizeof(fortran[0]); i++) {
        function = services->sibling(original, fortran[i]);
        if (function) {
            return probe_fortran(function);
        }
    }
    function = services->sibling(original, "cblas_isamax");
    return function ? probe_c(function) : 0;
}

/* False: not remembered; *out_entry, if any, is where it may be. */
static bool
look_up(struct fy_providers *known, uint64_t key, unsigned *out_bits,
        uint64_t **out_entry)
{
    *out_entry = NULL;
    for (unsigned i = 0; i < FY_PROVIDERS; i++) {
        unsigned at = (unsigned)((key >> 6) + i) % FY_PROVIDERS;
        uint64_t word = __atomic_load_n(&known->words[at], __ATOMIC_RELAXED);
        if (!word) {
            *out_entry = &known->words[at];
            return false;
        }
        if (word >> 2 == key >> 2) {
            *out_bits = widths[(word & 3) - 1];
            return true;
        }
    }
    return false;
}

bool
fy_provider_is_known(struct fy_providers *known, void *original,
                     unsigned *out_bits)
{
    uint64_t *entry;

    return look_up(known, (uint64_t)(uintptr_t)original << 2, out_bits, &entry);
}

unsigned
fy_provider_integer_bits(struct fy_providers *known,
                         const struct fy_shim_services *services,
                         void *original)
{
    uint64_t key = (uint64_t)(uintptr_t)original << 2, free_word = 0;
    uint64_t *entry;
    unsigned bits;

    if (look_up(known, key, &bits, &entry)) {
        return bits;
    }
    bits = probe(services, original);
    if (entry) {
        /* Where another thread was faster, this one is not remembered. */
        (void)__atomic_compare_exchange_n(entry, &free_word,
                                          key | (1 + bits / 32), false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    return bits;
}

void
fy_provider_forget(struct fy_providers *known)
{
    for (unsigned i = 0; i < FY_PROVIDERS; i++) {
        __atomic_store_n(&known->words[i], 0, __ATOMIC_RELAXED);
    }
}
