/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts its descriptors after a call: ferry keeps none. Closes all but 0 to 2, as
 * daemons do, and opens a file of its own under the lowest number: nothing of ferry's
 * may land there.
 */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <unistd.h>

static int
count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 4096; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

int
main(int argc, char **argv)
{
    long wrong = product_errors(50, 1);
    int count = count_descriptors();
    closefrom(3);
    int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
    for (int n = 60; n < 300; n *= 2) {
        wrong += product_errors(n, 1);
    }
    printf("%ld wrong, %d open, descriptor %d, %ld bytes\n", wrong, count, file,
           (long)lseek(file, 0, SEEK_END));
    return 0;
}
