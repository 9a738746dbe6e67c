/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C types as annotation heads and structs write them, and the layout of structs
 * by the System V ABI (x86-64 psABI, section 3.1.2: every member at the next
 * multiple of its alignment, the whole a multiple of the largest).
 */
#include "config.h"

#include <string.h>

#include "annotations/functions/compile.h"
#include "annotations/model/eval.h"

static const struct {
    const char *name;
    uint8_t type;
} simple_types[] = {
    {"void", FY_T_VOID},       {"char", FY_T_CHAR},
    {"short", FY_T_I16},       {"int", FY_T_I32},
    {"long", FY_T_I64},        {"size_t", FY_T_U64},
    {"ssize_t", FY_T_I64},     {"ptrdiff_t", FY_T_I64},
    {"intptr_t", FY_T_I64},    {"uintptr_t", FY_T_U64},
    {"int8_t", FY_T_I8},       {"uint8_t", FY_T_U8},
    {"int16_t", FY_T_I16},     {"uint16_t", FY_T_U16},
    {"int32_t", FY_T_I32},     {"uint32_t", FY_T_U32},
    {"int64_t", FY_T_I64},     {"uint64_t", FY_T_U64},
    {"float", FY_T_F32},       {"double", FY_T_F64},
    {"integer", FY_T_INTEGER}, {"logical", FY_T_INTEGER},
};

bool
fy_is_integer_type(uint8_t type)
{
    return type >= FY_T_I8 && type <= FY_T_INTEGER;
}

bool
fy_is_type_word(const struct fy_front *front, const char *word)
{
    static const char *const modifiers[] = {
        "const",   "volatile", "restrict", "handle", "signed", "unsigned",
        "complex", "_Complex", "long",     "short",  "struct", "enum",
    };
    for (size_t i = 0; i < sizeof modifiers / sizeof modifiers[0]; i++) {
        if (strcmp(word, modifiers[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof simple_types / sizeof simple_types[0]; i++) {
        if (strcmp(word, simple_types[i].name) == 0) {
            return true;
        }
    }
    return word[0] == '<' || fy_map_find(&front->known.handles, word) ||
           fy_map_find(&front->known.structs, word);
}

/* Meaning of the words of a type. */
struct words {
    unsigned longs, shorts;
    bool is_signed, is_unsigned, is_complex, is_const, is_enum;
    const char *base;    /* the word that names it */
    struct fy_span span; /* of base */
    bool is_struct, bad;
};

static void
unknown_type(struct fy_front *front, struct fy_span span, const char *name)
{
    struct fy_suggestion suggestion = {.wanted = name};
    struct fy_diagnostic *diagnostic =
        fy_error(front, span, "unknown type '%.*s'", FY_MAX_QUOTED, name);
    for (size_t i = 0; i < sizeof simple_types / sizeof simple_types[0]; i++) {
        fy_suggestion_try(&suggestion, simple_types[i].name);
    }
    fy_suggest_names(&suggestion, &front->known.handles);
    if (fy_map_find(&front->known.structs, name)) {
        fy_diagnostic_hint(diagnostic, "write 'struct %.*s'", FY_MAX_QUOTED,
                           name);
    }
    fy_diagnostic_suggest(diagnostic, &suggestion);
}

static void
take_word(struct fy_front *front, struct words *words, const char *word,
          struct fy_span span)
{
    if (strcmp(word, "const") == 0) {
        words->is_const = true;
    } else if (strcmp(word, "volatile") == 0 || strcmp(word, "handle") == 0 ||
               strcmp(word, "restrict") == 0) {
        /* no difference to the memory that a call touches */
    } else if (strcmp(word, "signed") == 0) {
        words->is_signed = true;
    } else if (strcmp(word, "unsigned") == 0) {
        words->is_unsigned = true;
    } else if (strcmp(word, "complex") == 0 || strcmp(word, "_Complex") == 0) {
        words->is_complex = true;
    } else if (strcmp(word, "long") == 0) {
        words->longs++;
    } else if (strcmp(word, "short") == 0) {
        words->shorts++;
    } else if (strcmp(word, "struct") == 0 && !words->base) {
        words->is_struct = true;
    } else if (strcmp(word, "enum") == 0 && !words->base) {
        words->is_enum = true;
    } else if (words->base) {
        unknown_type(front, words->span, words->base);
        words->bad = true;
    } else {
        words->base = word;
    }
    if (words->base == word || !words->span.source) {
        words->span = span;
    }
}

/* Type modifiers without a base word mean int. */
static uint8_t
scalar_type(const struct words *words, const char *base)
{
    uint8_t type = FY_T_COUNT;
    if (words->longs > 0 && (!base || strcmp(base, "int") == 0)) {
        type = FY_T_I64;
    } else if (words->shorts > 0 && (!base || strcmp(base, "int") == 0)) {
        type = FY_T_I16;
    } else if (!base && (words->is_signed || words->is_unsigned)) {
        type = FY_T_I32;
    } else if (base && words->longs == 0 && words->shorts == 0) {
        for (size_t i = 0; i < sizeof simple_types / sizeof simple_types[0];
             i++) {
            if (strcmp(base, simple_types[i].name) == 0) {
                type = simple_types[i].type;
            }
        }
    }
    if (words->is_unsigned || words->is_signed) {
        switch (type) {
        case FY_T_CHAR:
            return words->is_unsigned ? FY_T_U8 : FY_T_I8;
        case FY_T_I16:
            return words->is_unsigned ? FY_T_U16 : FY_T_I16;
        case FY_T_I32:
            return words->is_unsigned ? FY_T_U32 : FY_T_I32;
        case FY_T_I64:
            return words->is_unsigned ? FY_T_U64 : FY_T_I64;
        default:
            return FY_T_COUNT;
        }
    }
    if (words->is_complex) {
        if (type == FY_T_F32) {
            return FY_T_C32;
        }
        return type == FY_T_F64 ? FY_T_C64 : FY_T_COUNT;
    }
    return type;
}

/* The base type, before stars; layout for structs. -1 after an error. */
static int
base_type(struct fy_front *front, const struct words *words,
          struct fy_resolved *out)
{
    if (words->is_enum && words->base) {
        out->type = FY_T_I32;
        return 0;
    }
    if (words->is_struct && words->base) {
        const struct fy_map_entry *entry =
            fy_map_find(&front->known.structs, words->base);
        struct fy_suggestion suggestion = {.wanted = words->base};
        if (entry) {
            out->layout = &front->layouts[entry->value];
            out->type = FY_T_VOID;
            return 0;
        }
        struct fy_diagnostic *diagnostic =
            fy_error(front, words->span, "unknown struct '%.*s'", FY_MAX_QUOTED,
                     words->base);
        fy_suggest_names(&suggestion, &front->known.structs);
        fy_diagnostic_suggest(diagnostic, &suggestion);
        return -1;
    }
    if (words->base && fy_map_find(&front->known.handles, words->base)) {
        out->type = FY_T_HANDLE;
        out->handle = words->base;
        return 0;
    }
    out->type = scalar_type(words, words->base);
    if (out->type != FY_T_COUNT) {
        return 0;
    }
    if (words->base && words->longs == 0 && words->shorts == 0 &&
        !words->is_complex && !words->is_signed && !words->is_unsigned) {
        unknown_type(front, words->span, words->base);
    } else {
        fy_diagnostic_hint(
            fy_error(front, words->span, "these words do not make a type"),
            "as in C: 'unsigned long', 'complex double', 'const char'");
    }
    return -1;
}

int
fy_resolve_type(struct fy_front *front, const struct fy_unit *unit,
                const struct ast_names *list, unsigned stars, bool is_reference,
                struct fy_resolved *out)
{
    struct words words = {0};
    bool by_scalar = false; /* <S>: complex rows by reference */
    for (const struct ast_names *n = list; n; n = n->next) {
        const char *text = fy_expand(front, unit, n->name);
        if (!text) {
            return -1;
        }
        if (strncmp(n->name.text, "<S", 2) == 0 &&
            (n->name.text[2] == '>' || n->name.text[2] == ':')) {
            by_scalar = true;
        }
        while (*text != '\0') { /* <T> may be two words */
            size_t length = strcspn(text, " ");
            take_word(front, &words, fy_arena_text(&front->arena, text, length),
                      n->name.span);
            text += length + (text[length] == ' ');
        }
    }
    memset(out, 0, sizeof *out);
    if (words.bad || base_type(front, &words, out)) {
        return -1;
    }
    out->is_const = words.is_const;
    out->is_reference =
        is_reference || (by_scalar && stars == 0 &&
                         (out->type == FY_T_C32 || out->type == FY_T_C64));
    if (stars == 0 && out->layout) {
        fy_diagnostic_hint(
            fy_error(front, words.span,
                     "structs passed by value are not supported"),
            "only 'struct %.*s *' can be annotated", FY_MAX_QUOTED, words.base);
        return -1;
    }
    if (stars > 0) {
        out->pointee = stars > 1 ? (uint8_t)FY_T_POINTER : out->type;
        out->type = FY_T_POINTER;
        if (stars > 1) {
            out->layout = NULL;
        }
    }
    return 0;
}

/* ---- structs ---- */

static void lay_out(struct fy_front *front, struct fy_layout *layout);

/* Size and alignment of one field; -1 after an error. */
static int
field_shape(struct fy_front *front, const struct ast_declaration *field,
            struct fy_layout_field *out, uint64_t *bytes, uint32_t *alignment)
{
    struct fy_resolved type;
    const struct ast_names *words = field->words;
    bool nested = field->stars == 0 && words->next &&
                  strcmp(words->name.text, "struct") == 0;
    if (nested) {
        const struct fy_map_entry *entry =
            fy_map_find(&front->known.structs, words->next->name.text);
        if (entry) {
            struct fy_layout *inner = &front->layouts[entry->value];
            if (inner->state == 1) {
                fy_error(front, words->next->name.span,
                         "struct '%.*s' contains itself", FY_MAX_QUOTED,
                         words->next->name.text);
                return -1;
            }
            if (front->layout_depth >= FY_MAX_STRUCT_DEPTH) {
                fy_error(front, field->span,
                         "structs are nested more than %d deep",
                         FY_MAX_STRUCT_DEPTH);
                return -1;
            }
            front->layout_depth++;
            lay_out(front, inner);
            front->layout_depth--;
            out->type = FY_T_VOID;
            for (size_t i = 0; i < inner->nfields; i++) {
                out->has_pointer |= inner->fields[i].has_pointer;
            }
            *bytes = inner->bytes;
            *alignment = inner->alignment;
            return 0;
        }
    }
    if (fy_resolve_type(front, NULL, words, field->stars, field->is_reference,
                        &type)) {
        return -1;
    }
    if (type.type == FY_T_INTEGER || type.is_reference) {
        fy_diagnostic_hint(fy_error(front, field->span,
                                    "a field must have a C type of one size"),
                           "write int32_t or int64_t");
        return -1;
    }
    *bytes = fy_type_bytes(type.type, 32);
    *alignment = type.type == FY_T_C32   ? 4
                 : type.type == FY_T_C64 ? 8
                                         : (uint32_t)*bytes;
    if (*bytes == 0) {
        fy_error(front, field->span, "a field cannot be void");
        return -1;
    }
    out->type = type.type;
    out->pointee = type.pointee;
    out->has_pointer = type.type == FY_T_POINTER;
    return 0;
}

static void
lay_out(struct fy_front *front, struct fy_layout *layout)
{
    uint64_t offset = 0;
    size_t count = 0;
    if (layout->state) {
        return;
    }
    layout->state = 1;
    layout->alignment = 1;
    for (const struct ast_declaration *f = layout->ast->fields; f;
         f = f->next) {
        count++;
    }
    if (count > FY_MAX_STRUCT_FIELDS) {
        fy_error(front, layout->ast->name.span,
                 "a struct has at most %d fields", FY_MAX_STRUCT_FIELDS);
        count = 0;
    }
    layout->fields =
        fy_arena_array(&front->arena, count, sizeof *layout->fields);
    for (const struct ast_declaration *f = count ? layout->ast->fields : NULL;
         f; f = f->next) {
        struct fy_layout_field *field = &layout->fields[layout->nfields];
        uint64_t bytes;
        uint32_t alignment;
        if (!f->name.text) {
            fy_error(front, f->span, "a field needs a type and a name");
            continue;
        }
        for (size_t i = 0; i < layout->nfields; i++) {
            if (strcmp(layout->fields[i].name, f->name.text) == 0) {
                fy_error(front, f->name.span, "field '%.*s' is declared twice",
                         FY_MAX_QUOTED, f->name.text);
            }
        }
        if (field_shape(front, f, field, &bytes, &alignment)) {
            continue;
        }
        if (f->elements == 0) {
            fy_error(front, f->span, "an array in a struct needs its length");
        }
        offset = (offset + alignment - 1) / alignment * alignment;
        field->name = f->name.text;
        field->offset = (uint32_t)offset;
        field->is_array = f->elements >= 0;
        field->elements = f->elements > 0 ? (uint32_t)f->elements : 1;
        layout->nfields++;
        if (alignment > layout->alignment) {
            layout->alignment = alignment;
        }
        if (__builtin_mul_overflow(
                bytes, (uint64_t)(f->elements > 0 ? f->elements : 1), &bytes) ||
            bytes > FY_MAX_STRUCT_BYTES ||
            offset + bytes > FY_MAX_STRUCT_BYTES) {
            fy_error(front, f->span, "struct '%.*s' is too large",
                     FY_MAX_QUOTED, layout->ast->name.text);
            break;
        }
        offset += bytes;
    }
    layout->bytes = (uint32_t)((offset + layout->alignment - 1) /
                               layout->alignment * layout->alignment);
    layout->state = 2;
}

void
fy_layout_all(struct fy_front *front)
{
    for (size_t i = 0; i < front->known.structs.count; i++) {
        if (front->layouts[i].ast) {
            lay_out(front, &front->layouts[i]);
        }
    }
}

const struct fy_layout_field *
fy_layout_field(const struct fy_unit_arg *arg, const char *name)
{
    const struct fy_layout *layout = arg->resolved.layout;
    for (size_t i = 0; i < layout->nfields; i++) {
        if (strcmp(layout->fields[i].name, name) == 0) {
            return &layout->fields[i];
        }
    }
    return NULL;
}

const char *
fy_layout_text(struct fy_front *front, const struct fy_unit_arg *arg)
{
    const struct fy_layout *layout = arg->resolved.layout;
    const char *text = "";
    for (size_t i = 0; i < layout->nfields; i++) {
        text = fy_arena_print(&front->arena, "%s%u %s\n", text,
                              layout->fields[i].offset, layout->fields[i].name);
    }
    return text;
}
