/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hypot under the version that every glibc has. 2.35 gave it a new one, which
 * differs in errno only and would keep what is built there from running with 2.34,
 * the oldest glibc that is supported. Included by each file that calls it.
 */
#ifndef FERRY_PAGER_BASE_LIBM_H
#define FERRY_PAGER_BASE_LIBM_H

#include <math.h>

#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver hypot,hypot@GLIBC_2.2.5");
__asm__(".symver hypotf,hypotf@GLIBC_2.2.5");
#endif

#endif
