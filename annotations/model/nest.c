/* SPDX-License-Identifier: Apache-2.0 */
/* Blocked algorithms from text: the grammar is in nest.h. */
#include "config.h"

#include "annotations/model/nest.h"

#include <ctype.h>
#include <string.h>

static void
skip(struct fy_nest_reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
    while (*reader->at == '#') {
        reader->at += strcspn(reader->at, "\n");
        reader->at += strspn(reader->at, " \t\r\n");
    }
}

static bool
expect(struct fy_nest_reader *reader, const char *what)
{
    reader->expected = what;
    return false;
}

static bool
is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* A word, or a mark, when it stands there. */
static bool
take(struct fy_nest_reader *reader, const char *word)
{
    const size_t length = strlen(word);

    skip(reader);
    if (strncmp(reader->at, word, length) != 0 ||
        (is_letter(word[0]) && is_letter(reader->at[length]))) {
        return false;
    }
    reader->at += length;
    return true;
}

static bool
need(struct fy_nest_reader *reader, const char *mark)
{
    return take(reader, mark) || expect(reader, mark);
}

/* A letter that stands alone. */
static bool
take_letter(struct fy_nest_reader *reader, const char *letters,
            const char *what, char *out)
{
    skip(reader);
    *out = *reader->at;
    if (!*out || !strchr(letters, *out) || is_letter(reader->at[1])) {
        return expect(reader, what);
    }
    reader->at++;
    return true;
}

static bool
take_variable(struct fy_nest_reader *reader, char *out)
{
    return take_letter(reader, "ijkelos", "a variable (i j k l o s)", out);
}

static bool
take_matrix(struct fy_nest_reader *reader, char *out)
{
    return take_letter(reader, "ABCD", "a matrix (A B C)", out);
}

unsigned
fy_nest_dimension(char variable)
{
    return variable == 'o' ? 1 : variable == 'l' || variable == 's' ? 2 : 0;
}

/* ---- the head ---- */

static bool
read_sizes(struct fy_nest_reader *reader, struct fy_nest_head *out)
{
    char variable, size;

    do {
        if (!take_variable(reader, &variable) || !need(reader, "<")) {
            return false;
        }
        if (take(reader, "nrhs")) {
            size = 'k';
        } else if (!take_letter(reader, "mnk", "a size (m n k nrhs)", &size)) {
            return false;
        }
        out->extents[fy_nest_dimension(variable)] = size;
    } while (take(reader, ","));
    return true;
}

static bool
read_shapes(struct fy_nest_reader *reader, struct fy_nest_head *out)
{
    do {
        const size_t length = strlen(out->shapes);
        char *to = out->shapes + length;
        if (length + 6 > sizeof(out->shapes)) {
            return expect(reader, "three matrices at most");
        }
        if (length > 0) {
            *to++ = ' ';
        }
        if (!take_matrix(reader, to++)) {
            return false;
        }
        if (take(reader, "'")) {
            *to++ = '\'';
        }
        if (!need(reader, "[") || !take_variable(reader, to++) ||
            !need(reader, ",") || !take_variable(reader, to) ||
            !need(reader, "]")) {
            return false;
        }
    } while (take(reader, ","));
    return true;
}

static bool
read_clause(struct fy_nest_reader *reader, struct fy_nest_head *out)
{
    char matrix;

    if (take(reader, "hermitian")) {
        out->hermitian = true;
        return true;
    }
    if (take(reader, "over")) {
        return read_sizes(reader, out);
    }
    if (take(reader, "tile")) {
        out->tiles = true;
        return need(reader, "B") && need(reader, ",") &&
               need(reader, "identity") && need(reader, "D");
    }
    if (take(reader, "needs")) {
        out->divides = true;
        return need(reader, "regular") && need(reader, "A");
    }
    if (take(reader, "leaves")) {
        out->leaves = FY_NEST_FINITE;
        if (!take(reader, "finite")) {
            out->leaves = FY_NEST_REGULAR;
            return need(reader, "regular") && need(reader, "A");
        }
        return need(reader, "A");
    }
    skip(reader);
    matrix = *reader->at;
    if (matrix < 'A' || matrix > 'C') {
        return expect(reader,
                      "hermitian, over, tile, needs, leaves, matrices or for");
    }
    return read_shapes(reader, out);
}

bool
fy_nest_read_head(struct fy_nest_reader *reader, struct fy_nest_head *out)
{
    memset(out, 0, sizeof(*out));
    for (;;) {
        skip(reader);
        if (strncmp(reader->at, "for", 3) == 0 && !is_letter(reader->at[3])) {
            break;
        }
        if (!read_clause(reader, out) || !need(reader, ";")) {
            return false;
        }
    }
    if (!out->extents[0] || !out->shapes[0]) {
        return expect(reader, "matrices and sizes before the first loop");
    }
    if (!out->extents[1]) {
        out->extents[1] = out->extents[0];
    }
    return true;
}

/* ---- loops ---- */

static bool
read_when(struct fy_nest_reader *reader, char *when, size_t room)
{
    size_t length = 0, word = 0;

    skip(reader);
    while (is_letter(reader->at[word])) {
        word++;
    }
    if (word > 1) { /* the function's name */
        when[0] = '\0';
        return true;
    }
    for (;;) {
        if (!take_variable(reader, &when[length++])) {
            return false;
        }
        if (take(reader, ":")) {
            break;
        }
        if (length + 3 > room) {
            return expect(reader, ":");
        }
        skip(reader);
        if (!*reader->at || !strchr("=!<>", *reader->at)) {
            return expect(reader, "= ! < > or :");
        }
        when[length++] = *reader->at++;
    }
    when[length] = '\0';
    return true;
}

/* A variable, or the rows of a panel. */
static bool
read_rows(struct fy_nest_reader *reader, struct fy_nest_operand *out)
{
    const bool above = take(reader, ":");

    if (!take_variable(reader, &out->row)) {
        return false;
    }
    const bool below = !above && take(reader, "+");
    const bool open = !above && take(reader, ":");
    out->rows = (char)(above ? '^' : below ? 'v' : open ? '>' : '=');
    return !below || open || expect(reader, ":");
}

/* `B', or `C[k]', or `A[i,k]', with what stands before and behind. */
static bool
read_operand(struct fy_nest_reader *reader, struct fy_nest_operand *out)
{
    out->fresh = take(reader, "=");
    out->triangle = (char)(take(reader, "unit")    ? '1'
                           : take(reader, "upper") ? 'U'
                                                   : 0);
    if (!take_matrix(reader, &out->matrix)) {
        return false;
    }
    if (take(reader, "[")) {
        if (!read_rows(reader, out) ||
            (take(reader, ",") && !take_variable(reader, &out->col)) ||
            !need(reader, "]")) {
            return false;
        }
    }
    out->adjoint = take(reader, "'");
    return true;
}

static bool
read_name(struct fy_nest_reader *reader, char *name, size_t room)
{
    size_t length = 0;

    skip(reader);
    while (is_letter(reader->at[length])) {
        length++;
    }
    if (length == 0 || length >= room) {
        return expect(reader, "a function");
    }
    memcpy(name, reader->at, length);
    name[length] = '\0';
    reader->at += length;
    return true;
}

static bool
read_factor(struct fy_nest_reader *reader, char *out)
{
    *out = '+';
    if (take(reader, "-")) {
        *out = '-';
    } else if (take(reader, "0")) {
        *out = '0';
    } else if (take(reader, "alpha")) {
        *out = 'a';
    } else if (take(reader, "conj")) {
        *out = 'c';
        return need(reader, "alpha");
    }
    return true;
}

static bool
read_call(struct fy_nest_reader *reader, struct fy_nest_call *out)
{
    if (!read_when(reader, out->when, sizeof(out->when)) ||
        !read_name(reader, out->name, sizeof(out->name)) ||
        !need(reader, "(") || !read_factor(reader, &out->factor)) {
        return false;
    }
    do {
        if (out->noperands == 3) {
            return expect(reader, ")");
        }
        if (!read_operand(reader, &out->operands[out->noperands++])) {
            return false;
        }
    } while (take(reader, ","));
    return need(reader, ")") && need(reader, ";");
}

static bool
read_body(struct fy_nest_reader *reader, struct fy_nest_body *out)
{
    if (!need(reader, "{")) {
        return false;
    }
    do {
        if (out->ncalls == FY_MAX_NEST_CALLS) {
            return expect(reader, "} behind so many calls");
        }
        if (!read_call(reader, &out->calls[out->ncalls++])) {
            return false;
        }
    } while (!take(reader, "}"));
    return true;
}

bool
fy_nest_read(struct fy_nest_reader *reader, struct fy_nest *out)
{
    bool more;

    memset(out, 0, sizeof(*out));
    if (!need(reader, "for")) {
        return false;
    }
    out->any = take(reader, "any");
    out->each = take(reader, "each");
    if (!take_variable(reader, &out->outer) || !need(reader, ",") ||
        !take_variable(reader, &out->step)) {
        return false;
    }
    if (take(reader, ",")) {
        out->inner = out->step;
        if (!take_variable(reader, &out->step)) {
            return false;
        }
    }
    do {
        struct fy_nest_body *body = &out->bodies[out->nbodies++];
        body->down = take(reader, "down");
        if (!read_body(reader, body)) {
            return false;
        }
        skip(reader);
        more = take(reader, "then") || strncmp(reader->at, "down", 4) == 0;
    } while (more && out->nbodies < 3);
    return true;
}

bool
fy_nest_more(struct fy_nest_reader *reader)
{
    skip(reader);
    return *reader->at != '\0';
}

/* ---- what the text must agree in ---- */

/* Returns the variables of a matrix's rows and columns in the head; or NULL. */
static const char *
shape_of(const struct fy_nest_head *head, char matrix)
{
    const char *shape = strchr(head->shapes, matrix);

    return shape ? shape + (shape[1] == '\'' ? 2 : 1) : NULL;
}

static bool
counts(const struct fy_nest *nest, char variable, char shape)
{
    return (variable == nest->outer || variable == nest->inner ||
            variable == nest->step) &&
           fy_nest_dimension(variable) == fy_nest_dimension(shape);
}

/* Of blocks: what panels have beside it is the pager's own. */
static bool
is_operand(const struct fy_nest_head *head, const struct fy_nest *nest,
           const struct fy_nest_operand *operand)
{
    const char *shape = shape_of(head, operand->matrix);

    if (operand->triangle || (operand->row && operand->rows != '=')) {
        return false;
    }
    if (!shape) {
        return head->tiles && strchr("BD", operand->matrix) && !operand->row;
    }
    return counts(nest, operand->row, shape[0]) &&
           counts(nest, operand->col, shape[1]);
}

static bool
is_call(const struct fy_nest_head *head, const struct fy_nest *nest,
        const struct fy_nest_call *call)
{
    if (call->factor == '0') {
        return false;
    }
    for (const char *when = call->when; *when; when += when[1] ? 2 : 1) {
        if (*when != nest->outer && *when != nest->inner &&
            *when != nest->step) {
            return false;
        }
    }
    for (unsigned i = 0; i < call->noperands; i++) {
        if (!is_operand(head, nest, &call->operands[i])) {
            return false;
        }
    }
    return true;
}

static bool
is_loop(struct fy_nest_reader *reader, const struct fy_nest_head *head,
        const struct fy_nest *nest)
{
    const char column = (char)(nest->outer == 'i' ? nest->inner : nest->outer);

    if (nest->each || nest->nbodies > 2 ||
        (nest->nbodies == 2 && !nest->bodies[1].down) ||
        (nest->outer != 'i' && nest->inner != 'i') || !column ||
        !strchr("jos", column) || !head->extents[fy_nest_dimension(column)]) {
        return expect(reader, "a loop over blocks i and j, o or s");
    }
    if (nest->step != 'k' &&
        !(nest->step == 'l' && nest->any && head->extents[2])) {
        return expect(reader, "a loop with steps k, or any l");
    }
    for (unsigned b = 0; b < nest->nbodies; b++) {
        for (unsigned c = 0; c < nest->bodies[b].ncalls; c++) {
            if (!is_call(head, nest, &nest->bodies[b].calls[c])) {
                return expect(reader, "a loop whose variables count the blocks "
                                      "of the matrices they index");
            }
        }
    }
    return true;
}

bool
fy_nest_check(struct fy_nest_reader *reader)
{
    struct fy_nest_head head;
    struct fy_nest nest;

    if (!fy_nest_read_head(reader, &head)) {
        return false;
    }
    for (const char *shape = head.shapes; *shape; shape++) {
        if (strchr("ijklos", *shape) &&
            !head.extents[fy_nest_dimension(*shape)]) {
            return expect(reader, "the size of each variable's blocks");
        }
    }
    if (head.tiles && (head.extents[2] || strpbrk(head.shapes, "BCo"))) {
        return expect(reader, "A alone beside tiles");
    }
    do {
        const char *begin = reader->at;
        if (!fy_nest_read(reader, &nest)) {
            return false;
        }
        if (!is_loop(reader, &head, &nest)) {
            reader->at = begin;
            return false;
        }
    } while (fy_nest_more(reader));
    return true;
}
