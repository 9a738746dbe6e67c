/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See mapped.h. process_vm_readv() on ourselves; where a sandbox forbids it the
 * needed bytes are read directly, as the original would.
 */
#include "config.h"

#include "pager/device/mapped.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static ssize_t
kernel_read(const void *from, void *to, size_t bytes)
{
    struct iovec local = {to, bytes};
    struct iovec remote = {(void *)(uintptr_t)from, bytes};
    return process_vm_readv(gettid(), &local, 1, &remote, 1, 0);
}

int
fy_read_mapped(const void *from, void *to, size_t least, size_t most)
{
    int saved = errno;
    size_t page = 4096, got = 0;
    uintptr_t end = ((uintptr_t)from + least + page - 1) & ~(page - 1);
    size_t rest = end - (uintptr_t)from;

    memset(to, 0, most);
    if (rest > most) {
        rest = most;
    }
    ssize_t n = kernel_read(from, to, most);
    if (n < 0 && errno == EFAULT) {
        n = kernel_read(from, to, rest);
    }
    if (n < 0 && errno != EFAULT) {
        memcpy(to, from, least);
        n = (ssize_t)least;
    }
    if (n > 0) {
        got = (size_t)n;
    }
    errno = saved;
    return got >= least ? FY_OK : FY_ERR_INVALID;
}
