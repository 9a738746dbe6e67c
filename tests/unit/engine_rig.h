/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the preload gives the engine and asks of it, for tests that start the
 * engine in their own process: once, so that each test is a process.
 */
#ifndef FERRY_TESTS_UNIT_ENGINE_RIG_H
#define FERRY_TESTS_UNIT_ENGINE_RIG_H

#include "common/record.h"
#include "pager/engine/engine.h"

extern const struct fy_model *model; /* set by main() */
extern const struct fy_engine *engine;
extern struct fy_record *record;
extern __thread int depth; /* how deep this thread is in the engine */

/*
 * Starts the engine. Without `sibling' originals come from calls_symbol(), without
 * `hold' every call is let in.
 */
void engine_start(const char *settings,
                  void *(*sibling)(void *original, const char *name),
                  bool (*hold)(const struct fy_intercepted *call));
/* Starts it on the card with these settings more; explained() is what it then says. */
void engine_start_on_card(const char *more);
const char *explained(void);
void explained_end(void); /* removes the file for that */
/* A Fortran call, everything by address, with two lengths of flags behind. */
enum fy_reason engine_call(const char *name, unsigned count,
                           const void *const *args);

#endif
