/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 by the SHA extensions of x86-64 (Intel SDM, volume 1, 5.15 "SHA
 * extensions"). Callers ask the processor first: fy_sha256_is_fast().
 */
#include "config.h"

#include "common/sha256.h"

#include <cpuid.h>
#include <immintrin.h>

enum {
    LEAF_FEATURES = 1,
    LEAF_EXTENDED = 7,
};

bool
fy_sha256_is_fast(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(LEAF_FEATURES, &a, &b, &c, &d) && (c & bit_SSSE3) &&
           (c & bit_SSE4_1) &&
           __get_cpuid_count(LEAF_EXTENDED, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* The instructions want the state as ABEF and CDGH, the first word on top. */
__attribute__((target("sha,sse4.1"))) void
fy_sha256_fast(uint32_t state[8], const unsigned char *blocks, size_t n)
{
    const __m128i big_endian =
        _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i *constants = (const void *)fy_sha256_constants;
    __m128i *words = (void *)state;
    __m128i dcba = _mm_loadu_si128(words), hgfe = _mm_loadu_si128(words + 1);
    __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
    __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
    __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (; n > 0; n--, blocks += 64) {
        const __m128i *from = (const void *)blocks;
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
#pragma GCC unroll 16
        for (int t = 0; t < 16; t++) { /* four rounds each */
            if (t < 4) {
                w[t] = _mm_shuffle_epi8(_mm_loadu_si128(from + t), big_endian);
            } else {
                __m128i last = w[(t + 3) % 4];
                __m128i sum = _mm_add_epi32(
                    _mm_sha256msg1_epu32(w[t % 4], w[(t + 1) % 4]),
                    _mm_alignr_epi8(last, w[(t + 2) % 4], 4));
                w[t % 4] = _mm_sha256msg2_epu32(sum, last);
            }
            __m128i k = _mm_add_epi32(w[t % 4], _mm_loadu_si128(constants + t));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_srli_si128(k, 8));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}
