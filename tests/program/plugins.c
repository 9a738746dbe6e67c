/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the dynamic linker keeps for libraries that a program opens after calls.
 * Arguments: plugins with thread-local memory of the static kind; tells how many
 * can be opened.
 */
#include "common.h"

#include <dlfcn.h>

int
main(int argc, char **argv)
{
    int opened = 1;

    printf("before: %ld wrong\n", product_errors(160, 1));
    while (opened < argc && dlopen(argv[opened], RTLD_NOW)) {
        opened++;
    }
    printf("opened: %d of %d\n", opened - 1, argc - 1);
    printf("after: %ld wrong\n", product_errors(160, 2));
    return 0;
}
