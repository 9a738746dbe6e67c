/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a sealed connection: what the wire sends goes in pieces, each
 * with its length, a checksum, and (in the checksum) its number and direction.
 * A byte that changed, a record that is missing, comes twice, in another order
 * or back to its sender is found before anything of it is looked at. It is no
 * defence against people, who can compute it as well. One thread each.
 */
#ifndef FERRY_PROXY_WIRE_SEAL_H
#define FERRY_PROXY_WIRE_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/status.h"

enum {
    FY_SEAL_HEAD_BYTES = 12,   /* before the bytes of a record */
    FY_SEAL_MAX_BYTES = 16384, /* of a record, without its head */
    FY_SEAL_FIRST_BYTE = 0xf5, /* of a head; no HTTP/2 begins so */
};

struct fy_seal;

/* FY_ERR_NOMEM. */
int fy_seal_new(bool is_client, struct fy_seal **out) FY_MUST_CHECK;
void fy_seal_free(struct fy_seal *seal);

/* The head of the next record to be sent: the first n bytes of the parts, n in
 * 1 .. FY_SEAL_MAX_BYTES. FY_ERR_INVALID: it is not. */
int fy_seal_close(struct fy_seal *seal, const struct iovec *parts, size_t n,
                  unsigned char head[FY_SEAL_HEAD_BYTES]) FY_MUST_CHECK;

/* The record at `bytes', of which n have come. *out_n: how many bytes it holds,
 * behind its head, once all have come and are as they were sent. FY_ERR_BUSY:
 * more must come first; FY_ERR_INVALID: it is not what was sent. */
int fy_seal_open(struct fy_seal *seal, const unsigned char *bytes, size_t n,
                 size_t *out_n) FY_MUST_CHECK;

#endif
