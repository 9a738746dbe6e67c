/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library whose constructor calls back into the test that loads it, with the
 * loader locked.
 */
#include "config.h"

#include <dlfcn.h>
#include <stddef.h>

__attribute__((constructor)) static void
call_back(void)
{
    void (*hook)(void);
    *(void **)&hook = dlsym(RTLD_DEFAULT, "fy_constructor_hook");
    if (hook != NULL) {
        hook();
    }
}
