/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children made by a bare system call while pages were out (fork() itself has
 * everything brought home first). The kernel hands over a descriptor of each
 * one's memory; it gets its own copy of every page it lacks, wherever it moved
 * or dropped them meanwhile, and so do its own children. Linux only. With the
 * lock of pages.h.
 */
#ifndef FERRY_PAGER_DEFERRED_CHILD_H
#define FERRY_PAGER_DEFERRED_CHILD_H

#include <stdbool.h>

/*
 * Takes a child's descriptor, in the state of the ranges now. Their shadows stay
 * until it has been served.
 */
void fy_child_add(int fd);
bool fy_children_wait(void);
/* Fills all of them; the shadows hold what the program is to see. Only on threads
 * that have the descriptors. */
void fy_children_serve(void);

#endif
