/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to the requests of the wire. An answer that cannot be sent resets its stream,
 * and `closed' follows.
 */
#include "config.h"

#include <ctype.h>

#include "proxy/server/server.h"
#include "proxy/wire/protocol.h"

void
fy_exchange_answer(struct fy_exchange *exchange, int status, const void *bytes,
                   size_t n)
{
    struct fy_wire *wire = exchange->server->wire;
    if (exchange->responded) {
        return;
    }
    exchange->responded = exchange->finished = true;
    if (fy_wire_respond(wire, exchange->stream, status, NULL, 0, n != 0) ||
        (n && (fy_wire_send(wire, exchange->stream, bytes, n) ||
               fy_wire_finish(wire, exchange->stream, NULL, 0)))) {
        fy_wire_cancel(wire, exchange->stream);
    }
}

void
fy_exchange_refuse(struct fy_exchange *exchange, int status, unsigned reason,
                   const char *why)
{
    char text[512];
    size_t n = 0;
    if (exchange->responded) {
        return;
    }
    /* The text may quote the client's words. */
    for (; why[n] && n < sizeof text - 1; n++) {
        text[n] = isprint((unsigned char)why[n]) ? why[n] : '?';
    }
    text[n] = '\0';
    const struct fy_wire_pair pairs[] = {
        {FY_FIELD_REASON, fy_stage_reason_word(reason)}, {FY_FIELD_WHY, text}};
    exchange->responded = exchange->finished = true;
    if (fy_wire_respond(exchange->server->wire, exchange->stream, status, pairs,
                        2, false)) {
        fy_wire_cancel(exchange->server->wire, exchange->stream);
    }
}

void
fy_exchange_grant(struct fy_exchange *exchange, size_t bytes)
{
    if (fy_wire_grant(exchange->server->wire, exchange->stream, bytes)) {
        fy_wire_cancel(exchange->server->wire, exchange->stream);
    }
}

void
fy_exchange_finish(struct fy_exchange *exchange,
                   const struct fy_wire_pair *trailers, size_t n)
{
    exchange->finished = true;
    if (fy_wire_finish(exchange->server->wire, exchange->stream, trailers, n)) {
        fy_wire_cancel(exchange->server->wire, exchange->stream);
    }
}

bool
fy_server_receiving(const struct fy_server *server)
{
    for (const struct fy_exchange *at = server->exchanges; at; at = at->next) {
        if (at->kind == FY_EXCHANGE_STAGE && !at->stage && !at->responded) {
            return true;
        }
    }
    return false;
}
