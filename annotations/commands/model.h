/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled command blocks, made by check.c and read by the argv parser
 * (match.c), the conditions (condition.c) and the dump. All of it lies in the
 * set's arena and never changes.
 */
#ifndef FERRY_ANNOTATIONS_COMMANDS_MODEL_H
#define FERRY_ANNOTATIONS_COMMANDS_MODEL_H

#include <regex.h>

#include "annotations/base/arena.h"
#include "annotations/commands/ast.h"
#include "annotations/commands/command.h"

enum {
    FY_MAX_SLOTS = 1000, /* flags, values and operands of one block */
    FY_MAX_FORMS = 2000, /* spellings of one block */
    FY_MAX_OPERAND_SPECS = 64,
    FY_MAX_CONDITIONS = 8000, /* nodes of one block */
    FY_MAX_CONDITION_DEPTH = 200,
    FY_MAX_RULES = 200, /* of one kind in one block */
    FY_MAX_ARGUMENTS = 1 << 22,
    FY_MAX_MATCHED_BYTES = 1 << 16, /* of one value, by matches() */
    FY_MAX_WORDS = 8,               /* of one name */
    FY_MAX_ENDS = 2,                /* of one command that is run */
    FY_MAX_BLOCKS = 20000,
};

/* Indexes of condition nodes that every block has. */
enum {
    FY_ALWAYS,
    FY_NEVER
};

struct fy_condition {
    uint8_t op, compare; /* enum cmd_op, enum cmd_compare */
    uint16_t a, b;       /* nodes; slots a .. a + b - 1 of `lists' */
    uint16_t c, d;       /* of CMD_BEFORE: likewise, of its second name */
    int64_t number;
    const char *name; /* name of the flag, option or variable, as written */
    const char *text; /* text to compare with; the variable of ENV */
    const regex_t *regex;
};

enum fy_slot_kind {
    FY_SLOT_FLAG,
    FY_SLOT_VALUE, /* of an option */
    FY_SLOT_NUMBER,
    FY_SLOT_OPERAND,
};

/* Something that can be given: a flag, a value of an option, an operand. */
struct fy_slot {
    const char *name; /* of the value; NULL for flags */
    const char *key;  /* its first spelling; NULL for operands, later values */
    struct fy_span span;
    uint16_t next;  /* the option's next value; 0: none */
    uint8_t kind;   /* enum fy_slot_kind */
    uint8_t access; /* enum fy_access */
    bool is_path, is_folder, is_dash, is_optional, is_repeated, is_common;
    bool is_run;                     /* a command line that it runs */
    uint16_t tree, follows, present; /* conditions */
    const char *place; /* of a run: the word for a path; NULL: its end */
    const char *until[FY_MAX_ENDS]; /* of an option's: one or two words each */
};

struct fy_form { /* a spelling */
    const char *text;
    uint32_t bytes; /* of text */
    uint16_t slot;
    uint8_t argument; /* enum cmd_argument */
    bool is_assignment;
    const char *value; /* of its brackets, or NULL */
};

/* The spellings that one pass over the arguments knows. */
struct fy_forms {
    uint16_t shorts[256];   /* by character: index + 1; 0: none */
    struct fy_form *all;    /* as declared, for the dump and `shorts' */
    struct fy_form *longs;  /* behind "--", sorted */
    struct fy_form *words;  /* whole arguments, sorted */
    struct fy_form *assign; /* with their '=', sorted */
    unsigned nall, nlongs, nwords, nassign;
    bool is_words;     /* `style words' */
    bool has_brackets; /* words with [=X] or [X] */
    bool has_plus;     /* words that begin with + */
    uint16_t number;   /* slot + 1; 0: none */
};

struct fy_rule { /* the first that holds counts */
    uint16_t when;
    uint8_t word;
    double number;
    const char *text;
    const char *matching; /* of `absent' and `present' */
};

struct fy_rules {
    struct fy_rule *items;
    unsigned count;
};

struct fy_block {
    const char *file, *doc;
    uint32_t line;
    bool is_bundle, is_first; /* style */
    struct fy_forms own;
    struct fy_forms *common; /* options before the sub-command; NULL: none */
    struct fy_slot *slots;
    struct fy_condition *conditions;
    uint16_t *lists;
    uint16_t *operands; /* slots, in order */
    uint16_t *keys;     /* slots with a key, sorted by it */
    unsigned nslots, noperands, nkeys;
    uint16_t reads_stdin, reads_cwd, cwd_is_tree, writes_cwd;
    uint16_t traits[FY_TRAITS];
    struct fy_rules requires, nevers, configs, carries, splits, merges, outputs,
        works;
    struct fy_rules absents;   /* word 1: `present' */
    struct fy_rules written;   /* of the working folder; word: enum
                               * fy_written_how */
    struct fy_rules variables; /* names; a `*' at the end: any that begin so */
};

struct fy_entry {                    /* a block under one of its names */
    const char *name;                /* "git status" */
    const char *words[FY_MAX_WORDS]; /* [0] is "git" */
    unsigned nwords;
    const struct fy_block *block;
    struct fy_span span; /* while compiling */
    size_t order;
};

struct fy_command { /* a first word */
    struct fy_command_name name;
    const struct fy_entry *entries;
    size_t nentries;
    const char **variables; /* of all its blocks; NULL-terminated */
};

struct fy_commands {
    struct fy_arena arena;
    struct fy_command *commands; /* sorted by name */
    size_t ncommands;
    struct fy_entry *entries;
    size_t nentries;
    regex_t **regexes;
    size_t nregexes, regexes_capacity;
    struct fy_map regex_texts; /* while compiling: text to index */
    struct fy_lazy *lazy;      /* blocks are compiled when asked for; or NULL */
};

/* The set that has the blocks of a first word: `set' itself unless it is lazy.
 * FY_ERR_NOENT: none has; others: they cannot be compiled. */
int fy_commands_of_word(const struct fy_commands *set, const char *word,
                        const struct fy_commands **out) FY_MUST_CHECK;
void fy_lazy_free(struct fy_lazy *lazy);

/* Something given: a flag, or the text at argv[arg] + offset. */
struct fy_given {
    uint16_t slot;
    uint16_t end; /* of a run: its `until' */
    uint32_t arg, offset;
    uint32_t words; /* of a run: so many, from `arg' on; else 0 */
};

/*
 * A word of a command that another command runs, which stands for paths:
 * recognised by its address. `starts' has their first characters.
 */
struct fy_path_symbol {
    const char *word;
    const char *starts;
};

/* The arguments, as one block sees them. */
struct fy_parsed {
    const struct fy_block *block;
    const char *const *argv;
    const char *const *environment;
    const uint32_t *times;               /* by slot: how often it is given */
    const struct fy_path_symbol *symbol; /* NULL: every word is known */
    const struct fy_given *given;
    size_t ngiven;
    bool failed;  /* a condition could not be evaluated */
    bool unknown; /* ... because it asks about a symbol */
    bool encoded; /* an expression read a value with bytes beyond ASCII */
};

/* Returns true if it stands for paths that are not known. */
bool fy_is_symbol(const struct fy_parsed *parsed, const struct fy_given *given);
/* Returns true if a condition holds. */
bool fy_condition_holds(struct fy_parsed *parsed, uint16_t condition);
/* Returns true if a variable, NAME or NAME=VALUE, is that of a name in a
 * block, which is not empty; "X*": any that begins so. */
bool fy_variable_fits(const char *entry, const char *name);
/* Returns true if an environment has such a variable. NULL: an empty
 * environment. */
bool fy_environment_has(const char *const *environment, const char *name);

/* The words of `split', `merge' and `stdout', in the order of their enums. */
extern const char *const fy_split_words[];
extern const char *const fy_merge_words[];
extern const char *const fy_output_words[];
extern const char *const fy_written_words[]; /* by enum fy_written_how */

#endif
