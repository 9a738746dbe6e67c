/* SPDX-License-Identifier: Apache-2.0
 * How long a C test waits for an event before it gives up: FERRY_PATIENCE, which
 * ./check sets, says how many times slower than a quiet machine this one is.
 * tests/patience.py is the same for Python. Header only; not async-signal-safe
 * (getenv), safe in threads that do not change the environment.
 */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <stdlib.h>

/* Returns `amount`, in any unit of time, multiplied by FERRY_PATIENCE (1 to 20). */
static inline long
patient(long amount)
{
    const char *text = getenv("FERRY_PATIENCE");
    double factor = text ? strtod(text, NULL) : 1;

    return (long)((double)amount * (factor >= 1 && factor <= 20 ? factor : 1));
}

#endif
