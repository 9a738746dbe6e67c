/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reasons for not placing a stage on a proxy. The words are part of the
 * command line's contract (--explain, the JSON report, the wire): add at the
 * end, never rename. tools/explain.c and ferry-explain(1) explain each.
 */
#ifndef FERRY_PROXY_WIRE_REASON_H
#define FERRY_PROXY_WIRE_REASON_H

#define FY_STAGE_REASONS(X)                                                    \
    X(NONE, "none")                     /* it ran on a proxy */                \
    X(NOT_ANNOTATED, "not-annotated")   /* no command block of that name */    \
    X(NOT_PARSED, "not-parsed")         /* a flag or operand no block knows */ \
    X(FORBIDDEN, "forbidden")           /* the annotation says never */        \
    X(LOCAL_FILES, "local-files")       /* nothing it reads is on a mount */   \
    X(MIXED_PLACES, "mixed-places")     /* operands here and there */          \
    X(LOCAL_INPUT, "local-input")       /* stdin comes from this machine */    \
    X(TERMINAL_INPUT, "terminal-input") /* it reads the terminal */            \
    X(OPEN_FILES, "open-files")         /* inherited fds it may use */         \
    X(ODD_STREAM, "odd-stream")         /* fds 0-2: closed, a socket, ... */   \
    X(UNCLEAR_PATH, "unclear-path")     /* through a link, leaves the mount */ \
    X(NESTED_MOUNT, "nested-mount")     /* another mount lies below */         \
    X(NO_PROXY, "no-proxy")             /* its host has no working ferry */    \
    X(BUSY, "busy")                     /* the proxy's limits */               \
    X(REFUSED, "refused")               /* the proxy's own annotations */      \
    X(OUTSIDE, "outside")               /* not beneath an exported root */     \
    X(OTHER_TOOL, "other-tool")         /* not the same program there */       \
    X(OTHER_CONFIG, "other-config")     /* an implicit input differs there */  \
    X(OTHER_NAMES, "other-names")   /* users or paths are named otherwise */   \
    X(TOO_SMALL, "too-small")       /* no gain expected */                     \
    X(UNPROFITABLE, "unprofitable") /* the cost model says no */               \
    X(LOST_LINK, "lost-link")       /* the connection broke; ran here */       \
    X(LIMITS, "limits")     /* resource limits; input that cannot be kept */   \
    X(DISABLED, "disabled") /* switched off, or session ending */              \
    X(OTHER_VIEW, "other-view") /* it sees or may other things than ferry */   \
    X(OTHER_LOCALE, "other-locale")   /* not there, and cannot be sent */      \
    X(OTHER_MACHINE, "other-machine") /* processor or kernel */

enum fy_stage_reason {
#define FY_STAGE_REASON_ENUM(id, word) FY_STAGE_##id,
    FY_STAGE_REASONS(FY_STAGE_REASON_ENUM)
#undef FY_STAGE_REASON_ENUM
    FY_STAGE_REASON_COUNT
};

/* The fixed word of a reason; "unknown": out of range. Static storage. */
const char *fy_stage_reason_word(unsigned reason);
/* The reason with that word; FY_STAGE_REASON_COUNT: none. */
unsigned fy_stage_reason_find(const char *word);

#endif
