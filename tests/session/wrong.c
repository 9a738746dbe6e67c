/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to be preloaded into ferry on a storage host: WRONG=quota, nothing is written to a
 * disk (EDQUOT); WRONG=MACHINE,RELEASE is what uname(2) says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int
fdatasync(int fd)
{
    const char *wrong = getenv("WRONG");
    if (wrong && strcmp(wrong, "quota") == 0) {
        errno = EDQUOT;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

int
uname(struct utsname *out)
{
    const char *wrong = getenv("WRONG"),
               *release = wrong ? strchr(wrong, ',') : NULL;
    int status = (int)syscall(SYS_uname, out);
    if (release && (size_t)(release - wrong) < sizeof out->machine) {
        memset(out->machine, 0, sizeof out->machine);
        memcpy(out->machine, wrong, (size_t)(release - wrong));
        strncpy(out->release, release + 1, sizeof out->release - 1);
    }
    return status;
}
