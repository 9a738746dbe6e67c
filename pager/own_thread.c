/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes on to the shim which threads are ferry's. Unit tests and tools have no
 * shim; their threads are nobody's concern.
 */
#include "config.h"

#include "pager/own_thread.h"

#include <stddef.h>

static const struct fy_shim_services *services;

void
fy_own_threads_tell(const struct fy_shim_services *given)
{
    services = given;
}

void
fy_own_thread_begins(bool shares)
{
    if (services != NULL && services->thread_begins != NULL) {
        services->thread_begins(shares);
    }
}

void
fy_own_threads_child(void)
{
    if (services != NULL && services->main_thread != NULL) {
        services->main_thread();
    }
}
