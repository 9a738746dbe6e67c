/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls work() in every way a linked object can. Built as programs with
 * different linker options, and as plugins (then without main).
 */
#include <stdio.h>

#include "provider.h"

static int (*volatile pointer)(int) = work;            /* in data */
static int (*const table[])(int) = {work, work_ifunc}; /* read-only data */
static int early;

int run(int n);

#ifdef EARLY
__attribute__((constructor)) static void
constructor(void)
{
    early = work(7);
}
#endif

int
run(int n)
{
    int (*local)(int) = work;
    printf("%d %d %d %d %d %d %d\n", work(n), work_ifunc(n), pointer(n),
           table[0](n), table[1](n), local == pointer, early);
    return work_seven(1, 2, 3, 4, 5, n);
}

#ifdef MAIN
int
main(void)
{
    printf("%d\n", run(5));
    return 0;
}
#endif
