/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the decision log (--explain). decide/decision.h writes calls to it.
 */
#ifndef FERRY_PAGER_BASE_EXPLAIN_H
#define FERRY_PAGER_BASE_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where lines go: O_APPEND, one write() each. "" or NULL: nowhere. */
void fy_explain_to(const char *path);
/* Whether they go anywhere. */
bool fy_explains(void);
/* Whether what that odd hash stands for is told now: it never was, and the process has
 * written fewer lines than one may. Counts the line. Only where fy_explains(). */
bool fy_explain_once(uint64_t hash);
/* Appends `bytes' bytes, a line that was counted. Any thread; errno is kept. */
void fy_explain_write(const char *line, size_t bytes);

#endif
