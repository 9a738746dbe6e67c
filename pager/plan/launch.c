/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch of a step: its variants' calls and kernels on the tiles' addresses.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "pager/plan/build.h"

static struct fy_image *
patched_images(struct fy_planner *planner, const struct fy_variant *variant,
               const uint64_t *address)
{
    struct fy_step_memory *memory = malloc(sizeof(*memory));

    if (!memory) {
        return NULL;
    }
    memory->next = planner->step_memory;
    memory->variant = variant;
    planner->step_memory = memory;
    memcpy(memory->images, variant->images,
           sizeof(memory->images[0]) * variant->nimages);
    for (unsigned i = 0; i < variant->npatches; i++) {
        const struct fy_patch *patch = &variant->patches[i];
        uint64_t p = address[patch->tile] + (uint64_t)patch->offset;
        if (patch->bytes == 0) {
            memcpy(memory->images[patch->image].content + patch->at, &p,
                   sizeof(p));
        }
    }
    memcpy(memory->given, memory->images, sizeof(memory->given));
    return memory->images;
}

/*
 * Fields that the call writes, from their tiles into the images before it, and
 * back behind it. In the stream, as tiles are written by what runs there.
 */
static int
move_fields(const struct fy_planner *planner, const struct fy_variant *variant,
            struct fy_image *images, const uint64_t *address, uint8_t access,
            struct fy_stream *stream)
{
    uint8_t types[] = {FY_T_POINTER, FY_T_POINTER, FY_T_U64};

    for (unsigned i = 0; i < variant->npatches; i++) {
        const struct fy_patch *patch = &variant->patches[i];
        if (patch->bytes == 0 ||
            !(variant->tiles[patch->tile].access & access)) {
            continue;
        }
        uint64_t tile = address[patch->tile] + (uint64_t)patch->offset;
        uint64_t field =
            (uint64_t)(uintptr_t)(images[patch->image].content + patch->at);
        uint64_t bytes = patch->bytes;
        void *values[] = {access == FY_ACCESS_IN ? &field : &tile,
                          access == FY_ACCESS_IN ? &tile : &field, &bytes};
        struct fy_launch copy = {
            .function = (void *)(uintptr_t)memcpy,
            .return_type = FY_T_VOID,
            .nargs = 3,
            .types = types,
            .values = values,
        };
        int status = planner->options.ops->launch(stream, &copy);
        if (status) {
            return status;
        }
    }
    return FY_OK;
}

/* One call or kernel of a step. */
static int
launch_one(struct fy_planner *planner, struct fy_variant *variant,
           uint32_t number, const uint64_t *address, struct fy_stream *stream)
{
    uint8_t types[FY_MAX_SLOTS];
    void *values[FY_MAX_SLOTS];
    uint64_t pointers[FY_MAX_SLOTS];
    uint8_t words[FY_MAX_SLOTS] = {FY_WORD_NONE};
    struct fy_image *images = NULL;
    bool has_info = false;

    if (variant->nimages > 0) {
        images = patched_images(planner, variant, address);
        if (!images) {
            return FY_ERR_NOMEM;
        }
    }
    for (unsigned i = 0; i < variant->nslots; i++) {
        struct fy_slot *slot = &variant->slots[i];
        types[i] = slot->type;
        values[i] = &pointers[i];
        switch (slot->kind) {
        case FY_SLOT_REFERENCE:
            pointers[i] = (uint64_t)(uintptr_t)&slot->value;
            break;
        case FY_SLOT_TILE:
            pointers[i] = address[slot->tile] + (uint64_t)slot->offset;
            break;
        case FY_SLOT_STRUCT:
            pointers[i] = (uint64_t)(uintptr_t)images[slot->image].content;
            break;
        case FY_SLOT_INFO:
            pointers[i] = (uint64_t)(uintptr_t)&planner->infos[number];
            break;
        case FY_SLOT_WORD:
            words[i] = slot->word;
            has_info = has_info || slot->word == FY_WORD_INFO;
            pointers[i] = 0;
            break;
        default:
            values[i] = &slot->value;
        }
    }
    struct fy_launch call = {
        .function = variant->function,
        .return_type = variant->return_type,
        .nargs = variant->nslots,
        .types = types,
        .values = values,
        .result = variant->return_type == FY_T_VOID ? NULL
                                                    : &planner->results[number],
    };
    if (variant->on_device) {
        call.result = NULL;
        call.words = words;
        call.status = !variant->is_kernel;
        call.info = has_info ? &planner->infos[number] : NULL;
        call.size_function = variant->size_function;
        call.size_arguments = variant->size_arguments;
        call.element_bytes = variant->element_bytes;
        call.transform = variant->transform.kind ? &variant->transform : NULL;
        call.grid = variant->is_kernel ? &variant->grid : NULL;
    }
    int status = FY_OK;
    if (images) {
        status = move_fields(planner, variant, images, address, FY_ACCESS_IN,
                             stream);
    }
    if (status == FY_OK) {
        status = planner->options.ops->launch(stream, &call);
    }
    if (status == FY_OK && images) {
        status = move_fields(planner, variant, images, address, FY_ACCESS_OUT,
                             stream);
    }
    return status;
}

int
fy_plan_launch(void *opaque, const struct fy_step *step,
               const struct fy_tile *tiles, const uint64_t *address,
               struct fy_stream *stream)
{
    struct fy_planner *planner = opaque;
    uint32_t number = (uint32_t)(step - planner->plan.schedule.steps);
    int status = FY_OK;

    (void)tiles;
    for (struct fy_variant *variant = planner->variants[step->tag];
         variant && status == FY_OK; variant = variant->then) {
        status = launch_one(planner, variant, number, address, stream);
    }
    return status;
}
