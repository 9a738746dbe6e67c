/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drive [options] [NAME...]: see drive.h. NAME is a shell pattern of exported
 * names (default: all). Exits 1 when a call differs, 77 when a library is
 * missing.
 */
#include "config.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"

static struct drive options = {.blas = "libblas.so.3",
                               .lapack = "liblapack.so.3",
                               .lapacke = "liblapacke.so.3",
                               .seed = 1,
                               .count = 20,
                               .max_size = DEFAULT_SIZE,
                               .twins = true};

static unsigned calls, differences;
static Lmid_t space = LM_ID_NEWLM;

/* A library for the program, and its copy where no preload is. */
static void *
open_both(const char *name)
{
    if (!dlopen(name, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "drive: %s\n", dlerror());
        exit(77);
    }
    if (!options.twins) {
        return NULL;
    }
    void *twin = dlmopen(space, name, RTLD_NOW);
    if (!twin) {
        fprintf(stderr, "drive: %s\n", dlerror());
        exit(77);
    }
    dlinfo(twin, RTLD_DI_LMID, &space);
    return twin;
}

static void *
lookup_in(const char *symbol, void *twin_library, bool twin)
{
    if (twin && options.twins) {
        return dlsym(twin_library, symbol);
    }
    return dlsym(RTLD_DEFAULT, symbol);
}

bool
drive_wants(const struct drive *drive, const char *a, const char *b,
            const char *c)
{
    const char *names[] = {a, b, c};
    for (unsigned i = 0; i < drive->npatterns; i++) {
        for (unsigned j = 0; j < 3; j++) {
            if (names[j] && fnmatch(drive->patterns[i], names[j], 0) == 0) {
                return true;
            }
        }
    }
    return drive->npatterns == 0;
}

void
drive_summary(const char *name, unsigned count, unsigned bad, double worst,
              double digest)
{
    printf("%-24s %u calls, %u differ, worst %.2e of the bound, digest %.9e\n",
           name, count, bad, worst, digest);
    fflush(stdout);
    calls += count;
    differences += bad;
}

static void
print_call(const struct call *call)
{
    for (unsigned i = 0; i < call->nargs; i++) {
        const struct argument *arg = &call->args[i];
        int64_t wide = 0;
        double real;
        float narrow;
        memcpy(&wide, arg->value, arg->kind == 'i' && integer_is_64 ? 8 : 4);
        if (arg->kind == 'i' && !integer_is_64) {
            wide = (int32_t)wide;
        }
        memcpy(&real, arg->value, 8);
        memcpy(&narrow, arg->value, 4);
        if (arg->kind == 'c') {
            printf(" %s=%c", arg->name, arg->value[0]);
        } else if (arg->kind == 'e' || arg->kind == 'i') {
            printf(" %s=%lld", arg->name, (long long)wide);
        } else if (arg->kind == 's' || arg->kind == 'c') {
            printf(" %s=%g", arg->name, (double)narrow);
        } else if (arg->kind == 'd' || arg->kind == 'z') {
            printf(" %s=%g", arg->name, real);
        } else if (arg->kind == 'b') {
            printf(" %s[%zu]", arg->name, call->buffers[arg->buffer].elements);
        }
    }
}

uint64_t
drive_hash(const char *text, uint64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    while (*text) {
        h = (h ^ (unsigned char)*text++) * UINT64_C(0x100000001b3);
    }
    return h;
}

static void
drive_symbol(const struct routine *routine, char type, enum interface interface,
             bool work_variant, const char *symbol, void *twin_library)
{
    if (!drive_wants(&options, symbol, NULL, NULL)) {
        return;
    }
    void *function = lookup_in(symbol, twin_library, false);
    void *twin = lookup_in(symbol, twin_library, true);
    if (!function || !twin) {
        if (options.list || options.verbose) {
            printf("%-24s not in this library\n", symbol);
        }
        return;
    }
    if (options.list) {
        puts(symbol);
        return;
    }
    double worst = 0, sum = 0;
    unsigned bad = 0;
    for (unsigned i = 0; i < options.count; i++) {
        struct call call = {
            .symbol = symbol,
            .type = type,
            .interface = interface,
            .work_variant = work_variant,
            .max_size = options.max_size,
            .random = drive_hash(symbol, options.seed + i * 1000003),
            .growth = 16,
            .result = interface == LAPACKE     ? 'i'
                      : routine->result == 'T' ? type
                      : routine->result == 'R' ? real_of(type)
                                               : routine->result};
        /* cblas_i*amax returns size_t. */
        if (call.result == 'i' && interface == CBLAS) {
            call.result = 'l';
        }
        routine->build(&call);
        const char *what;
        double digest;
        double error = run_call(&call, function, twin, &what, &digest);
        bool differs = error < 0 || error > 1;
        if (differs || options.verbose) {
            printf("%s %s call %u:", differs ? "DIFFERS" : "ok", symbol, i);
            print_call(&call);
            printf(" | %s %.3g\n", what, error);
        }
        bad += differs;
        worst = fmax(worst, error);
        sum += digest;
        free_call(&call);
    }
    drive_summary(symbol, options.count, bad, worst, sum);
}

static void
drive_routines(const struct routine *routines, enum interface interface,
               void *twin_library)
{
    for (const struct routine *r = routines; r->name; r++) {
        if (!(r->interfaces & 1u << interface)) {
            continue;
        }
        for (const char *type = r->types; *type; type++) {
            char base[32], symbol[64];
            const char *percent = strstr(r->name, "%c");
            size_t prefix = percent ? (size_t)(percent - r->name) : 0;
            if (percent) {
                snprintf(base, sizeof base, "%.*s%c%s", (int)prefix, r->name,
                         *type, percent + 2);
            } else {
                snprintf(base, sizeof base, "%s", r->name);
            }
            int length = snprintf(symbol, sizeof symbol, "%s%s%s",
                                  interface == FORTRAN ? ""
                                  : interface == CBLAS ? "cblas_"
                                                       : "LAPACKE_",
                                  base, interface == FORTRAN ? "_" : "");
            drive_symbol(r, *type, interface, false, symbol, twin_library);
            if (interface == LAPACKE) {
                snprintf(symbol + length, sizeof symbol - (size_t)length,
                         "_work");
                drive_symbol(r, *type, interface, true, symbol, twin_library);
            }
        }
    }
}

static void *fftw_twin;

static void *
fftw_lookup(const char *name, bool twin)
{
    return lookup_in(name, fftw_twin, twin);
}

static void
fftw(const char *library, const char *prefix, char type)
{
    if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "drive: %s (skipped)\n", dlerror());
        return;
    }
    if (options.twins) {
        fftw_twin = open_both(library);
    }
    drive_fftw(prefix, type, &options, fftw_lookup);
}

static void
usage(void)
{
    puts("usage: drive [--seed N] [--count N] [--max N] [--list] [--verbose]\n"
         "             [--blas LIB] [--lapack LIB] [--lapacke LIB] [--ilp64]\n"
         "             [--no-twin] [--documented] [NAME...]\n"
         "Calls every annotated function with random arguments, twice, and\n"
         "compares. --no-twin calls the same function twice, --documented\n"
         "compares only what manuals promise.");
}

int
main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},
        {"count", required_argument, NULL, 'c'},
        {"max", required_argument, NULL, 'm'},
        {"list", no_argument, NULL, 'l'},
        {"verbose", no_argument, NULL, 'v'},
        {"blas", required_argument, NULL, 'B'},
        {"lapack", required_argument, NULL, 'L'},
        {"lapacke", required_argument, NULL, 'E'},
        {"ilp64", no_argument, NULL, '6'},
        {"no-twin", no_argument, NULL, 't'},
        {"documented", no_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    for (int c;
         (c = getopt_long(argc, argv, "s:c:m:lvh", longs, NULL)) != -1;) {
        switch (c) {
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            options.count = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            options.max_size = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            options.list = true;
            break;
        case 'v':
            options.verbose = true;
            break;
        case 'B':
            options.blas = optarg;
            break;
        case 'L':
            options.lapack = optarg;
            break;
        case 'E':
            options.lapacke = optarg;
            break;
        case '6':
            integer_is_64 = true;
            break;
        case 'd':
            documented_only = true;
            break;
        case 't':
            options.twins = false;
            break;
        case 'h':
            usage();
            return 0;
        default:
            usage();
            return 2;
        }
    }
    if (options.max_size < 1) {
        options.max_size = 1;
    }
    options.patterns = argv + optind;
    options.npatterns = (unsigned)(argc - optind);
    setenv("OPENBLAS_NUM_THREADS", "1", 0);

    void *blas = open_both(options.blas);
    for (int i = FORTRAN; i <= CBLAS; i++) {
        drive_routines(blas1_routines, (enum interface)i, blas);
        drive_routines(blas2_routines, (enum interface)i, blas);
        drive_routines(blas3_routines, (enum interface)i, blas);
    }
    void *lapack = open_both(options.lapack);
    drive_routines(lapack_routines, FORTRAN, lapack);
    if (!integer_is_64) {
        void *lapacke = open_both(options.lapacke);
        drive_routines(lapack_routines, LAPACKE, lapacke);
    }
    fftw("libfftw3.so.3", "fftw", 'z');
    fftw("libfftw3f.so.3", "fftwf", 'c');
    if (!options.list) {
        printf("%u calls, %u differ\n", calls, differences);
    }
    return differences ? 1 : 0;
}
