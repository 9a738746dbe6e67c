/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status line of long copies; see the header.
 */
#include "config.h"

#include "tools/mount/status.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proxy/files/client/control.h"
#include "proxy/storage/control.h"

enum {
    QUIET_TICKS = 2,       /* seconds: shorter copies have no line */
    LEAST_BYTES = 1 << 20, /* a second; slower ones are no copies */
    PATIENCE_MS = 200,
    MIB = 1 << 20,
};

/* Bytes that the mounts have moved so far. */
static unsigned long long
moved(const struct fy_pipeline *pipeline)
{
    unsigned long long bytes = 0;
    for (unsigned i = 0; i < pipeline->nmounts; i++) {
        char text[4096];
        struct fy_buffer lines;
        const char *control = pipeline->mounts[i].control;
        fy_buffer_start(&lines, text, sizeof text);
        if (control[0] && fy_control_ask(control, FY_FILES_CONTROL_REPORT,
                                         PATIENCE_MS, &lines, NULL) == 0) {
            bytes += fy_control_number(text, "sent_bytes") +
                     fy_control_number(text, "received_bytes");
        }
    }
    return bytes;
}

/* Returns true if an option may make the command ask or print. */
static bool
speaks(char *const *command)
{
    for (unsigned i = 1; command[i] && strcmp(command[i], "--") != 0; i++) {
        const char *word = command[i];
        if (strncmp(word, "--v", 3) == 0 || strncmp(word, "--i", 3) == 0 ||
            strncmp(word, "--d", 3) == 0 ||
            (word[0] == '-' && word[1] != '-' && strpbrk(word, "vi"))) {
            return true;
        }
    }
    return false;
}

bool
fy_status_start(struct fy_status_line *line, const struct fy_pipeline *pipeline,
                char *const *command)
{
    static const char *const copies[] = {"cp", "mv", "install"};
    const char *slash = strrchr(command[0], '/');
    bool wanted = false;
    *line = (struct fy_status_line){.pipeline = pipeline,
                                    .command = slash ? slash + 1 : command[0]};
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        wanted |= strcmp(line->command, copies[i]) == 0;
    }
    bool mounted = false;
    for (unsigned i = 0; i < pipeline->nmounts; i++) {
        mounted |= pipeline->mounts[i].control[0] != '\0';
    }
    if (!wanted || !mounted || speaks(command) ||
        tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        return false;
    }
    return true;
}

static void
clear(struct fy_status_line *line)
{
    if (line->shown) {
        (void)fprintf(stderr, "\r\033[K");
        line->shown = false;
    }
}

void
fy_status_tick(void *owner)
{
    struct fy_status_line *line = owner;
    unsigned long long now = moved(line->pipeline);
    unsigned long long step = now > line->last ? now - line->last : 0;
    line->last = now;
    line->first = line->ticks == 0 ? now : line->first;
    if (++line->ticks <= QUIET_TICKS) {
        return;
    }
    if (step < LEAST_BYTES || tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        clear(line);
        return;
    }
    (void)fprintf(stderr, "\r%s: %llu MiB, %llu MiB/s, %u s\033[K",
                  line->command, (now - line->first) / MIB, step / MIB,
                  line->ticks);
    line->shown = true;
}

void
fy_status_end(struct fy_status_line *line)
{
    clear(line);
}
