/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one process from /proc/PID/stat and io, for finding the holders of a
 * pipe (client/holders.c), the descendants of a stage (server/run_end.c) and
 * the sender of a signal (tools/child.c).
 */
#ifndef FERRY_PROXY_WIRE_PROCESS_H
#define FERRY_PROXY_WIRE_PROCESS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fy_process {
    pid_t pid, parent, session;
    char state;     /* 'Z', 'X': it has ended */
    bool exiting;   /* it closes its descriptors, or has closed them */
    bool forked;    /* it has not executed a program since its fork */
    uint64_t start; /* clock ticks since the machine started */
};

/* `name' is its number, in the open folder /proc. False: it is gone. */
bool fy_process_read(int proc, const char *name, struct fy_process *out);

/*
 * Opens the threads of a process but the first one; NULL: there are none. The
 * descriptors and mappings of the first thread are gone when it has ended
 * alone. `out' is as `name' of fy_process_read(), which has no threads itself.
 */
DIR *fy_threads_open(int proc, const char *name);
/* The next thread, as "PID/task/TID"; `name' as in fy_threads_open(). False: no more,
 * or `threads' is NULL. */
bool fy_threads_next(DIR *threads, const char *name, char out[64]);
/* Closes the folder. NULL: fine. */
void fy_threads_close(DIR *threads);

/* Bytes that a process and its reaped children have read and written so far. */
struct fy_process_io {
    uint64_t written_bytes; /* to files, pipes and all else */
    uint64_t writes;        /* write(2) and its like */
};

/* `io' is its open /proc/PID/io. Until it is reaped; false: it is gone, or may
 * not be looked at. Any thread. */
bool fy_process_io(int io, struct fy_process_io *out);

#endif
