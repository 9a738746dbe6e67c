/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the text of fault.h says: from fault_text.c, for the relay of fault.c.
 */
#ifndef FERRY_TESTS_FAULT_PLAN_H
#define FERRY_TESTS_FAULT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

enum {
    FY_FAULT_MAX = 16
};
#define FY_FAULT_NEVER UINT64_MAX

enum fy_fault_kind {
    FY_FAULT_CUT,
    FY_FAULT_STALL,
    FY_FAULT_CORRUPT,
};

struct fy_fault {
    enum fy_fault_kind kind;
    uint64_t at;     /* offset */
    uint64_t for_ns; /* of a stall */
    bool done;
};

/* What one direction suffers. */
struct fy_fault_plan {
    struct fy_fault faults[FY_FAULT_MAX];
    unsigned n;
    uint64_t rate_bytes; /* a second; 0: as fast as it goes */
    uint64_t delay_ns;
    size_t chunk_bytes; /* 0: any */
};

/* plans: all zero before; [0] what the proxy sends, [1] what is sent to it. */
int fy_fault_parse(const char *text, struct fy_fault_plan plans[2],
                   struct fy_buffer *why) FY_MUST_CHECK;

#endif
