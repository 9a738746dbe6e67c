/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the host's reference BLAS and LAPACK for the fake libraries. They are
 * loaded by dlmopen(3) into a namespace without preloaded objects: ferry
 * cannot come between, not even where LAPACK calls BLAS. Where that fails
 * (sanitizers) dlopen(3) does.
 */
#include "config.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/fakecuda/core.h"
#include "tests/fakecuda/netlib.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *library[2];

static void
open_libraries(void)
{
    static const char *const names[2][4] = {
        {"/usr/lib/x86_64-linux-gnu/blas64/libblas64.so.3", "libblas64.so.3",
         NULL, NULL},
        {"/usr/lib/x86_64-linux-gnu/lapack64/liblapack64.so.3",
         "liblapack64.so.3", NULL, NULL},
    };
    Lmid_t space = LM_ID_NEWLM;

    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; names[i][j] != NULL && library[i] == NULL; j++) {
            library[i] = dlmopen(space, names[i][j], RTLD_NOW | RTLD_LOCAL);
            if (library[i] == NULL) {
                library[i] = dlopen(names[i][j], RTLD_NOW | RTLD_LOCAL);
            } else if (space == LM_ID_NEWLM) {
                (void)dlinfo(library[i], RTLD_DI_LMID, &space);
            }
        }
        if (library[i] == NULL) {
            fakecuda_note("netlib", "%s", dlerror());
        }
    }
}

void *
netlib_routine(const char *pattern, char type)
{
    bool complex = type == 'C' || type == 'Z';
    char name[32];
    size_t n = 0;
    void *found = NULL;

    (void)pthread_once(&once, open_libraries);
    for (; *pattern != '\0' && n < sizeof(name) - 1; pattern++) {
        if (*pattern != '%') {
            name[n++] = *pattern == '?' ? (char)tolower(type) : *pattern;
        } else if (complex) {
            name[n++] = type == 'C' ? 's' : 'd';
        }
    }
    name[n] = '\0';
    for (size_t i = 0; i < 2 && found == NULL; i++) {
        found = library[i] == NULL ? NULL : dlsym(library[i], name);
    }
    if (found == NULL) {
        fakecuda_note("netlib", "no %s", name);
    }
    return found;
}
