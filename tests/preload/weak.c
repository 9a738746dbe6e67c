/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weak references: to a name that is annotated but that nothing defines, and
 * to one that the provider defines. Built as programs and as a plugin.
 */
#include <stdio.h>

int work(int n) __attribute__((weak));
int work_absent(int n) __attribute__((weak));
int run(int n);

static int (*volatile absent)(int) = work_absent;

int
run(int n)
{
    printf("absent: %s %s\n", work_absent ? "there" : "null",
           absent ? "there" : "null");
    printf("work: %d\n", work ? work(n) : -1);
    return work_absent ? work_absent(n) : 1;
}

#ifdef MAIN
int
main(void)
{
    return run(5) != 1;
}
#endif
