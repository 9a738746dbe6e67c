/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the decision log (--explain). decide/decision.h writes calls to it.
 */
#ifndef FERRY_PAGER_BASE_EXPLAIN_H
#define FERRY_PAGER_BASE_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

enum {
    FY_EXPLAIN_LINES = 4096 /* of one process, at most */
};

/* Where lines go: O_APPEND, one write() each. "" or NULL: nowhere. */
void fy_explain_to(const char *path);
/* Whether they go anywhere. */
bool fy_explains(void);
/* Whether this process has written as many lines as one may. */
bool fy_explain_is_full(void);
/* Counts a line that is to be written; false: it may not be. */
bool fy_explain_count(void);
/* Appends `bytes' bytes, a line that was counted. Any thread; errno is kept. */
void fy_explain_write(const char *line, size_t bytes);
/* A line that is no call's: what happened to several calls together. */
void fy_explain_line(const char *text);

#endif
