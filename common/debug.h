/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debug log: what each room of ferry does, for those who maintain it. One line for
 * each event, in a file that all processes of a run append to:
 *
 *     16:20:31.123456 4711 4712 client: stage 3 grep: asked -> running
 *
 * that is the time (UTC), process, thread, room and message. A room that is off costs one
 * load and one branch. Messages name no values of the environment and no contents of
 * files. Each object that a process loads (the preloaded one, the engine) has a log
 * like the command ferry, and starts it from its settings.
 */
#ifndef FERRY_COMMON_DEBUG_H
#define FERRY_COMMON_DEBUG_H

#include <stdint.h>
#include <stdlib.h>

#include "common/buffer.h"
#include "common/status.h"

/* In the order of the table in debug.c. */
enum fy_room {
    FY_ROOM_CALLS,    /* the preloaded object: names bound, the engine loaded */
    FY_ROOM_PROGRAMS, /* exec, spawn, popen, system */
    FY_ROOM_ENGINE,   /* the engine's start, forks, errors of the device */
    FY_ROOM_DECIDE,   /* each call: where it runs, and why */
    FY_ROOM_PLAN,     /* plans of offloaded calls */
    FY_ROOM_EXECUTE,  /* steps of plans, undo */
    FY_ROOM_MEMORY,   /* device memory that calls get */
    FY_ROOM_DEVICE,   /* devices opened and closed, copies */
    FY_ROOM_CLIENT,   /* the session: connections, stages */
    FY_ROOM_WIRE,     /* requests, answers, bytes */
    FY_ROOM_STORAGE,  /* mounts and their caches */
    FY_ROOM_SANDBOX,  /* confinement of commands at a proxy */
    FY_ROOM_SERVER,   /* the proxy: stages */
    FY_ROOM_COMMAND,  /* the command ferry */
    FY_ROOM_COUNT,
};

/* Bit 1 << room for each room that is on. */
extern uint32_t fy_debug_mask __attribute__((visibility("hidden")));

/*
 * Turns the rooms of `mask' on; lines go to the file `path' (borrowed for ever). Before
 * other threads run.
 */
void fy_debug_start(uint32_t mask, const char *path);

/* Writes a line; for fy_debug() alone. Keeps errno. Threads and signals: as
 * fy_lines_append(). */
void fy_debug_line(enum fy_room room, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Returns true if a room is on: for messages that are costly to make. */
#define fy_debugs(room)                                                   \
    __builtin_expect((__atomic_load_n(&fy_debug_mask, __ATOMIC_RELAXED) & \
                      UINT32_C(1) << FY_ROOM_##room) != 0,                \
                     0)

/* fy_debug(CLIENT, "format", ...): the message without newline; control characters in
 * it become '?'. Arguments are evaluated only where the room is on. */
#define fy_debug(room, ...)                             \
    do {                                                \
        if (fy_debugs(room)) {                          \
            fy_debug_line(FY_ROOM_##room, __VA_ARGS__); \
        }                                               \
    } while (0)

/* Aborts if the condition is false, in builds with sanitizers (which tests
 * run); does nothing in others. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define fy_debug_expect(condition) ((condition) ? (void)0 : abort())
#else
#define fy_debug_expect(condition) ((void)(condition))
#endif

/* Returns the path of the log, NULL if there is none. Borrowed. */
const char *fy_debug_file(void);

/* The word of a room. Static storage. */
const char *fy_debug_word(enum fy_room room);

/*
 * "client,pager": rooms and groups of rooms (shim, pager, proxy, tools, all) as a mask.
 * FY_ERR_INVALID: a word is unknown; `why' (may be NULL) then names it and lists the
 * words. Defined in debug_words.c.
 */
int fy_debug_parse(const char *text, uint32_t *out_mask,
                   struct fy_buffer *why) FY_MUST_CHECK;
/* The option that turns the rooms of this log on: "--debug=client,wire"; false: none
 * is on, and nothing is appended. */
bool fy_debug_format(struct fy_buffer *to);

#endif
