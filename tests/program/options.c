/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has options for its address sanitizer, which shim/start/asan.c must not hide: memory
 * that was freed is read, and the status of that report is the program's own, 7.
 */
#include <stdlib.h>

const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
    return "exitcode=7:detect_leaks=0";
}

int
main(int argc, char **argv)
{
    (void)argv;
    volatile char *freed = malloc(16);
    free((void *)(freed + 0 * argc));
    return freed[0] & 0;
}
