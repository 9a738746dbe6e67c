/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of a test: the same ones in each run, from a state that a test may set. */
#ifndef FERRY_TESTS_UNIT_RANDOM_H
#define FERRY_TESTS_UNIT_RANDOM_H

#include <stdint.h>

static uint64_t random_state = 88172645463325252u; /* never 0 */

static inline uint64_t
random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* In [0, n). */
static inline int64_t
random_below(int64_t n)
{
    return (int64_t)((random_bits() >> 11) % (uint64_t)n);
}

#endif
