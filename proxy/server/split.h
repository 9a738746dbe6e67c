/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one stage as several copies of its command, over newline-aligned ranges
 * of one large file, put together as its annotation says. Runs in the stage's
 * own process, in place of exec: to the server, to signals and to linked
 * stages the copies are the stage.
 *
 * Anything that the annotation does not expect of a copy (anything on stderr,
 * a signal, an exit status beyond 1, a complaint about its input) makes the
 * command run whole; bytes that were already delivered are skipped then, after
 * their hash was compared. So a wrong guess costs time and never a byte.
 */
#ifndef FERRY_PROXY_SERVER_SPLIT_H
#define FERRY_PROXY_SERVER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/commands/command.h"
#include "common/status.h"

/* The exit status of a stage that could neither be split nor run whole: not the
 * command's, which may have been promised as started. */
#define FY_SPLIT_LOST 126

struct fy_split_job {
    const char *program; /* to exec */
    char *const *argv;   /* NULL-terminated; likewise env */
    char *const *env;
    const struct fy_invocation *invocation;
    int started;             /* closed once the command is split; 0: none */
    bool status_found;       /* 0 if any copy ended with 0, else 1 (grep) */
    unsigned copies;         /* at the same time; at least 2 */
    uint64_t part_bytes_min; /* 0: 8 MiB */
};

/*
 * Returns true if this stage may be split at all, by its annotation and
 * arguments: one file operand, or none and stdin. *out_arg is the operand's
 * place in argv, 0 for stdin. Touches no file.
 */
bool fy_split_possible(const struct fy_invocation *invocation,
                       uint32_t *out_arg);

/*
 * In the stage's process (one thread), its fds 0-2 and folder in place. Splits
 * and ends the process with the stage's status; returns only when it should be
 * exec'd as it is (input too small, no regular file), with nothing changed.
 */
void fy_split_run(const struct fy_split_job *job);

#endif
