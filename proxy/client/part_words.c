/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one part of a command (stage_parts.c) says, on its way to the stub of the
 * whole. A command complains of its words once, and would do so in every part:
 * what a later part says first has to be of one of its operands, else the
 * original runs. Only how it begins is looked at, since such complaints come
 * before anything is read.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/path.h"
#include "proxy/client/stage.h"

enum {
    HELD_BYTES = 16 << 10, /* of what may be a complaint */
};

enum verdict {
    FINE,
    ODD,
    MORE, /* bytes are needed */
};

/* Whether `text' begins with `start'; MORE: as far as it goes. */
static enum verdict
begins(const char *text, size_t n, const char *start, size_t nstart)
{
    size_t both = n < nstart ? n : nstart;
    if (memcmp(text, start, both) != 0) {
        return ODD;
    }
    return n < nstart ? MORE : FINE;
}

/* "OPERAND:", "OPERAND/...", perhaps in quotes. */
static enum verdict
is_of_operand(const struct stage *part, const char *text, size_t n)
{
    static const char quotes[][4] = {"\xe2\x80\x98", "'", "`", "\""};
    enum verdict best = ODD;
    for (size_t i = 0; i < sizeof quotes / sizeof quotes[0]; i++) {
        size_t bytes = strlen(quotes[i]);
        enum verdict found = begins(text, n, quotes[i], bytes);
        if (found == MORE) {
            return MORE;
        }
        if (found == FINE) {
            text += bytes;
            n -= bytes;
            break;
        }
    }
    for (uint32_t i = 0; i < part->invocation.nuses; i++) {
        const struct fy_use *use = &part->invocation.uses[i];
        const char *name = part->argv[use->arg];
        size_t bytes = strlen(name);
        enum verdict found =
            use->is_listed ? begins(text, n, name, bytes) : ODD;
        if (found == FINE && name[bytes - 1] != '/') {
            /* Nothing more of a name, but of one below it. */
            found = n == bytes                           ? MORE
                    : strchr(":/'\"`,\xe2", text[bytes]) ? FINE
                                                         : ODD;
        }
        if (found == FINE) {
            return FINE;
        }
        best = found == MORE ? MORE : best;
    }
    return best;
}

/* How a part's stream begins. merged: its output is in it as well. */
static enum verdict
look_at(const struct stage *part, const char *text, size_t n, bool merged)
{
    const char *names[] = {part->argv[0], fy_path_name(part->argv[0])};
    enum verdict best = merged ? FINE : ODD;
    for (int i = 0; i < 2; i++) {
        size_t bytes = strlen(names[i]);
        enum verdict found = begins(text, n, names[i], bytes);
        if (found == FINE) {
            found = begins(text + bytes, n - bytes, ": ", 2);
        }
        if (found == FINE) {
            return is_of_operand(part, text + bytes + 2, n - bytes - 2);
        }
        best = found == MORE ? MORE : best;
    }
    return best;
}

int
fy_parts_flush(struct stage *whole)
{
    struct fy_parts *parts = whole->parts;
    size_t n = parts->nearly;
    parts->flowing = true;
    parts->nearly = 0;
    return n > 0 ? fy_flow_deliver(whole, 0, parts->early, n) : 0;
}

/*
 * Most commands write little output at once when they end, so that a reader that
 * leaves after the first line does no harm: so do they in parts.
 */
static int
hand(struct stage *part, int i, const char *bytes, size_t n)
{
    struct stage *whole = part->whole;
    struct fy_parts *parts = whole->parts;
    part->flow.handed_bytes += n;
    if (i == 0 && parts->pipes && !parts->flowing) {
        if (n <= FY_PARTS_EARLY_BYTES - parts->nearly) {
            memcpy(parts->early + parts->nearly, bytes, n);
            parts->nearly += n;
            part->flow.credited_bytes += n;
            return 0;
        }
        int status = fy_parts_flush(whole);
        if (status) {
            return status;
        }
    }
    if (i == 1) {
        uint64_t place = part->flow.place, before = whole->result.out_bytes;
        whole->flow.place =
            place > FY_PLACE_ANY - before ? FY_PLACE_ANY : before + place;
    }
    return fy_flow_deliver(whole, i, bytes, n);
}

int
fy_part_deliver(struct stage *part, int i, const char *bytes, size_t n)
{
    struct fy_part *own = part->part;
    bool merged = part->plan.err.kind != FY_STREAM_WIRE;
    if (own->at == 0 || own->looked || i != (merged ? 0 : 1) ||
        part->plan.err.kind == FY_STREAM_NULL) {
        return hand(part, i, bytes, n);
    }
    char *larger = n <= HELD_BYTES - own->nheld
                       ? realloc(own->held, own->nheld + n)
                       : NULL;
    enum verdict verdict;
    if (larger) {
        memcpy(larger + own->nheld, bytes, n);
        own->held = larger;
        own->nheld += n;
        verdict = look_at(part, own->held, own->nheld, merged);
    } else {
        verdict = look_at(part, bytes, n, merged);
        verdict = own->nheld > 0 ? ODD : verdict;
    }
    if (verdict == MORE && larger) {
        return 0;
    }
    if (verdict != FINE) {
        return FY_ERR_INVALID;
    }
    own->looked = true;
    int status =
        larger ? hand(part, i, own->held, own->nheld) : hand(part, i, bytes, n);
    own->nheld = 0;
    return status;
}

int
fy_part_flush(struct stage *part)
{
    bool merged = part->plan.err.kind != FY_STREAM_WIRE;
    struct fy_part *own = part->part;
    if (own->nheld > 0 && !own->looked) {
        /* The part ended in the middle of a line: output may, a complaint does
         * not. */
        bool whole_line = own->held[own->nheld - 1] == '\n';
        if (!merged || whole_line) {
            return FY_ERR_INVALID;
        }
        size_t n = own->nheld;
        own->looked = true;
        own->nheld = 0;
        return hand(part, 0, own->held, n);
    }
    return 0;
}
