/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory behind each pointer of a call, as its annotation declares it: one
 * image per pointer, spanning every operand that lies behind it, with a mark
 * for each byte. Operands over the same pointer (`as') share an image.
 */
#ifndef FERRY_PAGER_VERIFY_IMAGE_H
#define FERRY_PAGER_VERIFY_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "pager/execute/schedule.h"

enum fy_mark {
    FY_MARK_IN = 1 << 0,      /* declared as read */
    FY_MARK_OUT = 1 << 1,     /* declared as written */
    FY_MARK_SCRATCH = 1 << 2, /* declared, no content */
};

struct fy_image {
    uint32_t cell;   /* relative cell that holds the pointer */
    uint8_t element; /* enum fy_type, of the first operand */
    bool accessed;   /* else no operand behind it is, in this call */
    char *base;      /* the program's pointer */
    int64_t lo, hi;  /* declared bytes, relative to base; hi exclusive */
    size_t slack;    /* bytes: how far a vector kernel may read past it */
    uint8_t *marks;  /* hi - lo bytes of enum fy_mark */
    char *before;    /* hi - lo bytes, shared: the declared ones are valid */
    char *truth;     /* likewise, after the original ran */
};

struct fy_images {
    const struct fy_model *model;
    const struct fy_function *function;
    /* As bound, but scratch is scratch, also where some of it comes back. */
    struct fy_view views[FY_MAX_OPERANDS];
    int64_t returned[FY_MAX_OPERANDS]; /* first elements of scratch */
    uint16_t of[FY_MAX_OPERANDS];      /* the image of each operand */
    int64_t first[FY_MAX_OPERANDS]; /* bytes from image->lo to element 0, 0 */
    unsigned count;
    struct fy_image image[FY_MAX_OPERANDS];
    char *shared; /* before and truth of all */
    size_t shared_bytes;
};

/*
 * Lays out the images of a call; `base' gives the program's pointer of each
 * operand. FY_ERR_NOFIT when they would pass limit_bytes, FY_ERR_NOMEM,
 * FY_ERR_OVERFLOW. Does not touch the program's memory.
 */
int fy_images_new(const struct fy_model *model,
                  const struct fy_function *function,
                  const struct fy_view *views, char *const *base,
                  size_t limit_bytes, struct fy_images *out) FY_MUST_CHECK;
void fy_images_free(struct fy_images *images);

/* Walks the declared elements of a view, in any order. */
struct fy_walk {
    const struct fy_view *view;
    int64_t index[FY_MAX_OPERAND_AXES];
    int64_t offset; /* bytes from element (0, 0, ...) */
    bool started;
};
bool fy_walk_next(struct fy_walk *walk); /* false: past the last */

/* Two steps of the longest stride, and a page. */
size_t fy_view_slack(const struct fy_view *view);

/* Copies the bytes with one of `marks' from one layout of it to another. */
void fy_image_copy(const struct fy_image *image, unsigned marks, char *to,
                   const char *from);

/* "(3, 5)": the indices of an element, at most `bytes' with the NUL. */
void fy_walk_text(const struct fy_walk *walk, char *out, size_t bytes);

/*
 * Describes the place of a byte offset from image->lo in the terms of an
 * operand: inside, "element (3, 5)"; else near it, e.g. "2 elements past the
 * last declared one", "between the declared elements, at offset 17".
 */
void fy_image_place(const struct fy_images *images, unsigned operand,
                    int64_t offset, char *out, size_t bytes);

/* The operand behind an image that best explains a byte offset from lo. */
unsigned fy_image_operand(const struct fy_images *images, unsigned image,
                          int64_t offset);

#endif
