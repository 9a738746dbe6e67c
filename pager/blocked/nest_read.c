/* SPDX-License-Identifier: Apache-2.0 */
/* Loop nests from text: the grammar is in nest.h. */
#include "config.h"

#include "pager/blocked/nest.h"

#include <string.h>

/* The next character that is no blank. */
static char
next(const char **text)
{
    *text += strspn(*text, " ");
    char found = **text;
    *text += found != '\0';
    return found;
}

static bool
take(const char **text, const char *word)
{
    const size_t length = strlen(word);

    *text += strspn(*text, " ");
    if (strncmp(*text, word, length) != 0) {
        return false;
    }
    *text += length;
    return true;
}

static bool
is_variable(char letter)
{
    return letter && strchr("ijklos", letter);
}

static bool
read_when(const char **text, char *when, size_t room)
{
    size_t length = 0;

    while (!take(text, ":")) {
        const char letter = next(text);
        const bool is_name = length % 2 == 0;
        if (length + 1 == room || !letter ||
            !(is_name ? is_variable(letter) : strchr("=!<>", letter) != NULL)) {
            return false;
        }
        when[length++] = letter;
    }
    when[length] = '\0';
    return length % 2 == 1;
}

/* `B', or `C[k]', or `A[i,k]', with what stands before and behind. */
static bool
read_operand(const char **text, struct fy_nest_operand *out)
{
    out->fresh = take(text, "=");
    out->matrix = next(text);
    bool good = out->matrix >= 'A' && out->matrix <= 'D';

    if (take(text, "[")) {
        out->row = next(text);
        good = good && is_variable(out->row);
        if (take(text, ",")) {
            out->col = next(text);
            good = good && is_variable(out->col);
        }
        good = good && take(text, "]");
    }
    out->adjoint = take(text, "'");
    return good;
}

/* The routine of that name, which the call may be itself. */
static bool
find_routine(const struct fy_algo *algo, const char *name, size_t length,
             uint8_t *out)
{
    const struct fy_algo_row *row = algo->row;

    for (uint8_t i = 0; i + 1 < FY_MAX_ROUTINES && row->using[i]; i++) {
        if (strlen(row->using[i]) == length &&
            memcmp(row->using[i], name, length) == 0) {
            *out = (uint8_t)(i + 1);
            return true;
        }
    }
    *out = FY_SELF;
    return (length == 4 && memcmp(name, "self", 4) == 0) ||
           (strlen(row->name) == length &&
            memcmp(row->name, name, length) == 0);
}

static bool
read_call(const struct fy_algo *algo, const char **text,
          struct fy_nest_call *out)
{
    if (!read_when(text, out->when, sizeof(out->when))) {
        return false;
    }
    *text += strspn(*text, " ");
    const size_t length = strcspn(*text, "( ");
    if (!find_routine(algo, *text, length, &out->routine)) {
        return false;
    }
    *text += length;
    if (!take(text, "(")) {
        return false;
    }
    *text += strspn(*text, " ");
    out->factor = (char)(**text && strchr("-ac", **text) ? next(text) : '+');
    do {
        if (out->noperands == 3 ||
            !read_operand(text, &out->operands[out->noperands++])) {
            return false;
        }
    } while (take(text, ","));
    return take(text, ")") && take(text, ";");
}

static bool
read_body(const struct fy_algo *algo, const char **text,
          struct fy_nest_body *out)
{
    if (!take(text, "{")) {
        return false;
    }
    while (!take(text, "}")) {
        if (out->ncalls == FY_MAX_NEST_CALLS ||
            !read_call(algo, text, &out->calls[out->ncalls++])) {
            return false;
        }
    }
    return out->ncalls > 0;
}

bool
fy_nest_read(const struct fy_algo *algo, const char **text, struct fy_nest *out)
{
    memset(out, 0, sizeof(*out));
    if (!take(text, "for ")) {
        return false;
    }
    out->any = take(text, "any ");
    out->outer = next(text);
    bool good = take(text, ",");
    out->inner = next(text);
    good = good && take(text, ",");
    out->step = next(text);
    if (!good || !is_variable(out->outer) || !is_variable(out->inner) ||
        !is_variable(out->step)) {
        return false;
    }
    do {
        struct fy_nest_body *body = &out->bodies[out->nbodies++];
        body->down = take(text, "down ");
        good = read_body(algo, text, body);
        *text += strspn(*text, " ");
    } while (good && out->nbodies < 2 && strncmp(*text, "down ", 5) == 0);
    return good;
}
