/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outside of annotations/: text to checked model. Used by the tools and
 * the tests, never inside a host program (it allocates and prints).
 */
#ifndef FERRY_ANNOTATIONS_MODEL_ANNOTATIONS_H
#define FERRY_ANNOTATIONS_MODEL_ANNOTATIONS_H

#include <stdio.h>

#include "annotations/base/diagnostics.h"
#include "annotations/model/model.h"
#include "common/status.h"

/*
 * Compiles files (a folder means every *.ferry in it, sorted). Imports are
 * looked up beside the importing file, then in `library_dir' (may be NULL).
 * Functions that a path declares replace those of the same interface and name
 * of the paths before it, with all their variants.
 * With errors: FY_ERR_INVALID, every finding is in `diagnostics', and *out is
 * not set. On success *out is new (free() it), one block of size_bytes.
 */
int fy_compile(const char *const *paths, unsigned npaths,
               const char *library_dir, struct fy_diagnostics *diagnostics,
               struct fy_model **out) FY_MUST_CHECK;

/* Same, for one text in memory; `name' stands in diagnostics. */
int fy_compile_text(const char *name, const char *text, size_t bytes,
                    const char *library_dir, struct fy_diagnostics *diagnostics,
                    struct fy_model **out) FY_MUST_CHECK;

/*
 * Checks that `bytes' at `model' are a well-formed model: every index, offset
 * and string in range, every expression within FY_MAX_NODE_DEPTH and _STEPS.
 * For models read from a cache file; no libc. FY_ERR_INVALID if not.
 */
int fy_model_validate(const void *model, size_t bytes) FY_MUST_CHECK;

/* Row of the symbol of that exact name, or FY_NIL. No libc: shim-safe. */
uint32_t fy_model_find_symbol(const struct fy_model *model, const char *name);

/* content_hash of a model whose size_bytes is right. No libc. */
uint64_t fy_model_hash(const struct fy_model *model);
/* strcmp() without libc: the order of the symbols table. */
int fy_model_compare_names(const char *a, const char *b);

/* The language's name of an enum fy_word. */
const char *fy_word_text(unsigned word);

/* The model as text, in the words of the language (`ferry check --dump'). */
void fy_model_dump(const struct fy_model *model, FILE *to);

#endif
