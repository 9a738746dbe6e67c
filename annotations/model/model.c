/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a compiled model: the look-up of a name, and its hash. Calls nothing
 * but itself, so that the shim and the engine may link it.
 */
#include "config.h"

#include <stdbool.h>
#include <stddef.h>

#include "annotations/model/annotations.h"
#include "annotations/model/model.h"
#include "common/hash.h"

int
fy_model_compare_names(const char *a, const char *b)
{
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

uint32_t
fy_model_find_symbol(const struct fy_model *model, const char *name)
{
    const struct fy_symbol *symbols = FY_TABLE(model, fy_symbol, symbols);
    uint32_t low = 0, high = model->symbols.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = fy_model_compare_names(
            name, fy_model_string(model, symbols[middle].name));
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return FY_NIL;
}

uint64_t
fy_model_hash(const struct fy_model *model)
{
    const size_t begin = offsetof(struct fy_model, symbols);
    return fy_hash_words(FY_HASH_START, (const char *)model + begin,
                         (model->size_bytes - begin) / 8 * 8);
}
