/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments against command blocks: the rules of getopt_long(3) as GNU has them,
 * and the styles that differ from it. An argument that a block does not know
 * ends the attempt: the next block is tried, and nothing is ever guessed.
 *
 * Reads argv and the compiled set only; any thread.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "annotations/commands/match.h"

enum {
    SMALL = 64,           /* arguments that need no allocation */
    PENDING = UINT16_MAX, /* the slot of an operand before it has one */
};

bool
fy_match_fail(struct fy_match *match, enum fy_weight weight, const char *text,
              const char *about)
{
    if (match->failure->weight < weight) {
        *match->failure =
            (struct fy_failure){match->entry, text, about, weight};
    }
    return false;
}

static bool
unknown(struct fy_match *match, const char *argument)
{
    return fy_match_fail(match, WEIGHT_PARSE, "is not declared", argument);
}

/* ---- what is given ---- */

static void
give(struct fy_match *match, uint16_t slot, uint32_t arg, size_t offset)
{
    /* One argument gives few things, but `-vvv...' counts: it is no value. An
     * argument of execve(2) has 128 KiB at most, so that an offset has 32 bits. */
    match->given[match->parsed.ngiven++] =
        (struct fy_given){.slot = slot, .arg = arg, .offset = (uint32_t)offset};
    match->times[slot]++;
}

/* Whether `end' (one word, or two) is the last of the arguments up to `at', the
 * first of which is `from'; *out_words: of the command before it. An end that
 * begins with the word for paths leaves that to the command. */
static bool
ends_at(const struct fy_match *match, const struct fy_slot *slot,
        const char *end, uint32_t from, uint32_t at, uint32_t *out_words)
{
    size_t n = strcspn(end, " ");
    bool two = end[n] == ' ';
    if (strcmp(match->argv[at], two ? end + n + 1 : end) != 0) {
        return false;
    }
    if (!two) {
        *out_words = at - from;
        return true;
    }
    bool placed = strlen(slot->place) == n && memcmp(slot->place, end, n) == 0;
    *out_words = at - from - !placed;
    return at > from && strlen(match->argv[at - 1]) == n &&
           memcmp(match->argv[at - 1], end, n) == 0;
}

/* The words of a command that the option runs, up to the first of its ends. */
static bool
give_run(struct fy_match *match, uint16_t index, const char *option)
{
    const struct fy_slot *slot = &match->block->slots[index];
    uint32_t from = match->next, words;
    for (uint32_t at = from; at < match->argc; at++) {
        for (uint16_t e = 0; e < FY_MAX_ENDS && slot->until[e]; e++) {
            if (!ends_at(match, slot, slot->until[e], from, at, &words)) {
                continue;
            }
            if (words == 0) {
                return fy_match_fail(match, WEIGHT_PARSE, "names no command",
                                     option);
            }
            match->next = at + 1;
            give(match, index, from, 0);
            match->given[match->parsed.ngiven - 1].words = words;
            match->given[match->parsed.ngiven - 1].end = e;
            return true;
        }
    }
    return fy_match_fail(match, WEIGHT_PARSE, "has no end", option);
}

static bool
give_next(struct fy_match *match, uint16_t slot, const char *option)
{
    if (match->next >= match->argc) {
        return fy_match_fail(match, WEIGHT_PARSE, "needs a value", option);
    }
    give(match, slot, match->next++, 0);
    return true;
}

/* The second and later values of an option. */
static bool
give_more(struct fy_match *match, uint16_t slot, const char *option)
{
    for (uint16_t more = match->block->slots[slot].next; more != 0;
         more = match->block->slots[more].next) {
        if (!give_next(match, more, option)) {
            return false;
        }
    }
    return true;
}

/*
 * A spelling was met in argument `arg'; `attached' is the offset of a value
 * behind it, 0: none.
 */
static bool
take(struct fy_match *match, const struct fy_form *form, uint32_t arg,
     size_t attached)
{
    const char *option = match->argv[arg];
    switch (form->argument) {
    case CMD_ARGUMENT_NONE:
        if (attached) {
            return fy_match_fail(match, WEIGHT_PARSE, "takes no value", option);
        }
        if (match->block->own.is_words) {
            give(match, form->slot, arg, 0); /* where it stands may matter */
        } else {
            match->times[form->slot]++;
        }
        return true;
    case CMD_ARGUMENT_NEXT:
        if (match->block->slots[form->slot].is_run) {
            return attached ? fy_match_fail(match, WEIGHT_PARSE,
                                            "takes no value", option)
                            : give_run(match, form->slot, option);
        }
        if (attached) {
            give(match, form->slot, arg, attached);
        } else if (!give_next(match, form->slot, option)) {
            return false;
        }
        return give_more(match, form->slot, option);
    default:
        if (attached) {
            give(match, form->slot, arg, attached);
        } else {
            match->times[form->slot]++;
        }
        return give_more(match, form->slot, option);
    }
}

/* ---- looking up spellings ---- */

/* strcmp() of a form with `bytes' bytes at `text'. */
static int
compare_form(const struct fy_form *form, const char *text, size_t bytes)
{
    size_t n = form->bytes < bytes ? form->bytes : bytes;
    int order = memcmp(form->text, text, n);
    return order != 0 ? order : (form->bytes > bytes) - (form->bytes < bytes);
}

/* The first of the sorted forms that is not before the text. */
static unsigned
lower_bound(const struct fy_form *forms, unsigned count, const char *text,
            size_t bytes)
{
    unsigned low = 0, high = count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (compare_form(&forms[middle], text, bytes) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct fy_form *
find_exact(const struct fy_form *forms, unsigned count, const char *text,
           size_t bytes)
{
    unsigned i = lower_bound(forms, count, text, bytes);
    return i < count && compare_form(&forms[i], text, bytes) == 0 ? &forms[i]
                                                                  : NULL;
}

static bool
is_prefix(const struct fy_form *form, const char *text, size_t bytes)
{
    return form->bytes >= bytes && memcmp(form->text, text, bytes) == 0;
}

/* Exact, or an abbreviation that fits one flag only. */
static const struct fy_form *
find_long(struct fy_match *match, const struct fy_forms *forms,
          const char *text, size_t bytes)
{
    unsigned i = lower_bound(forms->longs, forms->nlongs, text, bytes);
    if (i >= forms->nlongs || !is_prefix(&forms->longs[i], text, bytes)) {
        (void)unknown(match, text - 2);
        return NULL;
    }
    const struct fy_form *found = &forms->longs[i];
    for (unsigned j = i + 1; found->bytes != bytes && j < forms->nlongs &&
                             is_prefix(&forms->longs[j], text, bytes);
         j++) {
        if (forms->longs[j].slot != found->slot ||
            forms->longs[j].argument != found->argument) {
            (void)fy_match_fail(match, WEIGHT_PARSE, "is ambiguous", text - 2);
            return NULL;
        }
    }
    return found;
}

/* ---- one argument ---- */

static bool
take_long(struct fy_match *match, const struct fy_forms *forms, uint32_t arg)
{
    const char *text = match->argv[arg] + 2;
    size_t bytes = strcspn(text, "=");
    const struct fy_form *form = find_long(match, forms, text, bytes);
    return form &&
           take(match, form, arg, text[bytes] == '=' ? 2 + bytes + 1 : 0);
}

static bool
take_cluster(struct fy_match *match, const struct fy_forms *forms, uint32_t arg)
{
    const char *text = match->argv[arg];
    for (size_t i = 1; text[i] != '\0'; i++) {
        uint16_t index = forms->shorts[(unsigned char)text[i]];
        if (index == 0) {
            return unknown(match, text);
        }
        const struct fy_form *form = &forms->all[index - 1];
        if (form->argument != CMD_ARGUMENT_NONE) {
            return take(match, form, arg, text[i + 1] != '\0' ? i + 1 : 0);
        }
        match->times[form->slot]++;
    }
    return true;
}

static bool
take_number(struct fy_match *match, const struct fy_forms *forms, uint32_t arg)
{
    const char *text = match->argv[arg];
    if (forms->number == 0 || forms->shorts[(unsigned char)text[1]] != 0 ||
        text[1 + strspn(text + 1, "0123456789")] != '\0') {
        return false;
    }
    give(match, (uint16_t)(forms->number - 1), arg, 1);
    return true;
}

/* -name[=X] and -name[X] of `style words'; NULL: none. */
static const struct fy_form *
find_bracketed(const struct fy_forms *forms, const char *text, size_t *attached)
{
    const struct fy_form *best = NULL;
    for (unsigned i = 0; forms->has_brackets && i < forms->nwords; i++) {
        const struct fy_form *form = &forms->words[i];
        bool equals = form->argument == CMD_ARGUMENT_EQUALS;
        if ((!equals && form->argument != CMD_ARGUMENT_ATTACHED) ||
            strncmp(text, form->text, form->bytes) != 0 ||
            (equals && text[form->bytes] != '=')) {
            continue;
        }
        if (!best || form->bytes > best->bytes) {
            best = form;
            *attached = form->bytes + (equals ? 1 : 0);
        }
    }
    return best;
}

static const struct fy_form *
find_assignment(const struct fy_forms *forms, const char *text,
                size_t *attached)
{
    *attached = strcspn(text, "=") + 1;
    return text[*attached - 1] == '='
               ? find_exact(forms->assign, forms->nassign, text, *attached)
               : NULL;
}

static void
take_operand(struct fy_match *match, uint32_t arg)
{
    match->given[match->parsed.ngiven++] =
        (struct fy_given){.slot = PENDING, .arg = arg};
}

/* The letters of `tar czf': values follow in their order. */
static bool
take_bundle(struct fy_match *match)
{
    uint32_t arg = match->next++;
    const char *text = match->argv[arg];
    for (; *text != '\0'; text++) {
        uint16_t index = match->block->own.shorts[(unsigned char)*text];
        if (index == 0) {
            return unknown(match, match->argv[arg]);
        }
        const struct fy_form *form = &match->block->own.all[index - 1];
        /* A value that may only be attached cannot be given here. */
        if (!take(match, form, arg, 0)) {
            return false;
        }
    }
    return true;
}

static bool
is_option_like(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0';
}

/* What begins with a dash, or is a word of the command's language. */
enum taken {
    TAKEN,
    FAILED,
    OPERAND_MET
};

static enum taken
take_argument(struct fy_match *match, const struct fy_forms *forms)
{
    const char *text = match->argv[match->next];
    size_t attached = 0;
    const struct fy_form *form = NULL;
    if (forms->nwords) {
        form = find_exact(forms->words, forms->nwords, text, strlen(text));
        if (!form) {
            form = find_bracketed(forms, text, &attached);
        }
    }
    if (!form && forms->nassign) {
        form = find_assignment(forms, text, &attached);
    }
    if (form) {
        return take(match, form, match->next++,
                    form->is_assignment || attached ? attached : 0)
                   ? TAKEN
                   : FAILED;
    }
    if (forms->has_plus && text[0] == '+') {
        (void)unknown(match, text);
        return FAILED;
    }
    if (!is_option_like(text)) {
        return OPERAND_MET;
    }
    if (take_number(match, forms, match->next)) {
        match->next++;
        return TAKEN;
    }
    match->next++;
    return (text[1] == '-' ? take_long(match, forms, match->next - 1)
                           : take_cluster(match, forms, match->next - 1))
               ? TAKEN
               : FAILED;
}

static bool
is_end_of_options(const struct fy_forms *forms, const char *text)
{
    return !forms->is_words && strcmp(text, "--") == 0;
}

/* ---- all arguments ---- */

/* The options before a sub-command, and its words. */
static bool
take_sub_command(struct fy_match *match)
{
    const struct fy_entry *entry = match->entry;
    enum taken taken = OPERAND_MET;
    while (match->block->common && match->next < match->argc &&
           !is_end_of_options(match->block->common, match->argv[match->next])) {
        taken = take_argument(match, match->block->common);
        if (taken != TAKEN) {
            break;
        }
    }
    if (taken == FAILED) {
        return false;
    }
    for (unsigned w = 1; w < entry->nwords; w++, match->next++) {
        if (match->next >= match->argc ||
            strcmp(match->argv[match->next], entry->words[w]) != 0) {
            return fy_match_fail(
                match, WEIGHT_WORDS, "is another sub-command",
                match->next < match->argc ? match->argv[match->next] : NULL);
        }
    }
    return true;
}

/*
 * No options any more. Sub-commands have parsers of their own, and not all of
 * them look at POSIXLY_CORRECT: what they would make of an option is not known.
 */
static bool
take_operands_in_order(struct fy_match *match)
{
    while (match->next < match->argc) {
        const char *text = match->argv[match->next];
        if (match->entry->nwords > 1 && !match->block->is_first &&
            is_option_like(text)) {
            return fy_match_fail(
                match, WEIGHT_PARSE,
                "is behind an operand, and POSIXLY_CORRECT is set", text);
        }
        take_operand(match, match->next++);
    }
    return true;
}

static bool
take_arguments(struct fy_match *match)
{
    const struct fy_forms *forms = &match->block->own;
    bool in_order = match->block->is_first;
    bool asked = in_order; /* POSIXLY_CORRECT is known */
    if (match->block->is_bundle && match->next < match->argc &&
        match->argv[match->next][0] != '-' && !take_bundle(match)) {
        return false;
    }
    while (match->next < match->argc) {
        const char *text = match->argv[match->next];
        if (is_end_of_options(forms, text)) {
            match->next++;
            break;
        }
        enum taken taken = take_argument(match, forms);
        if (taken == FAILED) {
            return false;
        }
        if (taken == OPERAND_MET) {
            if (!asked) {
                asked = true;
                in_order =
                    fy_environment_has(match->environment, "POSIXLY_CORRECT") &&
                    !forms->is_words;
            }
            if (in_order) {
                return take_operands_in_order(match);
            }
            take_operand(match, match->next++);
        }
    }
    while (match->next < match->argc) {
        take_operand(match, match->next++);
    }
    return true;
}

/* ---- operands ---- */

/* Gives the operands their slots. */
static bool
place_operands(struct fy_match *match)
{
    const struct fy_block *block = match->block;
    uint16_t present[FY_MAX_OPERAND_SPECS];
    size_t npresent = 0, needed = 0, optional = 0, have = 0;
    bool repeated = false;
    for (unsigned i = 0; i < block->noperands; i++) {
        const struct fy_slot *slot = &block->slots[block->operands[i]];
        if (!fy_condition_holds(&match->parsed, slot->present)) {
            continue;
        }
        if (slot->is_repeated && repeated) {
            return fy_match_fail(match, WEIGHT_PARSE,
                                 "several of its operands are repeated", NULL);
        }
        present[npresent++] = block->operands[i];
        repeated = repeated || slot->is_repeated;
        optional += slot->is_optional;
        needed += !slot->is_optional && !slot->is_repeated;
    }
    for (size_t i = 0; i < match->parsed.ngiven; i++) {
        have += match->given[i].slot == PENDING;
    }
    if (have < needed) {
        return fy_match_fail(match, WEIGHT_PARSE, "an operand is missing",
                             NULL);
    }
    size_t extra = have - needed;
    size_t given = extra < optional ? extra : optional; /* optional ones */
    size_t rest = extra - given;
    if (rest > 0 && !repeated) {
        return fy_match_fail(match, WEIGHT_PARSE, "there are too many operands",
                             NULL);
    }
    size_t next = 0; /* of what is given */
    for (size_t i = 0; i < npresent; i++) {
        const struct fy_slot *slot = &block->slots[present[i]];
        size_t takes = slot->is_repeated ? rest : 1;
        if (slot->is_optional) {
            takes = given > 0;
            given -= takes;
        }
        for (; takes > 0 && next < match->parsed.ngiven; next++) {
            if (match->given[next].slot == PENDING) {
                match->given[next].slot = present[i];
                match->times[present[i]]++;
                takes--;
            }
        }
    }
    return true;
}

bool
fy_match_arguments(struct fy_match *match)
{
    return (match->entry->nwords == 1 || take_sub_command(match)) &&
           take_arguments(match) && place_operands(match);
}
