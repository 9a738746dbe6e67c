/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by transport*.c and place.c: the kinds of transport, one a row of the
 * table in transport.c.
 */
#ifndef FERRY_PROXY_WIRE_TRANSPORTS_H
#define FERRY_PROXY_WIRE_TRANSPORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/wire/transport.h"

/* NULL: unknown. */
const struct fy_transport *fy_transport_find(const char *scheme, size_t bytes);

int fy_transport_ssh(const struct fy_place *place, const char *ferry_path,
                     struct fy_buffer *why, struct fy_link *out) FY_MUST_CHECK;

/*
 * Runs argv as a child in a session of its own, with one socket as stdin and
 * stdout, stderr into a file of memory, default signals, no other descriptor.
 */
int fy_transport_spawn(const char *const *argv, struct fy_buffer *why,
                       struct fy_link *out) FY_MUST_CHECK;

/* Letters, digits and those of `extra', not empty, no dash in front. */
bool fy_place_word(const char *text, const char *extra);

/* The words of ssh's command line; pointers into place and statics, `command'
 * (of place, or "ssh") cut in pieces. For tests. */
enum {
    FY_SSH_MAX_WORDS = 96
};
struct fy_ssh_words {
    const char *argv[FY_SSH_MAX_WORDS];
    unsigned argc;
    char command[256], script[2048];
};
/* `script': for the login shell there; NULL: it starts the proxy. */
int fy_ssh_words(const struct fy_place *place, const char *script,
                 struct fy_ssh_words *out, struct fy_buffer *why) FY_MUST_CHECK;

#endif
