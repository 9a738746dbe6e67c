/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes all descriptors but 0 to 2 after a call, as daemons do, and opens a file
 * of its own under the lowest number: nothing of ferry's may land there.
 */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
    long wrong = product_errors(50, 1);
    closefrom(3);
    int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    for (int n = 60; n < 300; n *= 2) {
        wrong += product_errors(n, 1);
    }
    printf("%ld wrong, descriptor %d, %ld bytes\n", wrong, file,
           (long)lseek(file, 0, SEEK_END));
    return 0;
}
