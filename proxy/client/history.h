/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What earlier runs of a command taught: how much comes out for what goes in,
 * and seconds a byte. Keyed by fy_invocation.key (command and flags, without
 * operands). Kept in one SQLite file that may be deleted at any time; read
 * whole when the first of it is asked for or added, written in one transaction at
 * the end, so that no further stage waits for a disk. A file that cannot be used
 * is left alone: nothing is learned then, and only the caller is told.
 *
 * One thread a handle; any number of processes a file.
 */
#ifndef FERRY_PROXY_CLIENT_HISTORY_H
#define FERRY_PROXY_CLIENT_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"

struct fy_history;

struct fy_learned {
    double runs;      /* that count; old ones fade */
    double in_bytes;  /* of an average run: what it read, of files and pipes */
    double out_bytes; /* of an average run, to its output */
    double busy_seconds; /* of an average run: processor time where it ran */
};

/* `path' may be NULL: memory only. New in *out; FY_ERR_NOMEM. */
int fy_history_open(const char *path, struct fy_history **out) FY_MUST_CHECK;
/* False, and *out all zero, when the key was never seen. */
bool fy_history_find(struct fy_history *history, const char *key,
                     struct fy_learned *out);
/* One more run; without memory it is forgotten. */
void fy_history_add(struct fy_history *history, const char *key,
                    uint64_t in_bytes, uint64_t out_bytes, double busy_seconds);
/* Writes what was added. FY_ERR_IO: the file cannot be used. */
int fy_history_save(struct fy_history *history) FY_MUST_CHECK;
void fy_history_free(struct fy_history *history);

#endif
