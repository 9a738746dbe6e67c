/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells if a condition of a command block holds for the arguments that were
 * parsed. A doubtful value (a number out of range, a text too long to match)
 * fails the block: nobody guesses.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/commands/model.h"

bool
fy_variable_fits(const char *entry, const char *name)
{
    size_t length = strlen(name);
    if (name[length - 1] == '*') {
        return strncmp(entry, name, length - 1) == 0;
    }
    return strncmp(entry, name, length) == 0 &&
           (entry[length] == '=' || entry[length] == '\0');
}

bool
fy_environment_has(const char *const *environment, const char *name)
{
    for (; environment && *environment; environment++) {
        if (fy_variable_fits(*environment, name)) {
            return true;
        }
    }
    return false;
}

static bool
compare(uint8_t how, int64_t a, int64_t b)
{
    switch (how) {
    case CMD_EQ:
        return a == b;
    case CMD_NE:
        return a != b;
    case CMD_LT:
        return a < b;
    case CMD_LE:
        return a <= b;
    case CMD_GT:
        return a > b;
    default:
        return a >= b;
    }
}

/* A value as a decimal number; false when it is none. */
static bool
number_of(struct fy_parsed *parsed, const char *text, int64_t *out)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "+-0123456789") != strlen(text)) {
        return false;
    }
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno == ERANGE) {
        parsed->failed = true;
    }
    *out = number;
    return *end == '\0';
}

bool
fy_is_symbol(const struct fy_parsed *parsed, const struct fy_given *given)
{
    return parsed->symbol && parsed->argv[given->arg] == parsed->symbol->word;
}

/* The rest of an expression behind its first atom; *out, which is all false: which
 * bytes that atom matches. NULL: it is no character and no plain bracket. */
static const char *
first_atom(const char *at, bool out[256])
{
    bool others = false;
    if (*at == '\\' && at[1] && !isalnum((unsigned char)at[1])) {
        out[(unsigned char)at[1]] = true;
        return at + 2;
    }
    if (*at && !strchr("\\[]().*+?{}|^$", *at)) {
        out[(unsigned char)*at] = true;
        return at + 1;
    }
    if (*at++ != '[') {
        return NULL;
    }
    others = *at == '^';
    at += others;
    for (bool first = true; *at && (*at != ']' || first); first = false) {
        unsigned char from = (unsigned char)*at++, to = from;
        if (from == '[') {
            return NULL; /* a class */
        }
        if (*at == '-' && at[1] && at[1] != ']') {
            to = (unsigned char)at[1];
            at += 2;
        }
        for (unsigned c = from; c <= to; c++) {
            out[c] = true;
        }
    }
    for (unsigned c = 0; c <= UCHAR_MAX && others; c++) {
        out[c] = !out[c];
    }
    return *at ? at + 1 : NULL;
}

/* Returns true if no text that begins with one of `starts' matches the
 * expression: each of its alternatives begins with another character. */
static bool
begins_otherwise(const char *expression, const char *starts)
{
    for (const char *at = expression;;) {
        bool begins[256] = {0};
        const char *rest = *at == '^' ? first_atom(at + 1, begins) : NULL;
        if (!rest || (*rest && strchr("*?{", *rest))) {
            return false;
        }
        for (const char *c = starts; *c; c++) {
            if (begins[(unsigned char)*c]) {
                return false;
            }
        }
        /* The next one; a group or a bracket may hide it. */
        size_t n = strcspn(rest, "|[(\\");
        if (rest[n] != '|') {
            return !strchr(rest, '|');
        }
        at = rest + n + 1;
    }
}

/* False: no path that the symbol may stand for is what the condition asks for. Where
 * that depends on the path, the block fails. */
static bool
symbol_holds(struct fy_parsed *parsed, const struct fy_condition *condition)
{
    const char *starts = parsed->symbol->starts;
    bool never = false;
    if (condition->op == CMD_EQUAL) {
        never = !condition->text[0] || !strchr(starts, condition->text[0]);
    } else if (condition->op == CMD_MATCHES) {
        never = begins_otherwise(condition->text, starts);
        for (const char *c = starts; *c; c++) {
            parsed->encoded = parsed->encoded || (unsigned char)*c >= 0x80;
        }
    }
    parsed->failed = parsed->failed || !never;
    parsed->unknown = parsed->unknown || !never;
    return false;
}

static bool
matches(struct fy_parsed *parsed, const struct fy_condition *condition,
        const char *text)
{
    if (strnlen(text, FY_MAX_MATCHED_BYTES) == FY_MAX_MATCHED_BYTES) {
        parsed->failed = true;
        return false;
    }
    for (const char *at = text; !parsed->encoded && *at; at++) {
        parsed->encoded = (unsigned char)*at >= 0x80;
    }
    int status = regexec(condition->regex, text, 0, NULL, 0);
    if (status != 0 && status != REG_NOMATCH) {
        parsed->failed = true;
    }
    return status == 0;
}

/* Returns true if one value is as the condition asks. */
static bool
value_holds(struct fy_parsed *parsed, const struct fy_condition *condition,
            const struct fy_given *given)
{
    const char *text = parsed->argv[given->arg] + given->offset;
    int64_t number;
    if (fy_is_symbol(parsed, given)) {
        return symbol_holds(parsed, condition);
    }
    switch (condition->op) {
    case CMD_EQUAL:
        return strcmp(text, condition->text) == 0;
    case CMD_VALUE:
        return number_of(parsed, text, &number) &&
               compare(condition->compare, number, condition->number);
    default:
        return matches(parsed, condition, text);
    }
}

/* Any value of any of the condition's slots. */
static bool
any_value(struct fy_parsed *parsed, const struct fy_condition *condition)
{
    const struct fy_block *block = parsed->block;
    const uint16_t *list = block->lists + condition->a;
    for (uint16_t l = 0; l < condition->b; l++) {
        bool is_given = parsed->times[list[l]] > 0;
        for (size_t i = 0; is_given && i < parsed->ngiven; i++) {
            if (parsed->given[i].slot == list[l] &&
                value_holds(parsed, condition, &parsed->given[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if all values match; there may be none. */
static bool
only_such_values(struct fy_parsed *parsed, const struct fy_condition *condition)
{
    const struct fy_block *block = parsed->block;
    const uint16_t *list = block->lists + condition->a;
    for (uint16_t l = 0; l < condition->b; l++) {
        for (size_t i = 0; i < parsed->ngiven; i++) {
            const struct fy_given *given = &parsed->given[i];
            if (given->slot == list[l] && fy_is_symbol(parsed, given)) {
                return symbol_holds(parsed, condition);
            }
            if (given->slot == list[l] &&
                !matches(parsed, condition,
                         parsed->argv[given->arg] + given->offset)) {
                return false;
            }
        }
    }
    return true;
}

/* The first argument that has one of the slots; UINT32_MAX: none has. */
static uint32_t
first_given(const struct fy_parsed *parsed, const uint16_t *slots, uint16_t n)
{
    for (size_t i = 0; i < parsed->ngiven; i++) {
        for (uint16_t s = 0; s < n; s++) {
            if (parsed->given[i].slot == slots[s]) {
                return parsed->given[i].arg;
            }
        }
    }
    return UINT32_MAX;
}

static int64_t
count_given(const struct fy_parsed *parsed,
            const struct fy_condition *condition)
{
    int64_t count = 0;
    for (uint16_t l = 0; l < condition->b; l++) {
        count += parsed->times[parsed->block->lists[condition->a + l]];
    }
    return count;
}

bool
fy_condition_holds(struct fy_parsed *parsed, uint16_t condition)
{
    const struct fy_condition *node = &parsed->block->conditions[condition];
    switch (node->op) {
    case CMD_TRUE:
        return true;
    case CMD_FALSE:
        return false;
    case CMD_NOT:
        return !fy_condition_holds(parsed, node->a);
    case CMD_AND:
        return fy_condition_holds(parsed, node->a) &&
               fy_condition_holds(parsed, node->b);
    case CMD_OR:
        return fy_condition_holds(parsed, node->a) ||
               fy_condition_holds(parsed, node->b);
    case CMD_GIVEN:
        return count_given(parsed, node) > 0;
    case CMD_COUNT:
        return compare(node->compare, count_given(parsed, node), node->number);
    case CMD_ENV:
        return fy_environment_has(parsed->environment, node->text);
    case CMD_BEFORE: {
        const uint16_t *lists = parsed->block->lists;
        return first_given(parsed, lists + node->a, node->b) <
               first_given(parsed, lists + node->c, node->d);
    }
    case CMD_ONLY:
        return only_such_values(parsed, node);
    default:
        return any_value(parsed, node);
    }
}
