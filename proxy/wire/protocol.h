/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the wire: paths, heads, trailers, limits. PROTOCOL.md explains
 * them and lists exactly these (tests/unit/test_protocol.c); both ends use the
 * constants.
 */
#ifndef FERRY_PROXY_WIRE_PROTOCOL_H
#define FERRY_PROXY_WIRE_PROTOCOL_H

#include <stdint.h>

/* id, method, path; N: the number of a stage, in decimal. */
#define FY_PATHS(X)                                      \
    X(HELLO, "POST", "/hello")                           \
    X(PROBE, "POST", "/probe")                           \
    X(STAGE, "POST", "/stage")                           \
    X(FILES, "POST", "/files")                           \
    X(CARRY, "POST", "/carry")                           \
    X(STORE, "POST", "/store")                           \
    X(STORE_ZSTD, "POST", "/store/zstd")                 \
    X(STDERR, "GET", "/stage/N/stderr")                  \
    X(SIGNAL, "GET", "/stage/N/signal?S")                \
    X(WINDOW, "GET", "/stage/N/window?rows=R&columns=C") \
    X(UNREAD, "GET", "/stage/N/unread?F")                \
    X(TOUCHED, "GET", "/stage/N/touched")

/* id, name, where it stands. */
#define FY_FIELDS(X)                                   \
    X(ENCODING, "ferry-encoding", "head")              \
    X(REASON, "ferry-reason", "head, trailer")         \
    X(WHY, "ferry-why", "head")                        \
    X(EXIT, "ferry-exit", "trailer")                   \
    X(DEATH, "ferry-signal", "trailer")                \
    X(STDIN_OFFSET, "ferry-stdin-offset", "trailer")   \
    X(STDOUT_OFFSET, "ferry-stdout-offset", "trailer") \
    X(STDERR_OFFSET, "ferry-stderr-offset", "trailer") \
    X(IN_BYTES, "ferry-in-bytes", "trailer")           \
    X(OUT_BYTES, "ferry-out-bytes", "trailer")         \
    X(FEEDER, "ferry-feeder-ended", "trailer")         \
    X(RATE, "ferry-link-rate", "trailer")

#define FY_PATH_HELLO      "/hello"
#define FY_PATH_PROBE      "/probe"
#define FY_PATH_STAGE      "/stage"
#define FY_PATH_FILES      "/files"
#define FY_PATH_CARRY      "/carry"
#define FY_PATH_STORE      "/store"
#define FY_PATH_STORE_ZSTD "/store/zstd"

#define FY_FIELD_ENCODING      "ferry-encoding"
#define FY_FIELD_REASON        "ferry-reason"
#define FY_FIELD_WHY           "ferry-why"
#define FY_FIELD_EXIT          "ferry-exit"
#define FY_FIELD_DEATH         "ferry-signal"
#define FY_FIELD_STDIN_OFFSET  "ferry-stdin-offset"
#define FY_FIELD_STDOUT_OFFSET "ferry-stdout-offset"
#define FY_FIELD_STDERR_OFFSET "ferry-stderr-offset"
#define FY_FIELD_IN_BYTES      "ferry-in-bytes"
#define FY_FIELD_OUT_BYTES     "ferry-out-bytes"
#define FY_FIELD_FEEDER        "ferry-feeder-ended"
#define FY_FIELD_RATE          "ferry-link-rate"

#define FY_ENCODING_ZSTD "zstd"

/* The length of the spec that a stage's body begins with: u32, big-endian. */
enum {
    FY_SPEC_LENGTH_BYTES = 4
};

/* The head of each record of stderr: its place in stdout, u64, and its length,
 * u32, both big-endian. */
enum {
    FY_PLACE_BYTES = 12
};
/* The place of output that does not wait for stdout. */
#define FY_PLACE_ANY UINT64_MAX

#endif
