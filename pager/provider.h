/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How wide a library's Fortran INTEGER is, where its names do not say: Debian's
 * LP64 and ILP64 BLAS export the same ones.
 */
#ifndef FERRY_PAGER_PROVIDER_H
#define FERRY_PAGER_PROVIDER_H

#include "pager/engine.h"

/*
 * 32 or 64 for the library that `original' belongs to; 0 when it cannot be
 * told. Asks a function whose answer differs, once per original, and remembers.
 * Any thread; takes a lock, also while it calls the probed function.
 */
unsigned fy_provider_integer_bits(const struct fy_shim_services *services,
                                  void *original);

/* After libraries were unloaded: an address may mean another one now. */
void fy_provider_forget(void);

/* pthread_atfork(): the table is consistent in the child. */
void fy_provider_before_fork(void);
void fy_provider_after_fork(void);

#endif
