/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether the program uses CUDA itself. Then ferry keeps little of the
 * card's memory between calls. Any thread.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_USERS_H
#define FERRY_PAGER_DEVICE_CUDA_USERS_H

#include <stdbool.h>

/* Marks the calling thread as ferry's: libraries that it loads are not the
 * program's. */
void cuda_users_not_me(void);
/* First in each thread of the CUDA device: that, and fy_own_thread_begins(). */
void cuda_thread_begins(void);
bool cuda_users_is_me(void);

/* Before ferry has loaded the driver: whether the program has already. */
void cuda_users_look(void);

/* The calling thread is about to dlopen() that. */
void cuda_users_loading(const char *file);

/* Returns true if the program uses CUDA: from the first time, for ever.
 * Looks at the loaded libraries. */
bool cuda_users_any(void);

#endif
