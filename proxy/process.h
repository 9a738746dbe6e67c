/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process as /proc/PID/stat tells it: who holds a pipe (holders.c), what
 * descends from a stage (run_end.c) and who sent a signal (tools/child.c) are
 * found out from these.
 */
#ifndef FERRY_PROXY_PROCESS_H
#define FERRY_PROXY_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fy_process {
    pid_t pid, parent, session;
    char state;     /* 'Z', 'X': it has ended */
    bool exiting;   /* it closes what it has, or has closed it */
    uint64_t start; /* clock ticks since the machine started */
    uint64_t resident_pages;
};

/* `name' is its number, in the open folder /proc. False: it is gone. */
bool fy_process_read(int proc, const char *name, struct fy_process *out);

#endif
