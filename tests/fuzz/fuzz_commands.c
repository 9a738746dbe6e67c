/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the compiler of command blocks texts that nobody would write, and the
 * sets that come out arguments that nobody would give. Every text must end in a
 * set or a diagnostic, every command line in a result that stays inside argv or
 * a reason.
 *
 * Standing alone it mutates the shipped blocks (or the files named on the
 * command line), from a fixed seed (FERRY_FUZZ_SEED) for a fixed time
 * (FERRY_FUZZ_SECONDS, 10), and prints TAP. Compiled with -DFY_LIBFUZZER it is
 * a libFuzzer target: text, a NUL, arguments ended by NULs.
 */
#include "config.h"

#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "annotations/commands/command.h"

enum {
    MAX_SEEDS = 64,
    MAX_INPUT = 24 * 1024,
    MAX_ARGUMENTS = 40,
    ARGV_ROUNDS = 40, /* command lines for each name of a set */
    SLOW_SECONDS = 20
};

static FILE *nowhere;

static void __attribute__((noreturn)) wrong(const char *what)
{
    fprintf(stderr, "# %s\n", what);
    abort();
}

/* The compiled set, NULL after a diagnostic. */
static struct fy_commands *
try_text(const char *text, size_t bytes)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    char *copy = malloc(bytes + 1); /* exactly as large: ASan watches */
    if (!diagnostics || !copy) {
        exit(1);
    }
    memcpy(copy, text, bytes);
    int status =
        fy_commands_compile_text("fuzz", copy, bytes, diagnostics, &commands);
    fy_diagnostics_print(diagnostics, nowhere);
    if ((status == FY_OK) != (commands != NULL) ||
        (status == FY_OK) != (fy_diagnostics_errors(diagnostics) == 0)) {
        wrong("status and diagnostics disagree");
    }
    if (commands) {
        fy_commands_dump(commands, nowhere);
        for (size_t i = 1; i < fy_commands_count(commands); i++) {
            if (strcmp(fy_commands_name(commands, i - 1)->name,
                       fy_commands_name(commands, i)->name) >= 0) {
                wrong("names are not sorted");
            }
        }
    }
    free(copy);
    fy_diagnostics_free(diagnostics);
    return commands;
}

static void
check_invocation(const struct fy_invocation *invocation,
                 const char *const *argv, uint32_t argc)
{
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->arg == 0 || use->arg >= argc ||
            use->offset > strlen(argv[use->arg]) ||
            (i > 0 && use->arg <= use[-1].arg)) {
            wrong("a use outside of argv, or out of order");
        }
        if ((use->access & ~3) != 0 || use->access == 0 ||
            use->kind > FY_USE_FOLDER) {
            wrong("a use without a meaning");
        }
        if ((use->access & FY_ACCESS_OUT) && !use->is_stdin &&
            !invocation->effect) {
            wrong("something is written and may be repeated");
        }
    }
    if (invocation->pure == invocation->effect ||
        (invocation->split != FY_SPLIT_NONE && !invocation->pure) ||
        !(invocation->work > 0)) {
        wrong("neither pure nor an effect, or split while it is one");
    }
    fy_invocation_dump(invocation, argv, nowhere);
}

/* Returns whether some block parsed it. */
static bool
try_argv(const struct fy_commands *commands, const char *name,
         const char *const *argv, const char *const *environment)
{
    struct fy_invocation invocation;
    char text[64];
    struct fy_buffer why;
    uint32_t argc = 0;
    fy_buffer_start(&why, text, sizeof text);
    while (argv[argc]) {
        argc++;
    }
    int status = fy_invocation_parse(commands, name, argv, environment,
                                     &invocation, &why);
    switch (status) {
    case FY_OK:
        check_invocation(&invocation, argv, argc);
        fy_invocation_clear(&invocation);
        return true;
    case FY_ERR_NOENT:
    case FY_ERR_INVALID:
    case FY_ERR_UNSUPPORTED:
        if (why.used == 0) {
            wrong("no reason");
        }
        return false;
    default:
        wrong("a status that should not be");
    }
}

#ifdef FY_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    const char *argv[MAX_ARGUMENTS + 1] = {NULL};
    const char *text = (const char *)bytes;
    size_t length = strnlen(text, nbytes), at = length + 1, n = 0;
    char *copy = malloc(nbytes + 1);
    if (!nowhere) {
        nowhere = fopen("/dev/null", "w");
    }
    if (!copy || !nowhere) {
        exit(1);
    }
    memcpy(copy, bytes, nbytes);
    copy[nbytes] = '\0';
    struct fy_commands *commands = try_text(text, length);
    for (; at < nbytes && n < MAX_ARGUMENTS; at += strlen(copy + at) + 1) {
        argv[n++] = copy + at;
    }
    for (size_t i = 0; commands && i < fy_commands_count(commands); i++) {
        (void)try_argv(commands, fy_commands_name(commands, i)->name, argv,
                       NULL);
    }
    fy_commands_free(commands);
    free(copy);
    return 0;
}
#else

static uint64_t state;

static uint32_t
below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

struct seed {
    char *text;
    size_t bytes;
};

static struct seed seeds[MAX_SEEDS];
static unsigned nseeds;

static const char *const words[] = {
    "command",  "common",  "{",        "}",        ";",          ",",
    "flag",     "option",  "operand",  "number",   "-x",         "--long",
    "-NUM",     "-word",   "FILE",     "NAME",     "...",        "?",
    "[=X]",     "[X]",     "in",       "out",      "inout",      "tree",
    "folder",   "follows", "dash",     "when",     "unless",     "(",
    ")",        "!",       "&&",       "||",       "==",         "!=",
    "<",        "> 3",     "count(",   "value(",   "matches(",   "only(",
    "env(",     "true",    "false",    "\"text\"", "\"(a|b)*\"", "\"[\"",
    "stdin",    "stdout",  "filters",  "require",  "never",      "reads",
    "cwd",      "writes",  "work",     "owners",   "terminal",   "pure",
    "effect",   "split",   "lines",    "files",    "merge",      "concat",
    "sum",      "style",   "words",    "bundle",   "first",      "assign",
    "absent",   "present", "matching", "status",   "found",      "attributes",
    "if=",      "\"--\"",  "\"\"",     "#",        "\n",         "\"",
    "99999999", "1.5",     "function", "import",   "+x",         "-",
};

/* A piece of a seed of whole blocks, changed a little. */
static size_t
mutate(char *out)
{
    const struct seed *seed = &seeds[below(nseeds)];
    size_t want = 200 + below(8000), used;
    size_t begin =
        seed->bytes > want ? below((uint32_t)(seed->bytes - want)) : 0;
    while (begin > 0 && (seed->text[begin - 1] != '\n' ||
                         strncmp(seed->text + begin, "comm", 4) != 0)) {
        begin--;
    }
    used = seed->bytes - begin < want ? seed->bytes - begin : want;
    while (used > 2 && below(16) != 0 &&
           memcmp(seed->text + begin + used - 2, "}\n", 2) != 0) {
        used--;
    }
    memcpy(out, seed->text + begin, used);
    for (unsigned n = below(2) ? below(4) : below(24); n > 0 && used > 8; n--) {
        size_t at = below((uint32_t)used), length = 1 + below(24);
        const char *word = words[below(sizeof words / sizeof words[0])];
        if (length > used - at) {
            length = used - at;
        }
        switch (below(5)) {
        case 0:
            out[at] = (char)below(256);
            break;
        case 1:
            memmove(out + at, out + at + length, used - at - length);
            used -= length;
            break;
        case 2: /* a piece twice */
            if (used + length < MAX_INPUT) {
                memmove(out + at + length, out + at, used - at);
                used += length;
            }
            break;
        case 3: { /* a word in the place of one */
            size_t bytes = strlen(word);
            size_t gone = strcspn(out + at, " \n;");
            if (gone > used - at) {
                gone = used - at;
            }
            if (used - gone + bytes < MAX_INPUT) {
                memmove(out + at + bytes, out + at + gone, used - at - gone);
                memcpy(out + at, word, bytes);
                used += bytes - gone;
            }
            break;
        }
        default:
            if (below(8) == 0) {
                used = at;
            }
        }
        out[used] = '\0';
    }
    return used;
}

/* A word of the text: most often a flag or a name of it. */
static void
pick(const char *text, size_t bytes, char out[64])
{
    size_t at = below((uint32_t)bytes), length;
    if (below(3)) { /* the next flag */
        while (at < bytes && (text[at] != '-' || text[at - (at > 0)] == '-')) {
            at++;
        }
    }
    length = 0;
    while (at + length < bytes && length < 40 &&
           !strchr(" ,;[]()\n", text[at + length])) {
        length++;
    }
    memcpy(out, text + at, length);
    out[length] = '\0';
    switch (below(8)) {
    case 0:
        strcpy(out + length, "=5");
        break;
    case 1:
        strcpy(out + length, "x/y");
        break;
    case 2: /* abbreviated */
        out[length / 2 + 1] = '\0';
        break;
    case 3:
        strcpy(out, below(2) ? "-" : below(2) ? "--" : "");
        break;
    case 4:
        (void)sprintf(out, "-%u", below(300));
        break;
    case 5:
        out[below((uint32_t)length + 1)] = (char)(1 + below(255));
        out[length + 1] = '\0';
        break;
    default:
        break;
    }
}

static unsigned long
try_command_lines(const struct fy_commands *commands, const char *text,
                  size_t bytes)
{
    static const char *const environment[] = {"A=1", "GIT_DIR=/x",
                                              "POSIXLY_CORRECT=", NULL};
    unsigned long parsed = 0;
    size_t count = fy_commands_count(commands);
    for (unsigned round = 0; round < ARGV_ROUNDS && count > 0; round++) {
        char arguments[MAX_ARGUMENTS][64];
        const char *argv[MAX_ARGUMENTS + 1];
        const char *name =
            fy_commands_name(commands, below((uint32_t)count))->name;
        unsigned argc = 1 + below(below(4) ? 5 : MAX_ARGUMENTS);
        for (unsigned i = 1; i < argc; i++) {
            pick(text, bytes, arguments[i]);
            argv[i] = arguments[i];
        }
        argv[0] = name;
        argv[argc] = NULL;
        parsed += try_argv(commands, name, argv, environment + below(4));
    }
    return parsed;
}

static void
add_seed(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct seed *seed = &seeds[nseeds];
    if (!file || nseeds == MAX_SEEDS) {
        printf("# cannot read %s\n", path);
    } else if ((seed->text = calloc(1, 1 << 20)) &&
               (seed->bytes = fread(seed->text, 1, (1 << 20) - 1, file)) > 0) {
        nseeds++;
    }
    if (file) {
        fclose(file);
    }
}

/* The input that is being tried stays on disk if we die of it. */
static const char *
keep(const char *text, size_t bytes)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "fuzz-commands-%ld.ferry",
                   (long)getpid());
    FILE *file = fopen(path, "wb");
    if (file) {
        (void)fwrite(text, 1, bytes, file);
        fclose(file);
    }
    return path;
}

int
main(int argc, char **argv)
{
    static char input[MAX_INPUT + 64], pattern[4096];
    const char *seconds_text = getenv("FERRY_FUZZ_SECONDS");
    const char *seed_text = getenv("FERRY_FUZZ_SEED");
    const char *source = getenv("FERRY_SRCDIR");
    double seconds = seconds_text ? atof(seconds_text) : 10;
    unsigned long texts = 0, sets = 0, parsed = 0;
    time_t begin = time(NULL);
    glob_t found;
    state = seed_text ? strtoull(seed_text, NULL, 10) : 20261121;
    nowhere = fopen("/dev/null", "w");
    for (int i = 1; i < argc; i++) {
        add_seed(argv[i]);
    }
    (void)snprintf(pattern, sizeof pattern,
                   "%s/annotations/lib/commands/*.ferry",
                   source ? source : ".");
    if (argc == 1 && glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            add_seed(found.gl_pathv[i]);
        }
        globfree(&found);
    }
    if (nseeds == 0 || !nowhere) {
        printf("1..0 # SKIP no seeds\n");
        return 77;
    }
    const char *path = keep("", 0);
    while (difftime(time(NULL), begin) < seconds) {
        time_t start = time(NULL);
        /* The shipped blocks themselves now and then: they all parse. */
        const struct seed *seed = &seeds[below(nseeds)];
        bool whole = below(16) == 0;
        size_t bytes = whole ? seed->bytes : mutate(input);
        const char *text = whole ? seed->text : input;
        (void)keep(text, bytes);
        struct fy_commands *commands = try_text(text, bytes);
        texts++;
        if (commands) {
            sets++;
            parsed += try_command_lines(commands, text, bytes);
            fy_commands_free(commands);
        }
        if (difftime(time(NULL), start) > SLOW_SECONDS) {
            printf("not ok 1 - an input took too long, see %s\n1..1\n", path);
            return 1;
        }
    }
    (void)unlink(path);
    fclose(nowhere);
    for (unsigned i = 0; i < nseeds; i++) {
        free(seeds[i].text);
    }
    bool good = texts > 0 && sets > 0 && parsed > 0;
    printf("# %lu texts, %lu compiled, %lu command lines parsed\n", texts, sets,
           parsed);
    printf("%sok 1 - every text ends in a set or a diagnostic, every command "
           "line in a result or a reason\n1..1\n",
           good ? "" : "not ");
    return good ? 0 : 1;
}
#endif
