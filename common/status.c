/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of status codes and reasons: one place, so that --explain, the
 * reports and the tests agree.
 */
#include "config.h"

#include "common/status.h"

#include <stddef.h>

const char *
fy_reason_word(unsigned reason)
{
    static const char *const words[] = {
#define FY_REASON_WORD(id, word) word,
        FY_REASONS(FY_REASON_WORD)
#undef FY_REASON_WORD
    };
    return reason < sizeof words / sizeof words[0] ? words[reason] : "unknown";
}

const char *
fy_absence_word(unsigned reason)
{
    static const char *const words[] = {
#define FY_ABSENCE_WORD(id, word) word,
        FY_ABSENCES(FY_ABSENCE_WORD)
#undef FY_ABSENCE_WORD
    };
    return reason < FY_ABSENCE_COUNT ? words[reason] : "unknown";
}

const char *
fy_status_text(int status)
{
    switch (status) {
    case FY_OK:
        return "success";
    case FY_ERR_NOMEM:
        return "out of memory";
    case FY_ERR_INVALID:
        return "malformed input";
    case FY_ERR_NOENT:
        return "not found";
    case FY_ERR_IO:
        return "input/output error";
    case FY_ERR_OVERFLOW:
        return "a size is too large";
    case FY_ERR_NOFIT:
        return "does not fit the device's memory";
    case FY_ERR_DEVICE:
        return "device error";
    case FY_ERR_UNSUPPORTED:
        return "not supported";
    case FY_ERR_BUSY:
        return "busy";
    case FY_ERR_COMPILE:
        return "a kernel cannot be compiled";
    case FY_ERR_LATER:
        return "not yet";
    case FY_ERR_FAULT:
        return "memory cannot be accessed";
    default:
        return "unknown error";
    }
}
