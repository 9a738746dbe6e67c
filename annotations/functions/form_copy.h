/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a function's statements, with expressions in place of its arguments and with
 * the values of its row in place of columns: for form.c. The copies are in the arena.
 */
#ifndef FERRY_ANNOTATIONS_FUNCTIONS_FORM_COPY_H
#define FERRY_ANNOTATIONS_FUNCTIONS_FORM_COPY_H

#include "annotations/functions/compile.h"

/* A variant of the target on its way into the form; both are borrowed. Where they are one
 * unit, only columns are replaced. */
struct fy_form_copy {
    struct fy_front *front;
    const struct fy_unit *form, *target;
    const struct ast_expr *args[FY_MAX_ARGS]; /* in place of the target's */
    bool on_device, in_value, in_where;
};

void *fy_copy_of(struct fy_arena *arena, const void *from, size_t bytes);
#define FY_COPY(type, from)                                 \
    ((struct type *)fy_copy_of(&copy->front->arena, (from), \
                               sizeof(struct type)))

/* A name with its placeholders replaced by the target's rows; "" after an error. */
struct ast_name fy_copy_name(const struct fy_form_copy *copy,
                             struct ast_name name);
/* NULL comes back as NULL. */
struct ast_expr *fy_copy_expr(struct fy_form_copy *copy,
                              const struct ast_expr *expr);
/* NULL: the statement is the target's alone. */
struct ast_statement *fy_copy_statement(struct fy_form_copy *copy,
                                        const struct ast_statement *s);

#endif
