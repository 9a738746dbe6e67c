/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a target (target.h). Without clang: the seeds, then changes of them, for
 * FERRY_FUZZ_SECONDS (0.5) from FERRY_FUZZ_SEED; each input must be done with in
 * bounded time and memory, and memory must not grow. Files named on the command
 * line are tried alone. Prints TAP. Compiled with -DFY_LIBFUZZER it adds one
 * option to libFuzzer's: --prepare DIR writes the seeds to DIR/seeds, the words to
 * DIR/words.
 */
#include "config.h"

#include <ftw.h>
#include <sys/stat.h>

#include "tests/fuzz/target.h"

enum {
    MAX_SEEDS = 256,
    MAX_INPUT = 1 << 16,
    MAX_SECONDS = 5,       /* of processor time, for one input */
    MAX_GROWTH = 64 << 20, /* bytes in use after an input */
    SPLICE_ONE_IN = 8,
};

unsigned long fuzz_taken;

static struct {
    char *bytes;
    size_t n;
} seeds[MAX_SEEDS];
static unsigned nseeds;

void
fuzz_seed(const void *bytes, size_t n)
{
    MUST(nseeds < MAX_SEEDS && n <= MAX_INPUT);
    seeds[nseeds].bytes = malloc(n ? n : 1);
    MUST(seeds[nseeds].bytes);
    memcpy(seeds[nseeds].bytes, bytes, n);
    seeds[nseeds++].n = n;
}

/* ---- files --------------------------------------------------------------------- */

static char folder[512];
static pid_t owner;

static int
remove_one(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void)about;
    (void)type;
    (void)at;
    return remove(path);
}

static void
remove_folder(void)
{
    if (getpid() == owner) {
        (void)nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

const char *
fuzz_folder(void)
{
    if (!*folder) {
        /* Thousands of files are written: in memory, where that can be had. */
        const char *in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        (void)snprintf(folder, sizeof folder, "%s/ferry-fuzz-XXXXXX", in);
        MUST(mkdtemp(folder));
        owner = getpid();
        (void)atexit(remove_folder);
    }
    return folder;
}

const char *
fuzz_file(const char *name, const void *bytes, size_t n)
{
    static char path[1024];
    int length = snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    MUST(length > 0 && length < (int)sizeof path);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
    return path;
}

char *
fuzz_text(const void *bytes, size_t n)
{
    char *text = malloc(n + 1);
    MUST(text);
    memcpy(text, bytes, n);
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)(text[i] ? text[i] : ' ');
    }
    text[n] = '\0';
    return text;
}

void
fuzz_cut(const void *bytes, size_t n, char **out, size_t most)
{
    char *text = malloc(n + 1);
    MUST(text && most > 0);
    memcpy(text, bytes, n);
    text[n] = '\0';
    char *at = text;
    for (size_t i = 0; i < most; i++) {
        out[i] = at;
        at = at + strlen(at) < text + n ? at + strlen(at) + 1 : text + n;
    }
}

#ifdef FY_LIBFUZZER
int LLVMFuzzerInitialize(int *argc, char ***argv);

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[1024];
    if (*argc != 3 || strcmp((*argv)[1], "--prepare") != 0) {
        return 0;
    }
    fuzz_make_seeds();
    for (unsigned i = 0; i < nseeds; i++) {
        (void)snprintf(path, sizeof path, "%s/seeds/%u", (*argv)[2], i);
        FILE *file = fopen(path, "wb");
        MUST(file && fwrite(seeds[i].bytes, 1, seeds[i].n, file) == seeds[i].n);
        MUST(fclose(file) == 0);
    }
    (void)snprintf(path, sizeof path, "%s/words", (*argv)[2]);
    FILE *file = fopen(path, "w");
    MUST(file);
    for (const char *const *word = fuzz_words; *word; word++) {
        (void)fputc('"', file);
        for (const char *at = *word; *at; at++) {
            (void)fprintf(file, "\\x%02x", (unsigned char)*at);
        }
        (void)fputs("\"\n", file);
    }
    MUST(fclose(file) == 0);
    exit(0);
}
#else

static double
used_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
try_one(const void *bytes, size_t n)
{
    uint8_t *copy = malloc(n); /* exactly as large: ASan watches */
    MUST(copy || !n);
    if (n) {
        memcpy(copy, bytes, n);
    }
    double began = used_seconds();
    MUST(LLVMFuzzerTestOneInput(copy, n) == 0);
    MUST(used_seconds() - began < MAX_SECONDS);
    free(copy);
}

static void
try_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(MAX_INPUT);
    MUST(file && bytes);
    size_t n = fread(bytes, 1, MAX_INPUT, file);
    (void)fclose(file);
    try_one(bytes, n);
    free(bytes);
}

/* A word of the target's over what is at a place, or before it. */
static size_t
put_word(unsigned char *bytes, size_t n)
{
    unsigned count = 0;
    while (fuzz_words[count]) {
        count++;
    }
    if (count == 0) {
        return n;
    }
    const char *word = fuzz_words[below(count)];
    size_t length = strlen(word), at = below((uint32_t)n + 1);
    if (below(2) && at + length <= n) {
        memcpy(bytes + at, word, length);
        return n;
    }
    if (n + length > MAX_INPUT) {
        return n;
    }
    memmove(bytes + at + length, bytes + at, n - at);
    memcpy(bytes + at, word, length);
    return n + length;
}

static size_t
change(unsigned char *out)
{
    unsigned i = below(nseeds), j = below(nseeds);
    size_t n = seeds[i].n;
    memcpy(out, seeds[i].bytes, n);
    if (below(SPLICE_ONE_IN) == 0 && seeds[j].n) {
        size_t keep = below((uint32_t)n + 1);
        size_t from = below((uint32_t)seeds[j].n);
        size_t more = seeds[j].n - from;
        more = more > MAX_INPUT - keep ? MAX_INPUT - keep : more;
        memcpy(out + keep, seeds[j].bytes + from, more);
        n = keep + more;
    }
    for (unsigned words = below(3); words; words--) {
        n = put_word(out, n);
    }
    return below(8) ? fuzz_bytes(out, n, MAX_INPUT) : n;
}

int
main(int argc, char **argv)
{
    static unsigned char input[MAX_INPUT];
    const char *name = strrchr(argv[0], '/');
    unsigned long tried = 0;
    (void)setenv("FERRY_FUZZ_SECONDS", "0.5", 0);
    double end = fuzz_begin();
    for (int i = 1; i < argc; i++) {
        try_file(argv[i]);
    }
    if (argc > 1) {
        return 0;
    }
    fuzz_make_seeds();
    MUST(nseeds > 0);
    for (unsigned i = 0; i < nseeds; i++) {
        /* Behind "/fuzz_". */
        fuzz_keep(name ? name + 6 : "input", seeds[i].bytes, seeds[i].n);
        try_one(seeds[i].bytes, seeds[i].n);
    }
    unsigned long accepted = fuzz_taken;
    MUST(accepted > 0);
    size_t before = fuzz_memory();
    while (fuzz_seconds() < end) {
        size_t n = change(input);
        fuzz_keep("input", input, n);
        try_one(input, n);
        tried++;
        MUST(fuzz_memory() < before + MAX_GROWTH);
    }
    (void)unlink(fuzz_path);
    for (unsigned i = 0; i < nseeds; i++) {
        free(seeds[i].bytes);
    }
    printf("# %u seeds, %lu changes of them, %lu inputs taken\n", nseeds, tried,
           fuzz_taken);
    printf("ok 1 - %s\n1..1\n", fuzz_shows);
    return 0;
}
#endif
