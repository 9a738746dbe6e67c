/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a compiled model: the look-up of a name, and its hash. Calls nothing
 * but itself, so that the shim and the engine may link it.
 */
#include "config.h"

#include <stdbool.h>
#include <stddef.h>

#include "annotations/annotations.h"
#include "annotations/model.h"

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

/* FNV-1a by words: the shim may compute it when it maps a snapshot. */
uint64_t
fy_model_hash(const struct fy_model *model)
{
    const size_t begin = offsetof(struct fy_model, symbols);
    const uint64_t *words =
        (const uint64_t *)(const void *)((const char *)model + begin);
    size_t count = (model->size_bytes - begin) / sizeof *words;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++) {
        h = (h ^ words[i]) * UINT64_C(0x100000001b3);
        h ^= h >> 32;
    }
    return h;
}
