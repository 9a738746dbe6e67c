/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How wide a library's Fortran INTEGER is, where its names do not say: Debian's
 * LP64 and ILP64 BLAS export the same ones.
 */
#ifndef FERRY_PAGER_BIND_PROVIDER_H
#define FERRY_PAGER_BIND_PROVIDER_H

#include "pager/engine/engine.h"

enum {
    FY_PROVIDERS =
        512, /* originals that are remembered; others are asked again */
};

/*
 * Each word is an original's address and a code of its width, so that no lock is
 * needed, also where a handler of the program interrupts. 0: free.
 */
struct fy_providers {
    uint64_t words[FY_PROVIDERS];
};

/*
 * 32 or 64 for the library that `original' belongs to; 0 when it cannot be
 * told. Asks a function whose answer differs, once per original, and remembers.
 * Any thread, also where a handler of the program may interrupt it: no lock, no
 * memory is allocated; two threads may ask at the same time.
 */
unsigned fy_provider_integer_bits(struct fy_providers *known,
                                  const struct fy_shim_services *services,
                                  void *original);

/* The same, where it was asked before; false: functions of the library would be
 * made. No system call. */
bool fy_provider_is_known(struct fy_providers *known, void *original,
                          unsigned *out_bits);

/* After libraries were unloaded: an address may mean another one now. */
void fy_provider_forget(struct fy_providers *known);

#endif
