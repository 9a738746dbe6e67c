/* SPDX-License-Identifier: Apache-2.0 */
/* See cuda_rig.h. */
#include "config.h"

#include "tests/unit/cuda_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
cuda_rig_start(char **argv)
{
    const char *build = getenv("FERRY_BUILDDIR"), *before;
    char path[4096];
    if (getenv("FERRY_CUDA") != NULL) {
        return; /* whatever the loader finds: a card */
    }
    (void)snprintf(path, sizeof path, "%s/tests/fakecuda/.libs",
                   build == NULL ? "." : build);
    before = getenv("LD_LIBRARY_PATH");
    if (before != NULL && strncmp(before, path, strlen(path)) == 0) {
        return;
    }
    if (before != NULL && before[0] != '\0') {
        size_t used = strlen(path);
        (void)snprintf(path + used, sizeof path - used, ":%s", before);
    }
    /* Hundreds of children would each wait a second at their end. */
    char tsan[1024];
    const char *options = getenv("TSAN_OPTIONS");
    (void)snprintf(tsan, sizeof tsan, "atexit_sleep_ms=0:%s",
                   options == NULL ? "" : options);
    if (setenv("LD_LIBRARY_PATH", path, 1) != 0 ||
        setenv("TSAN_OPTIONS", tsan, 1) != 0 ||
        execv("/proc/self/exe", argv) != 0) {
        perror("cuda_rig_start");
        exit(EXIT_FAILURE);
    }
}
