/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the program uses CUDA itself. Then ferry keeps little of the card's memory
 * between calls. Any thread.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_USERS_H
#define FERRY_PAGER_DEVICE_CUDA_USERS_H

#include <stdbool.h>

/* The calling thread is ours: what it loads, it loads for us. */
void cuda_users_not_me(void);
/* First in each thread of the CUDA device: that, and fy_own_thread_begins(). */
void cuda_thread_begins(void);
bool cuda_users_is_me(void);

/* Before ferry has loaded the driver: whether the program has already. */
void cuda_users_look(void);

/* The calling thread is about to dlopen() that. */
void cuda_users_loading(const char *file);

/* From the first time it is true, for ever. Looks at what has been loaded. */
bool cuda_users_any(void);

#endif
