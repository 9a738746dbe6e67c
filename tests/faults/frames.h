/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which words of a stack are return addresses of the calls that are under way, and
 * not what earlier calls left in buffers: the instruction before such an address
 * calls the function that the next inner frame is in. A site that is named by them
 * has the same name in each run.
 */
#ifndef FERRY_TESTS_FAULTS_FRAMES_H
#define FERRY_TESTS_FAULTS_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    CALL_BYTES = 7,        /* the longest `call' instruction */
    ENTRY_BYTES = 10,      /* of a function, up to its jump through a table */
    FUNCTION_BYTES = 4096, /* more than a function of ferry's has */
};

/* Copies bytes of the process; false if they are not mapped. */
typedef bool frames_read(void *context, uint64_t at, void *to, uint64_t bytes);

/* Whether a `call' instruction by a pointer, or through a table, is at the end. */
static inline bool
frames_by_pointer(const unsigned char code[CALL_BYTES])
{
    for (int i = 0; i <= 5; i++) { /* ff /2, with up to 5 bytes of operand */
        if (code[i] == 0xff && (code[i + 1] & 0x38) == 0x10) {
            return true;
        }
    }
    return false;
}

/* Whether an instruction that calls ends at an address. */
static inline bool
frames_calls(uint64_t address, frames_read *read, void *context)
{
    unsigned char code[CALL_BYTES];
    return read(context, address - CALL_BYTES, code, sizeof code) &&
           (code[2] == 0xe8 || frames_by_pointer(code));
}

/*
 * Whether `address' is where a call returns that led to `inner', an address in the
 * next inner frame of ferry's code; 0: the call has left ferry's code, by the table
 * of a linker or by a pointer. A call by a pointer may lead anywhere.
 */
static inline bool
frames_leads(uint64_t address, uint64_t inner, frames_read *read, void *context)
{
    unsigned char code[CALL_BYTES], entry[ENTRY_BYTES];
    if (!read(context, address - CALL_BYTES, code, sizeof code)) {
        return false;
    }
    if (code[2] != 0xe8) {
        return frames_by_pointer(code);
    }
    int32_t distance;
    memcpy(&distance, code + 3, sizeof distance);
    uint64_t target = address + (uint64_t)(int64_t)distance;
    if (inner) {
        return inner >= target && inner - target < FUNCTION_BYTES;
    }
    if (!read(context, target, entry, sizeof entry)) {
        return false;
    }
    for (int i = 0; i + 1 < ENTRY_BYTES; i++) { /* jmp *table */
        if (entry[i] == 0xff && entry[i + 1] == 0x25) {
            return true;
        }
    }
    return false;
}

#endif
