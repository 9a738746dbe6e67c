/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line on the terminal while `ferry run' copies files of a ferry mount for long. It shows
 * bytes that the mounts have sent and received, and goes when the copy ends or rests.
 */
#ifndef FERRY_TOOLS_MOUNT_STATUS_H
#define FERRY_TOOLS_MOUNT_STATUS_H

#include <stdbool.h>

#include "tools/pipeline.h"

struct fy_status_line {
    const struct fy_pipeline *pipeline; /* of the mounts; borrowed */
    const char *command;                /* name; borrowed */
    unsigned ticks;                     /* seconds since the start */
    unsigned long long first,
        last; /* bytes moved: by the first tick, the last */
    bool shown;
};

/* Returns true if such a line does not disturb the command, which copies, prints nothing
 * itself and is in the terminal's foreground. */
bool fy_status_start(struct fy_status_line *line,
                     const struct fy_pipeline *pipeline, char *const *command);
/* Call it each second; `line' is a struct fy_status_line. Waits 0.2 s for a mount at most. */
void fy_status_tick(void *line);
void fy_status_end(struct fy_status_line *line);

#endif
