/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call that ferry leaves to its original, by the argument: handler (made in a
 * handler on the alternate stack), first (the process's first, in a handler on the
 * ordinary stack), memory (where the process may have no more addresses), handle (of
 * a plan whose making is not annotated, a guru one; argument 2 is FFTW's library).
 */
#include "common.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>

enum {
    MOST = 400
};

static double a[MOST * MOST] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, c[MOST * MOST];
static integer n = 3;

static void
multiply(int number)
{
    const double one = 1, zero = 0;
    (void)number;
    dgemm_("N", "T", &n, &n, &n, &one, a, &n, a, &n, &zero, c, &n);
}

static void
in_handler(int on_stack)
{
    static char stack[1 << 16];
    const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = multiply, .sa_flags = on_stack};
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

/* The second call: what a first one needs is there. */
static void
without_memory(void)
{
    unsigned long pages = 0;
    multiply(0);
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1) {
        puts("statm cannot be read");
    }
    const struct rlimit limit = {pages * 4096, RLIM_INFINITY};
    if (file) {
        fclose(file);
    }
    setrlimit(RLIMIT_AS, &limit);
    for (size_t bytes = 1 << 24; bytes >= 16; bytes /= 2) {
        while (malloc(bytes)) { /* kept: none is left */
        }
    }
    n = MOST;
    multiply(0);
}

/* fftw_iodim */
struct axis {
    int n, in, out;
};

static void
with_unseen_plan(const char *path)
{
    static double x[8] = {1, 2, 3, 4}, y[8];
    const struct axis axis = {4, 1, 1};
    void *library = dlopen(path, RTLD_NOW);
    void *(*plan)(int, const struct axis *, int, const struct axis *, double *,
                  double *, int, unsigned) =
        library ? (__typeof__(plan))dlsym(library, "fftw_plan_guru_dft") : NULL;
    void (*execute)(void *) =
        library ? (__typeof__(execute))dlsym(library, "fftw_execute") : NULL;
    if (!plan || !execute) {
        puts("FFTW is not there");
        return;
    }
    execute(plan(1, &axis, 0, NULL, x, y, -1, 1U << 6));
    printf("%g %g\n", y[0], y[2]);
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "handle") == 0) {
        with_unseen_plan(argv[2]);
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "handler") == 0) {
        in_handler(SA_ONSTACK);
    } else if (argc == 2 && strcmp(argv[1], "first") == 0) {
        in_handler(0);
    } else {
        without_memory();
    }
    printf("%g %g %g\n", c[0], c[2], c[8]);
    return 0;
}
