/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of the stage reasons, see the header.
 */
#include "config.h"

#include "proxy/wire/reason.h"

#include <string.h>

static const char *const words[] = {
#define WORD(id, word) word,
    FY_STAGE_REASONS(WORD)
#undef WORD
};

const char *
fy_stage_reason_word(unsigned reason)
{
    return reason < FY_STAGE_REASON_COUNT ? words[reason] : "unknown";
}

unsigned
fy_stage_reason_find(const char *word)
{
    unsigned reason = 0;
    while (reason < FY_STAGE_REASON_COUNT && strcmp(words[reason], word) != 0) {
        reason++;
    }
    return reason;
}
