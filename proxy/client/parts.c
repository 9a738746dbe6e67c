/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a command that runs as parts (stage_parts.c): which there are, and whose turn it
 * is.
 */
#include "config.h"

#include <stdlib.h>

#include "proxy/client/stage.h"

bool
fy_part_may_send(const struct stage *part)
{
    return part->whole->state == STAGE_RUNNING &&
           part->whole->parts->current == part->part->at;
}

struct stage *
fy_parts_current(const struct stage *whole)
{
    const struct fy_parts *parts = whole->parts;
    return whole->state == STAGE_RUNNING && parts->current < parts->n
               ? parts->stages[parts->current]
               : NULL;
}

struct stage *
fy_parts_get(const struct stage *whole, unsigned i)
{
    return i < whole->parts->n ? whole->parts->stages[i] : NULL;
}

bool
fy_part_is_over(const struct stage *part)
{
    return part->part->finished;
}

bool
fy_parts_left(const struct stage *whole)
{
    bool left = false;
    for (unsigned i = 0; whole->parts && i < whole->parts->n; i++) {
        left = left || whole->parts->stages[i];
    }
    return left;
}

void
fy_parts_name(const struct stage *whole, char *out, size_t capacity)
{
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, out, capacity);
    for (unsigned i = 0; i < whole->parts->n; i++) {
        const struct stage *part = whole->parts->stages[i];
        bool named = !part || !part->connection;
        for (unsigned j = 0; j < i && !named; j++) {
            const struct stage *other = whole->parts->stages[j];
            named = other && other->connection == part->connection;
        }
        if (!named) {
            fy_buffer_add(&buffer, i ? ", " : "");
            fy_buffer_add(&buffer, part->connection->name);
            fy_buffer_add(&buffer, part->connection->programs == FY_TOOLS_HOST
                                       ? " with the host's program"
                                       : "");
        }
    }
}

void
fy_part_forget(struct stage *part)
{
    struct fy_part *own = part->part;
    if (own) {
        if (part->whole->parts) {
            part->whole->parts->stages[own->at] = NULL;
        }
        free(own->held);
        free(own);
        part->part = NULL;
    }
    free(part->parts); /* a whole's */
}
