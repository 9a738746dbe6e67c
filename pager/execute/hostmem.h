/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about host memory that are asked before a call is offloaded: is it
 * there, and do operands share elements. Nothing here allocates, takes a lock
 * or changes errno; safe from any thread and after fork.
 */
#ifndef FERRY_PAGER_EXECUTE_HOSTMEM_H
#define FERRY_PAGER_EXECUTE_HOSTMEM_H

#include "pager/execute/schedule.h"

/*
 * Whether every byte of every range is mapped with the access it needs, asked
 * of the kernel once for all (PROCMAP_QUERY, else /proc/self/maps). 0;
 * FY_ERR_NOENT: some byte is not; FY_ERR_IO: the kernel would not say.
 */
int fy_ranges_mapped(const struct fy_range *ranges, size_t count) FY_MUST_CHECK;

/*
 * The bytes from a view's first to behind its last, gaps included. False, and
 * out is empty, for a view without elements, or, with *overflow set, when they
 * do not fit the address space.
 */
bool fy_view_range(const struct fy_view *view, struct fy_range *out,
                   bool *overflow);

/*
 * Whether two views may share a byte. Exact for the layouts of one parent
 * array (blocks of rows, columns, vectors of either direction); where that
 * would take long, it says yes.
 */
bool fy_views_overlap(const struct fy_view *a, const struct fy_view *b);

/*
 * Whether no two elements of the view lie on each other: what a written view
 * must be. May say no to exotic layouts that are.
 */
bool fy_view_is_injective(const struct fy_view *view);

#endif
