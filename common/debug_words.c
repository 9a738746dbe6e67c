/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of --debug as a mask, see debug.h. Runs in the tools.
 */
#include "config.h"

#include "common/debug.h"

#include <string.h>

#define BIT(room) (UINT32_C(1) << FY_ROOM_##room)

static const struct {
    const char *word;
    uint32_t mask;
} groups[] = {
    {"shim", BIT(CALLS) | BIT(PROGRAMS)},
    {"pager", BIT(ENGINE) | BIT(DECIDE) | BIT(PLAN) | BIT(EXECUTE) |
                  BIT(MEMORY) | BIT(DEVICE)},
    {"proxy",
     BIT(CLIENT) | BIT(WIRE) | BIT(STORAGE) | BIT(SANDBOX) | BIT(SERVER)},
    {"tools", BIT(COMMAND)},
    {"all", (UINT32_C(1) << FY_ROOM_COUNT) - 1},
};

enum {
    GROUPS = sizeof groups / sizeof groups[0]
};

/* The mask of the first `n' bytes at `word'; 0: there is no such word. */
static uint32_t
mask_of(const char *word, size_t n)
{
    for (unsigned i = 0; i < FY_ROOM_COUNT + GROUPS; i++) {
        const char *each = i < FY_ROOM_COUNT ? fy_debug_word((enum fy_room)i)
                                             : groups[i - FY_ROOM_COUNT].word;
        if (strlen(each) == n && memcmp(each, word, n) == 0) {
            return i < FY_ROOM_COUNT ? UINT32_C(1) << i
                                     : groups[i - FY_ROOM_COUNT].mask;
        }
    }
    return 0;
}

int
fy_debug_parse(const char *text, uint32_t *out_mask, struct fy_buffer *why)
{
    uint32_t mask = 0;
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        uint32_t one = mask_of(at, n);
        if (!one) {
            fy_buffer_add(why, "there is no room '");
            fy_buffer_add_bytes(why, at, n);
            fy_buffer_add(why, "'; rooms are");
            for (unsigned i = 0; i < FY_ROOM_COUNT; i++) {
                fy_buffer_printf(why, "%s%s", i ? ", " : " ",
                                 fy_debug_word((enum fy_room)i));
            }
            fy_buffer_add(why, "; groups are shim, pager, proxy, tools, all");
            return FY_ERR_INVALID;
        }
        mask |= one;
        at += n;
        if (!*at) {
            *out_mask = mask;
            return 0;
        }
    }
}

bool
fy_debug_format(struct fy_buffer *to)
{
    const char *before = "--debug=";
    for (unsigned i = 0; i < FY_ROOM_COUNT; i++) {
        if (fy_debug_mask & UINT32_C(1) << i) {
            fy_buffer_printf(to, "%s%s", before,
                             fy_debug_word((enum fy_room)i));
            before = ",";
        }
    }
    return fy_debug_mask != 0;
}
