/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target of tests/fuzz is: a decoder of bytes that another user, host or
 * file says, behind LLVMFuzzerTestOneInput(), and what driver.c needs beside it.
 * With gcc driver.c has a main() that tries the seeds and, for a while, changes of
 * them (make check); with clang libFuzzer has it (tests/fuzz/run). One process, one
 * thread.
 */
#ifndef FERRY_TESTS_FUZZ_TARGET_H
#define FERRY_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/fuzz.h"

/* ---- each target defines */

/* The bytes are a copy of exactly this size. Returns 0; MUST() ends the process
 * where a promise of the decoder is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Calls fuzz_seed() for inputs that the decoder accepts (fuzz_taken counts them),
 * and for each input that was once decoded wrongly. */
void fuzz_make_seeds(void);

/* What the target shows, for TAP. */
extern const char fuzz_shows[];

/* Words that changed inputs may get; ended by NULL. */
extern const char *const fuzz_words[];

/* ---- driver.c offers */

void fuzz_seed(const void *bytes, size_t n);
#define FUZZ_SEED(text) fuzz_seed(text, sizeof(text) - 1)

/* Counted by the target: inputs that the decoder has accepted. */
extern unsigned long fuzz_taken;

/* A folder of this process, removed at its exit(3); abort(3) leaves it. */
const char *fuzz_folder(void);

/* The path of a file with that content: `name' in fuzz_folder(), beneath folders
 * that are made, valid until the next call. Mode 0600. */
const char *fuzz_file(const char *name, const void *bytes, size_t n);

/* The input as a string, NULs as spaces; free() it. */
char *fuzz_text(const void *bytes, size_t n);

/* The input cut at its NULs into at most `most' strings; the rest of `out' is "".
 * free(out[0]). */
void fuzz_cut(const void *bytes, size_t n, char **out, size_t most);

#endif
