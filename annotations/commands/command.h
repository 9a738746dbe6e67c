/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads, writes and meaning of one invocation of an annotated command.
 * Compiled from the `command' blocks of *.ferry files (ferry- annotations(5));
 * used by the session and, with its own files, by the proxy. Never inside a
 * host program.
 *
 * A compiled set is immutable, a lazy one has a lock: any thread. Nothing here
 * touches the files that an invocation names.
 */
#ifndef FERRY_ANNOTATIONS_COMMANDS_COMMAND_H
#define FERRY_ANNOTATIONS_COMMANDS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/annotations.h"
#include "common/buffer.h"

struct fy_commands; /* a compiled set */

/*
 * As fy_compile(), for the command blocks of the same files (function blocks
 * are checked for syntax only); a folder also means every *.ferry in its
 * sub-folder `commands'. The blocks of one name that a path declares replace
 * those of the paths before it. New in *out, fy_commands_free().
 */
int fy_commands_compile(const char *const *paths, unsigned npaths,
                        const char *library_dir,
                        struct fy_diagnostics *diagnostics,
                        struct fy_commands **out) FY_MUST_CHECK;
/* Compiles only the blocks of one first word ("git") and perhaps some more:
 * in a tenth of the time. Errors elsewhere are not found. */
int fy_commands_compile_word(const char *const *paths, unsigned npaths,
                             const char *library_dir, const char *word,
                             struct fy_diagnostics *diagnostics,
                             struct fy_commands **out) FY_MUST_CHECK;
/*
 * Makes a set whose blocks, those of one folder, are compiled when an
 * invocation first asks for their first word; a block with errors then counts
 * as absent. `names': the result of fy_commands_names() for the whole folder,
 * so that fy_commands_count() knows the names; NULL: it knows none, and any
 * word is looked for. FY_ERR_INVALID: malformed names.
 */
int fy_commands_lazy(const char *folder, const char *library_dir,
                     const char *names, size_t bytes,
                     struct fy_commands **out) FY_MUST_CHECK;
/* Lists the names and their flags, a line each; new in *out, to be freed. */
int fy_commands_names(const struct fy_commands *commands, char **out,
                      size_t *bytes) FY_MUST_CHECK;
int fy_commands_compile_text(const char *name, const char *text, size_t bytes,
                             struct fy_diagnostics *diagnostics,
                             struct fy_commands **out) FY_MUST_CHECK;
/* fy_compile() and fy_commands_compile() at once, for `ferry check'. */
int fy_compile_with_commands(const char *const *paths, unsigned npaths,
                             const char *library_dir,
                             struct fy_diagnostics *diagnostics,
                             struct fy_model **model,
                             struct fy_commands **commands) FY_MUST_CHECK;
/* Frees the set and all that it handed out: names, blocks, texts. NULL: fine. */
void fy_commands_free(struct fy_commands *commands);
/* Prints each block as a canonical text, for people and tests. */
void fy_commands_dump(const struct fy_commands *commands, FILE *to);

/* The distinct first words ("git", not "git status"), sorted by strcmp. */
struct fy_command_name {
    const char *name;
    bool reads_stdin; /* some block may read stdin */
    bool reads_cwd;   /* some block may read the working folder implicitly */
};
/* The number of those names. */
size_t fy_commands_count(const struct fy_commands *commands);
/* Name i, which lives as long as the set; NULL: i is not below the number. */
const struct fy_command_name *
fy_commands_name(const struct fy_commands *commands, size_t i);

enum fy_use_kind {
    FY_USE_FILE,   /* a path: a file, or a folder named as such */
    FY_USE_TREE,   /* a path and everything below it */
    FY_USE_FOLDER, /* becomes the folder for later operands (tar -C, git -C) */
};

/* One path among the arguments; argv[arg] + offset is its text, to the end. */
struct fy_use {
    uint32_t arg;
    uint32_t offset; /* bytes: behind "--file=", "-f" */
    uint8_t access;  /* enum fy_access: in, out, inout */
    uint8_t kind;    /* enum fy_use_kind */
    bool follows;    /* links inside a tree are followed */
    bool is_stdin;  /* the operand is "-" and means stdin (or stdout for out) */
    bool is_listed; /* one of a repeated operand (FILE...) */
};

enum fy_split {
    FY_SPLIT_NONE,
    FY_SPLIT_LINES, /* any newline-aligned ranges of its input, in order */
    FY_SPLIT_FILES, /* some of its operands each, in order */
};

enum fy_merge {
    FY_MERGE_CONCAT,
    FY_MERGE_SUM,  /* lines of numbers (and equal words) are added up */
    FY_MERGE_SORT, /* sort -m with the stage's own flags */
    FY_MERGE_UNIQ, /* the lines at the seams are compared again */
    FY_MERGE_HEAD, /* the command itself, over the parts in order */
    FY_MERGE_TAIL,
};

enum fy_output { /* the estimate */
    FY_OUTPUT_NOTHING,
    FY_OUTPUT_FILTERS, /* at most its input, usually much less */
    FY_OUTPUT_COPIES,  /* about its input */
    FY_OUTPUT_GROWS,   /* more than its input (gunzip) */
    FY_OUTPUT_NAMES,   /* by the number of files, not their bytes */
};

/*
 * A file that must not be there (or, present: one of which must) in the working
 * folder or any above it, up to the mount's root; "~/..." is in the home folder.
 */
struct fy_absent {
    const char *path;
    const char *matching; /* only with a line that this POSIX ERE matches,
                           * whatever the case; NULL: at all */
    bool present;
};

/* The way in which a command writes the working folder, or one above it. */
enum fy_written_how {
    FY_WRITTEN,       /* the path and all below it may be written */
    FY_WRITTEN_MAKES, /* a file that is made below it has a name that none had */
    FY_WRITTEN_KEEPS, /* all below the path stays as it is */
};

struct fy_written {
    const char *path;
    uint8_t how; /* enum fy_written_how; but the first: below one of those */
};

/*
 * Facts of one word or two (fy_trait_words), each a statement of the language. Of a
 * command that runs others, one counts that any of them has; but `changes ...'
 * only if all have it that change something, and those from FY_TRAIT_MAKES_FILES on
 * are the command's alone.
 */
enum fy_trait {
    FY_TRAIT_OWNERS,     /* prints or stores users' and groups' names */
    FY_TRAIT_ATTRIBUTES, /* prints or depends on attributes that a mount may
                          * show otherwise: inode, device, blocks, links,
                          * atime, ctime */
    FY_TRAIT_TERMINAL,   /* looks at the terminal beyond isatty(1) */
    FY_TRAIT_TARGETS,    /* prints or copies where links in its trees lead */
    FY_TRAIT_HANDLES_SIGNALS, /* SIGUSR1 or SIGUSR2, which end other commands */
    FY_TRAIT_SHOWS_MODES, /* prints or goes by modes, types or sizes of files */
    FY_TRAIT_REMOVES_FOLDERS,   /* or names that no word says */
    FY_TRAIT_REPLACES_OPERANDS, /* by files with the owner and mode it sees */
    FY_TRAIT_TAKES_DESCRIPTORS, /* by their numbers, from any variable */
    FY_TRAIT_MAKES_FOLDERS,     /* that lie on the way to its operands */
    FY_TRAIT_CHANGES_MODES,     /* and changes nothing else */
    FY_TRAIT_CHANGES_OPERANDS,  /* by their names, and no name beside them */
    FY_TRAIT_CHANGES_CONTENTS,  /* or makes files; removes and replaces none */
    FY_TRAIT_MAKES_FILES,    /* in the working folder, and removes none there */
    FY_TRAIT_EXCUSES_PIPES,  /* one without a reader is no failure */
    FY_TRAIT_OUTLIVES_PIPES, /* without readers, and SIGPIPE */
    FY_TRAIT_IGNORES_INTERRUPTS,
    FY_TRAIT_STREAMS, /* its stdin may come in other pieces, and through a pipe
                       * where it is a file */
    FY_TRAIT_DRAINS,  /* and is read to its end whenever it succeeds */
    FY_TRAIT_LISTS,   /* prints paths only, each with a NUL behind it: files and
                       * folders, no links, at or below its operands or the
                       * working folder */
    FY_TRAIT_LOADS_PATHS, /* libraries at run time by absolute paths, or none: a
                           * search path changes nothing */
    FY_TRAIT_STATUS_FOUND, /* of split parts: 0 if any part ended by 0, as grep */
    FY_TRAIT_WALKS,        /* reads names and attributes, not contents */
    /* In a block; an invocation has `pure' and `effect'. */
    FY_TRAIT_PURE,
    FY_TRAIT_EFFECT,
    FY_TRAITS
};
extern const char *const fy_trait_words[FY_TRAITS];

/* A command that the invocation runs: find's behind -exec. */
struct fy_run_command {
    const char *command; /* the block's name, the set's */
    char *program; /* "/usr/bin/grep": the file that its name must lead to;
                    * owned */
    bool effect;
};

struct fy_invocation {
    const char *command; /* "grep", "git status": the block's name */
    const char *file;    /* where it is declared */
    uint32_t line;
    struct fy_use *uses; /* in order of argv */
    uint32_t nuses;
    bool reads_stdin; /* reads fd 0 (also through "-") */
    bool pure;        /* may be run twice; writes nothing but stdout */
    bool effect;      /* must never be repeated */
    bool reads_cwd;   /* the working folder, unnamed */
    bool cwd_is_tree; /* and all below the working folder */
    bool cwd_follows; /* and links in it are followed */
    bool writes_cwd;  /* makes or changes files in it, unnamed */
    uint32_t traits;  /* 1 << enum fy_trait */
    bool encoded;     /* some traits were found in words read as bytes, some
                       * beyond ASCII: UTF-8, or one byte a character */
    uint8_t split;    /* enum fy_split */
    const char *split_with; /* FILES: first argument of each part, or NULL */
    uint8_t merge;          /* enum fy_merge */
    uint8_t output;         /* enum fy_output */
    double work;            /* relative seconds a byte; 1: like cat */
    const char *const *configs; /* implicit inputs, "~" and $NAME expanded by
                                 * the caller; NULL-terminated */
    const char *const
        *carries; /* files that the program loads, folders with a slash at the
                               * end; NULL-terminated */
    const struct fy_absent *absents;
    uint32_t nabsents;
    /* If it writes cwd: only these and the files below them; none: anything. */
    const struct fy_written *written;
    uint32_t nwritten;
    /* Environment variables that the command may read, beside those that the C
     * library reads for each program: of all blocks of its first word, so that
     * whoever gets them chooses the same block. A `*' at the end stands for any
     * end. NULL-terminated, the set's. */
    const char *const *variables;
    /* All that is said above of the commands that it runs holds for the whole:
     * their paths are among `uses' and `configs'. */
    struct fy_run_command *runs;
    uint32_t nruns;
    bool fed;     /* their paths come from stdin */
    bool batches; /* how many paths a command gets depends on limits */
    char *key;    /* command and flags without operands, for people */
};

static inline bool
fy_invocation_is(const struct fy_invocation *invocation, enum fy_trait trait)
{
    return (invocation->traits >> trait & 1) != 0;
}

/*
 * Interprets argv (NULL-terminated, argv[0] the name as the program will see
 * it). `name': the basename of the program's path, which the block is chosen
 * by. `environment': the NAME=VALUE strings the program will get, NULL-
 * terminated, for env(NAME) and POSIXLY_CORRECT; NULL: none. 0: *out is
 * filled, fy_invocation_clear() it. FY_ERR_NOENT: no block of that name.
 * FY_ERR_INVALID: no block parses it; FY_ERR_UNSUPPORTED: a block says it must
 * not be offloaded. `why' gets one clause for people. FY_ERR_NOMEM.
 */
int fy_invocation_parse(const struct fy_commands *commands, const char *name,
                        const char *const *argv, const char *const *environment,
                        struct fy_invocation *out,
                        struct fy_buffer *why) FY_MUST_CHECK;
/* As fy_invocation_parse(), for a command that runs locally: a `never' does not count, and
 * commands that it runs are not looked at. */
int fy_invocation_parse_local(const struct fy_commands *commands,
                              const char *name, const char *const *argv,
                              const char *const *environment,
                              struct fy_invocation *out,
                              struct fy_buffer *why) FY_MUST_CHECK;
/* The invocation as text, a statement of the language a line, for people and
 * tests. */
void fy_invocation_dump(const struct fy_invocation *invocation,
                        const char *const *argv, FILE *to);
/* Frees the memory of a parsed invocation and zeroes the structure, which
 * may be zero already. */
void fy_invocation_clear(struct fy_invocation *invocation);
/* Returns true if the command gets a variable ("NAME=VALUE") where it runs
 * elsewhere: one of the invocation's, or of those that the C library reads
 * (locale, time zone). */
bool fy_invocation_wants(const struct fy_invocation *invocation,
                         const char *entry);

#endif
