/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the preload costs a program's start: microseconds from posix_spawn to
 * the end of wait for a short program, with and without LD_PRELOAD in turn,
 * as medians of batches. Arguments: PRELOAD SETTINGS [BATCHES [RUNS
 * [PROGRAM]]]; prints "without with difference ratio".
 */
#include "config.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum {
    MAX_BATCHES = 1001
};

static double
now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double
batch(const char *program, char **environment, long runs)
{
    char *arguments[] = {(char *)program, NULL};
    double start = now_us();
    for (long i = 0; i < runs; i++) {
        pid_t pid;
        int status;
        if (posix_spawn(&pid, program, NULL, NULL, arguments, environment) ||
            waitpid(pid, &status, 0) != pid || status != 0) {
            fprintf(stderr, "startup: %s does not run\n", program);
            exit(1);
        }
    }
    return (now_us() - start) / (double)runs;
}

static int
by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int
main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: startup PRELOAD SETTINGS [BATCHES [RUNS "
                        "[PROGRAM]]]\n");
        return 2;
    }
    long batches = argc > 3 ? atol(argv[3]) : 41;
    long runs = argc > 4 ? atol(argv[4]) : 50;
    const char *program = argc > 5 ? argv[5] : "/bin/true";
    static double plain[MAX_BATCHES], loaded[MAX_BATCHES];
    char preload[4200], settings[8300];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
    snprintf(settings, sizeof settings, "FERRY_SETTINGS=%s", argv[2]);
    char path[] = "PATH=/usr/bin:/bin";
    char *without[] = {path, NULL}, *with[] = {path, preload, settings, NULL};
    if (batches > MAX_BATCHES) {
        batches = MAX_BATCHES;
    }
    for (long i = 0; i < batches; i++) {
        plain[i] = batch(program, without, runs);
        loaded[i] = batch(program, with, runs);
    }
    qsort(plain, (size_t)batches, sizeof plain[0], by_size);
    qsort(loaded, (size_t)batches, sizeof loaded[0], by_size);
    double a = plain[batches / 2], b = loaded[batches / 2];
    printf("%.1f %.1f %.1f %.3f\n", a, b, b - a, b / a);
    return 0;
}
