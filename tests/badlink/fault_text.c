/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of a fault, see fault.h. It comes from a command line, so all
 * that is wrong with it is said with its place.
 */
#include "config.h"

#include "tests/badlink/fault_plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/badlink/fault.h"

struct parser {
    const char *at;
    struct fy_buffer *why;
    uint64_t seed;
    bool down, up;
    struct fy_fault *stalls[2]; /* the last, for for= */
};

static int
complain(struct parser *p, const char *what)
{
    fy_buffer_add(p->why, "fault: ");
    fy_buffer_add(p->why, what);
    fy_buffer_add(p->why, " at \"");
    fy_buffer_add(p->why, p->at);
    fy_buffer_add(p->why, "\"");
    return FY_ERR_INVALID;
}

static bool
word(struct parser *p, const char *text)
{
    size_t n = strlen(text);
    if (strncmp(p->at, text, n) != 0) {
        return false;
    }
    p->at += n;
    return true;
}

/* A number and its unit, by a table of {unit, factor}. */
struct unit {
    const char *name;
    uint64_t factor;
};
static const struct unit sizes[] = {
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}};
static const struct unit times[] = {
    {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0}};

static int
number(struct parser *p, const struct unit *units, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)*p->at)) {
        return complain(p, "no number");
    }
    errno = 0;
    unsigned long long n = strtoull(p->at, &end, 10);
    if (errno) {
        return complain(p, "too large");
    }
    p->at = end;
    while (units->name && !word(p, units->name)) {
        units++;
    }
    if (!units->name) {
        return complain(p, "no unit");
    }
    if (n > (UINT64_MAX >> 2) / units->factor) {
        return complain(p, "too large");
    }
    *out = n * units->factor;
    return FY_OK;
}

/* AT, or one of A..B. */
static int
offset(struct parser *p, uint64_t *out)
{
    uint64_t least, most;
    int status = number(p, sizes, &least);
    if (status) {
        return status;
    }
    *out = least;
    if (!word(p, "..")) {
        return FY_OK;
    }
    status = number(p, sizes, &most);
    if (status) {
        return status;
    }
    if (most < least) {
        return complain(p, "an empty range");
    }
    p->seed = p->seed * 6364136223846793005U + 1442695040888963407U;
    *out = least + (p->seed >> 20) % (most - least + 1);
    return FY_OK;
}

static int
add_fault(struct parser *p, struct fy_fault_plan plans[2],
          enum fy_fault_kind kind)
{
    uint64_t at = 0;
    int status = offset(p, &at);
    for (int i = 0; i < 2 && !status; i++) {
        if (!(i ? p->up : p->down)) {
            continue;
        }
        struct fy_fault_plan *plan = &plans[i];
        if (plan->n == FY_FAULT_MAX) {
            return complain(p, "too many faults");
        }
        plan->faults[plan->n] =
            (struct fy_fault){kind, at, FY_FAULT_NEVER, false};
        p->stalls[i] =
            kind == FY_FAULT_STALL ? &plan->faults[plan->n] : p->stalls[i];
        plan->n++;
    }
    return status;
}

static int
clause(struct parser *p, struct fy_fault_plan plans[2])
{
    static const struct {
        const char *name;
        enum fy_fault_kind kind;
    } kinds[] = {{"cut=", FY_FAULT_CUT},
                 {"stall=", FY_FAULT_STALL},
                 {"corrupt=", FY_FAULT_CORRUPT}};
    uint64_t value = 0;
    int status;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (word(p, kinds[i].name)) {
            return add_fault(p, plans, kinds[i].kind);
        }
    }
    if (word(p, "both")) {
        p->down = p->up = true;
    } else if (word(p, "down")) {
        p->down = true;
        p->up = false;
    } else if (word(p, "up")) {
        p->down = false;
        p->up = true;
    } else if (word(p, "seed=")) {
        return number(p, &sizes[3], &p->seed);
    } else if (word(p, "for=")) {
        if ((p->down && !p->stalls[0]) || (p->up && !p->stalls[1])) {
            return complain(p, "no stall before");
        }
        status = number(p, times, &value);
        for (int i = 0; i < 2 && !status; i++) {
            if (i ? p->up : p->down) {
                p->stalls[i]->for_ns = value;
            }
        }
        return status;
    } else if (word(p, "slow=")) {
        status = number(p, sizes, &value);
        (void)word(p, "/s");
        if (!status && !value) {
            return complain(p, "nothing would pass");
        }
        for (int i = 0; i < 2 && !status; i++) {
            plans[i].rate_bytes =
                (i ? p->up : p->down) ? value : plans[i].rate_bytes;
        }
        return status;
    } else if (word(p, "delay=")) {
        status = number(p, times, &value);
        for (int i = 0; i < 2 && !status; i++) {
            plans[i].delay_ns =
                (i ? p->up : p->down) ? value : plans[i].delay_ns;
        }
        return status;
    } else if (word(p, "chunk=")) {
        status = number(p, sizes, &value);
        if (!status && !value) {
            return complain(p, "nothing would pass");
        }
        for (int i = 0; i < 2 && !status; i++) {
            plans[i].chunk_bytes =
                (i ? p->up : p->down) ? (size_t)value : plans[i].chunk_bytes;
        }
        return status;
    } else {
        return complain(p, "unknown word");
    }
    return FY_OK;
}

int
fy_fault_parse(const char *text, struct fy_fault_plan plans[2],
               struct fy_buffer *why)
{
    struct parser p = {.at = text, .why = why, .seed = 1, .down = true};
    for (;;) {
        int status = clause(&p, plans);
        if (status) {
            return status;
        }
        if (!*p.at) {
            return FY_OK;
        }
        if (!word(&p, ",")) {
            return complain(&p, "no comma");
        }
    }
}

int
fy_fault_check(const char *text, struct fy_buffer *why)
{
    struct fy_fault_plan plans[2] = {0};
    return fy_fault_parse(text, plans, why);
}
