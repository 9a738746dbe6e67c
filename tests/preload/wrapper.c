/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another preloaded tool: wraps work() and puts() and finds the real ones with
 * dlsym(RTLD_NEXT), as such tools do; and dlopen, to be seen behind ours.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int work(int n);

int
work(int n)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "work");
    return real ? real(n) + 100000 : -1;
}

int
puts(const char *text)
{
    int (*volatile real)(const char *) =
        (int (*)(const char *))dlsym(RTLD_NEXT, "puts");
    printf("(wrapped) ");
    return real(text);
}
