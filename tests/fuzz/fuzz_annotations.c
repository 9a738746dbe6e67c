/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the compiler texts that nobody would write, and the validator models
 * that nobody made. Every input must end in a model or a diagnostic, quickly,
 * and every model that is accepted must be safe to read in full.
 *
 * Standing alone it mutates the files named on the command line (by default the
 * shipped ones) and makes soups
 * of the language's words, from a fixed seed (FERRY_FUZZ_SEED) for a fixed time
 * (FERRY_FUZZ_SECONDS, 10), and prints TAP. Compiled with -DFY_LIBFUZZER it is
 * a libFuzzer target.
 */
#include "config.h"

#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "annotations/model/eval.h"

enum {
    MAX_SEEDS = 64,
    MAX_INPUT = 1 << 16,
    MAX_SMALL_MODEL = 100000, /* bytes; larger ones are tried less often */
    SLOW_SECONDS = 5,         /* for one input; they take milliseconds */
};

static const char *library_dir;

/* ---- what an input must not break ---- */

/* Evaluates everything, and writes everything out. */
static void
use_model(const struct fy_model *model)
{
    static const struct fy_value odd[] = {
        {.kind = FY_V_INT, .i = -3},
        {.kind = FY_V_INT, .i = INT64_MIN},
        {.kind = FY_V_REAL, .r = 1e300},
        {.kind = FY_V_COMPLEX, .r = 1, .im = -1},
        {.kind = FY_V_POINTER, .p = 1},
    };
    struct fy_value cells[FY_MAX_CELLS];
    FILE *nowhere = fopen("/dev/null", "w");
    if (nowhere) {
        fy_model_dump(model, nowhere);
        fclose(nowhere);
    }
    for (unsigned i = 0; i < FY_MAX_CELLS; i++) {
        cells[i] = odd[i % (sizeof odd / sizeof odd[0])];
    }
    for (uint32_t f = 0; f < model->functions.count; f++) {
        struct fy_scope scope = {
            model, &FY_TABLE(model, fy_function, functions)[f], cells, NULL};
        const struct fy_require *requires =
            FY_TABLE(model, fy_require, requires) + scope.function->requires;
        for (uint16_t i = 0; i < scope.function->nrequires; i++) {
            struct fy_value value;
            (void)fy_eval_bare_cell(&scope, requires[i].node);
            if (fy_eval(&scope, requires[i].node, &value)) {
                continue;
            }
        }
    }
    for (uint32_t i = 0; i < model->symbols.count; i++) {
        const struct fy_symbol *s = &FY_TABLE(model, fy_symbol, symbols)[i];
        if (fy_model_find_symbol(model, fy_model_string(model, s->name)) != i) {
            abort();
        }
    }
}

/* Kernels are looked up beside it. */
static char text_name[4096] = "fuzz";

static void
try_model(const void *bytes, size_t nbytes)
{
    uint64_t *copy = malloc(nbytes + 8); /* exactly as large: ASan watches */
    if (!copy) {
        return;
    }
    memcpy(copy, bytes, nbytes);
    struct fy_model *model = (struct fy_model *)copy;
    if (nbytes >= sizeof *model && model->size_bytes >= sizeof *model &&
        model->size_bytes <= nbytes) {
        model->content_hash = fy_model_hash(model);
    }
    if (fy_model_validate(copy, nbytes) == FY_OK) {
        use_model(model);
    }
    free(copy);
}

/* Returns the model when there is one (free() it). */
static struct fy_model *
try_text(const char *text, size_t bytes)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_model *model = NULL;
    char *copy = malloc(bytes + 1), *printed = NULL;
    size_t nprinted;
    if (!diagnostics || !copy) {
        exit(1);
    }
    memcpy(copy, text, bytes);
    int status = fy_compile_text(text_name, copy, bytes, library_dir,
                                 diagnostics, &model);
    FILE *to = open_memstream(&printed, &nprinted);
    if (to) {
        fy_diagnostics_print(diagnostics, to);
        fclose(to);
    }
    if ((status == FY_OK) != (model != NULL) ||
        (status == FY_OK) != (fy_diagnostics_errors(diagnostics) == 0) ||
        (model && fy_model_validate(model, model->size_bytes))) {
        abort();
    }
    if (model) {
        use_model(model);
    }
    free(printed);
    free(copy);
    fy_diagnostics_free(diagnostics);
    return model;
}

#ifdef FY_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t nbytes)
{
    free(try_text((const char *)bytes, nbytes));
    try_model(bytes, nbytes);
    return 0;
}
#else

/* ---- inputs ---- */

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
    struct fy_model *model; /* NULL: it does not stand alone */
};

static struct seed seeds[MAX_SEEDS];
static unsigned nseeds;

static const char *const words[] = {
    "function",  "void",        "double",
    "*",         "x",           "n",
    "(",         ")",           "{",
    "}",         "[",           "]",
    ";",         ",",           ":",
    "in",        "out",         "inout",
    "scratch",   "axis",        "split",
    "sums",      "into",        "return",
    "with",      "=",           "1",
    "0",         "64",          "2.5",
    "when",      "lower",       "upper",
    "strict",    "where",       "<=",
    "i",         "+",           "-",
    "j",         "at",          "as",
    "inc",       "let",         "require",
    "else",      "empty",       "flops",
    "worth",     "error",       "exact",
    "also",      "\"s\"",       "integer",
    "any",       "blocked",     "by",
    "potrf",     "using",       "on",
    "host",      "cuda",        "makes",
    "frees",     "family",      "p",
    "form",      "f",           "<v:f>",
    "s",         "float",       "complex",
    "<p>",       "<T>",         "<S>",
    "<ops>",     "<eps>",       "spelling",
    "fortran",   "\"<name>_\"", "struct",
    "m",         "handle",      "h",
    "from",      ".",           "->",
    "&",         "?",           "&&",
    "||",        "!",           "'N'",
    "in \"Nn\"", "min",         "max",
    "abs",       "import",      "\"types.ferry\"",
    "#",         "\n",          "const",
    "char",      "size_t",      "9223372036854775807",
    "/",         "%",           "opaque",
    "returns",   "multiple",    "combines",
    "hypot",     "over",        "A",
    "hermitian", "gemm",        "for",
};

static size_t
soup(char *out)
{
    size_t used = 0;
    unsigned count = 1 + below(400);
    /* Half of them begin well. */
    if (below(2)) {
        used = (size_t)sprintf(
            out, "family p: { s: float };\nfunction void f(int n, int m, char "
                 "c, double *x, double *y) {\n");
    }
    for (unsigned i = 0; i < count && used < MAX_INPUT - 64; i++) {
        used += (size_t)sprintf(out + used, "%s%s",
                                words[below(sizeof words / sizeof words[0])],
                                below(8) ? " " : "");
    }
    return used;
}

/* A piece of a seed, as it is or changed a little. */
static size_t
mutate(char *out)
{
    const struct seed *seed = &seeds[below(nseeds)];
    size_t want = 200 + below(6000), used;
    size_t begin =
        seed->bytes > want ? below((uint32_t)(seed->bytes - want)) : 0;
    /* Mostly whole declarations: from a line that begins one to one that ends
     * one, with what they need. */
    while (begin > 0 && (seed->text[begin - 1] != '\n' ||
                         strncmp(seed->text + begin, "function", 8) != 0)) {
        begin--;
    }
    bool whole = below(16) != 0;
    size_t size = seed->bytes - begin < want ? seed->bytes - begin : want;
    while (size > 2 && whole &&
           memcmp(seed->text + begin + size - 2, "}\n", 2) != 0) {
        size--;
    }
    used = below(16) ? (size_t)sprintf(out, "import \"types.ferry\";\n") : 0;
    memcpy(out + used, seed->text + begin, size);
    used += size;
    for (unsigned n = below(3) ? below(4) : below(20); n > 0 && used > 8; n--) {
        size_t at = below((uint32_t)used), length = 1 + below(16);
        const char *word = words[below(sizeof words / sizeof words[0])];
        if (length > used - at) {
            length = used - at;
        }
        switch (below(6)) {
        case 0: /* one byte */
            out[at] = (char)below(256);
            break;
        case 1: /* a piece away */
            memmove(out + at, out + at + length, used - at - length);
            used -= length;
            break;
        case 2: /* a piece twice */
            if (used + length < MAX_INPUT) {
                memmove(out + at + length, out + at, used - at);
                used += length;
            }
            break;
        case 3: /* a word in */
            if (used + strlen(word) < MAX_INPUT) {
                memmove(out + at + strlen(word), out + at, used - at);
                memcpy(out + at, word, strlen(word));
                used += strlen(word);
            }
            break;
        case 4: /* cut */
            if (below(8) == 0) {
                used = at;
            }
            break;
        default: { /* a piece of another place */
            size_t from = below((uint32_t)used);
            if (from + length <= used) {
                memmove(out + at, out + from, length);
            }
        }
        }
    }
    return used;
}

/* A real model with some of its 32-bit words changed. */
static void
mutate_model(const struct fy_model *model)
{
    size_t bytes = model->size_bytes;
    uint64_t *copy = malloc(bytes);
    if (!copy) {
        return;
    }
    for (unsigned round = 0; round < 8; round++) {
        memcpy(copy, model, bytes);
        uint32_t *row = (uint32_t *)(void *)copy;
        for (unsigned n = 1 + below(4); n > 0; n--) {
            uint32_t at = below((uint32_t)(bytes / 4));
            static const uint32_t values[] = {0,          1,      2,         3,
                                              0x7fffffff, FY_NIL, 0xfffffff8};
            if (at < 2) {
                continue; /* the magic */
            }
            switch (below(3)) {
            case 0:
                row[at] = values[below(7)];
                break;
            case 1:
                row[at] += below(5) - 2;
                break;
            default:
                row[at] = row[below((uint32_t)(bytes / 4))];
            }
        }
        try_model(copy, bytes - (below(8) ? 0 : below((uint32_t)bytes)));
    }
    free(copy);
}

static void
add_seed(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || nseeds == MAX_SEEDS || fstat(fileno(file), &status)) {
        printf("# cannot read %s\n", path);
        if (file) {
            fclose(file);
        }
        return;
    }
    struct seed *seed = &seeds[nseeds];
    seed->text = calloc(1, (size_t)status.st_size + 1);
    if (seed->text && (seed->bytes = fread(seed->text, 1,
                                           (size_t)status.st_size, file)) > 0) {
        nseeds++;
    }
    fclose(file);
}

/* The input that is being tried stays on disk if we die of it. */
static const char *
keep(const char *text, size_t bytes)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "fuzz-%ld.ferry", (long)getpid());
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
    static char input[MAX_INPUT + 256];
    const char *seconds_text = getenv("FERRY_FUZZ_SECONDS");
    const char *seed_text = getenv("FERRY_FUZZ_SEED");
    const char *source = getenv("FERRY_SRCDIR");
    static char library[4096];
    double seconds = seconds_text ? atof(seconds_text) : 10;
    unsigned long texts = 0, models = 0;
    time_t begin = time(NULL);
    state = seed_text ? strtoull(seed_text, NULL, 10) : 20261121;
    if (source && strlen(source) < sizeof library - 32) {
        (void)sprintf(library, "%s/annotations/lib", source);
        library_dir = library;
        (void)sprintf(text_name, "%s/tests/kernels/fuzz", source);
    }
    for (int i = 1; i < argc; i++) {
        add_seed(argv[i]);
    }
    if (argc == 1 && library_dir) {
        static char pattern[sizeof library + 16];
        glob_t found;
        (void)sprintf(pattern, "%s/*.ferry", library);
        if (glob(pattern, 0, NULL, &found) == 0) {
            for (size_t i = 0; i < found.gl_pathc; i++) {
                add_seed(found.gl_pathv[i]);
            }
        }
        globfree(&found);
        /* The library has no kernels. */
        static char kernels[sizeof library + 32];
        (void)sprintf(kernels, "%s/tests/kernels/kernels.ferry", source);
        add_seed(kernels);
    }
    if (nseeds == 0) {
        printf("1..0 # SKIP no seeds\n");
        return 77;
    }
    const char *path = keep("", 0);
    for (unsigned i = 0; i < nseeds; i++) {
        seeds[i].model = try_text(seeds[i].text, seeds[i].bytes);
    }
    while (difftime(time(NULL), begin) < seconds) {
        size_t bytes = below(3) ? mutate(input) : soup(input);
        clock_t start = clock(); /* of this process: others have the machine */
        (void)keep(input, bytes);
        struct fy_model *model = try_text(input, bytes);
        texts++;
        if (model) {
            models++;
            mutate_model(model);
            free(model);
        }
        const struct fy_model *whole = seeds[below(nseeds)].model;
        if (whole && (whole->size_bytes < MAX_SMALL_MODEL || !below(64))) {
            mutate_model(whole);
        }
        if (clock() - start > SLOW_SECONDS * CLOCKS_PER_SEC) {
            printf("not ok 1 - an input took too long, see %s\n1..1\n", path);
            return 1;
        }
    }
    (void)unlink(path);
    printf("# %lu texts, %lu of them compiled\n", texts, models);
    printf("%sok 1 - every text ends in a model or a diagnostic\n1..1\n",
           texts > 0 && models > 0 ? "" : "not ");
    return texts > 0 && models > 0 ? 0 : 1;
}
#endif
