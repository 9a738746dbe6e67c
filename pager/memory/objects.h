/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the table of objects, for memory.c: finding, making and dropping them, and
 * the ranges whose objects were of no use. All functions need the table's lock.
 */
#ifndef FERRY_PAGER_MEMORY_OBJECTS_H
#define FERRY_PAGER_MEMORY_OBJECTS_H

#include "pager/memory/memory.h"

static inline uintptr_t
fy_page_down(uintptr_t at)
{
    return at & ~(uintptr_t)(FY_PAGE_BYTES - 1);
}

static inline uintptr_t
fy_page_up(uintptr_t at)
{
    return fy_page_down(at + FY_PAGE_BYTES - 1);
}

/* The place of a page in the arrays of the object. */
static inline size_t
fy_object_index(const struct fy_object *o, uintptr_t page)
{
    return (page - fy_page_down(o->start)) / FY_PAGE_BYTES;
}

/* Marks those of the object's pages that have bytes of first .. end - 1. */
void fy_object_mark(struct fy_object *object, uintptr_t first, uintptr_t end,
                    bool clean);
/* Marks pages of all objects as stale; a fy_pages_told. `memory': struct fy_memory. */
void fy_objects_stale(void *memory, uintptr_t first, uintptr_t end);

/* Returns the object that has all bytes lo .. hi - 1, or NULL; drops others that have
 * some. *why is IN_USE if a call other than `owner' has one of them, else as it was. */
struct fy_object *fy_object_find(struct fy_memory *memory, uintptr_t lo,
                                 uintptr_t hi, const void *owner,
                                 enum fy_absence *why);
/*
 * Returns a new object, all stale; NULL: for the reason in *why. Its bytes are taken from
 * *budget, of which `least' stay.
 */
struct fy_object *fy_object_make(struct fy_memory *memory,
                                 struct fy_device *device, uintptr_t lo,
                                 uintptr_t hi, uint64_t *budget, uint64_t least,
                                 enum fy_absence *why);
/* Returns the bytes of the object's clean pages. */
uint64_t fy_object_clean_bytes(const struct fy_object *object);
/* Frees the object, with its owner's last use if it has an owner. */
void fy_object_drop(struct fy_memory *memory, struct fy_object *object,
                    const char *why);
/* Tells the decision log (--explain) of an operand without an object, or of one that is
 * dropped, once for each range and reason. */
void fy_memory_explain(uintptr_t lo, uintptr_t hi,
                       const struct fy_object *dropped, const char *why);
/* Tells fy_memory_expect() of the object; 0 bytes: it is, or will be, no more. */
void fy_object_publish(struct fy_memory *memory, const struct fy_object *object,
                       uint64_t clean_bytes);
/* Has the next objects of the range made later; later and later if they were of no use. */
void fy_object_back_off(struct fy_memory *memory,
                        const struct fy_object *object);

#endif
