/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that looks work() up itself, in the ways whose answer depends on
 * who asks: RTLD_NEXT, RTLD_DEFAULT, and a dlopen that only its own DT_RUNPATH
 * can satisfy (libhidden.so).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#include "provider.h"

int run(int n);

int
run(int n)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "work");
    int (*any)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "work");
    void *hidden = dlopen("libhidden.so", RTLD_NOW);
    printf("%d %d\n", next ? next(n) : -1, any ? any(n) : -1);
    printf("%d\n", dlsym(RTLD_NEXT, "work_absent") == NULL);
    printf("%d\n", dlsym(RTLD_NEXT, "run") == NULL);
    printf("%d\n", dlsym(RTLD_DEFAULT, "work_absent") == NULL);
    if (!hidden) {
        printf("%s\n", dlerror());
        return -1;
    }
    int (*function)(int) = (int (*)(int))dlsym(hidden, "hidden");
    int result = function(n);
    dlclose(hidden);
    return result + work(n);
}
