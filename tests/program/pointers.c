/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is not there, may not be written, or ends with the operand.
 * Argument: a number of the table below. What must crash crashes with the same
 * signal as without ferry; what must not, does not.
 */
#include "common.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    N = 40,
    LD = 48,
    COUNT = LD * N
};

static double a[COUNT], b[COUNT], c[COUNT];

static void
product(integer m, integer n, integer k, double alpha, const double *pa,
        const double *pb, double beta, double *pc)
{
    const integer ld = LD;

    dgemm_("N", "N", &m, &n, &k, &alpha, pa, &ld, pb, &ld, &beta, pc, &ld);
    if (pc) {
        printf("%016llx\n", (unsigned long long)digest(pc, (size_t)m));
    }
}

/*
 * `bytes' of memory that end exactly where an unmapped page begins. Returns
 * their first byte.
 */
static double *
before_guard(size_t bytes)
{
    const size_t page = 4096, room = (bytes + page - 1) / page * page;
    char *start = mmap(NULL, room + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (start == MAP_FAILED) {
        exit(50);
    }
    munmap(start + room, page);
    return (double *)(void *)(start + room - bytes);
}

/* The bytes of an N x N operand with leading dimension LD: no last padding. */
static const size_t needed = ((size_t)LD * (N - 1) + N) * sizeof(double);

static double *
filled(unsigned seed)
{
    double *x = before_guard(needed);

    fill(x, needed / sizeof *x, seed);
    return x;
}

static double *
protected_copy(const double *x, int protection)
{
    double *copy = mmap(NULL, sizeof a, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memcpy(copy, x, sizeof a);
    mprotect(copy, sizeof a, protection);
    return copy;
}

/* A file mapping that is longer than its file: SIGBUS beyond the end. */
static double *
beyond_file(void)
{
    char name[] = "/tmp/ferry-pointers-XXXXXX";
    const int file = mkstemp(name);

    unlink(name);
    if (file < 0 || ftruncate(file, 4096) != 0) {
        exit(51);
    }
    return mmap(NULL, sizeof a, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

int
main(int argc, char **argv)
{
    double *nowhere = (double *)(uintptr_t)0x10000;
    double nan = strtod("nan", NULL);

    setvbuf(stdout, NULL, _IONBF, 0);
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    fill(c, COUNT, 3);
    printf("first: %ld wrong\n", product_errors(50, 1));
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 0: /* all that is well */
        product(0, N, N, 1, NULL, NULL, 1, NULL);
        product(N, 0, N, 1, nowhere, nowhere, 1, c);
        product(N, N, 0, 1, NULL, NULL, 2, c);
        product(N, N, N, 0, NULL, nowhere, 2, c);
        product(N, N, N, 0, NULL, NULL, 0, c);
        product(N, N, 0, 1, nowhere, NULL, 0, c);
        for (int i = 0; i < COUNT; i++) {
            c[i] = nan;
        }
        product(N, N, N, 1, a, b, 0, c);
        product(N, N, N, 1, filled(1), filled(2), 1, filled(3));
        product(N, N, N, 1, protected_copy(a, PROT_READ),
                protected_copy(b, PROT_READ), 1, c);
        {
            /* Only padding and no element lies on the missing pages. */
            const integer m = 4, n = 3, ld = 4096;
            const double one = 1;
            char *wide = mmap(NULL, (size_t)ld * 8 * 3, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            double *w = (double *)(void *)wide;
            for (int j = 0; j < n; j++) {
                fill(w + j * ld, 4, (unsigned)j);
            }
            for (int j = 0; j < n; j++) {
                munmap(wide + (size_t)j * ld * 8 + 4096, (size_t)ld * 8 - 4096);
            }
            dgemm_("N", "N", &m, &n, &n, &one, a, &m, b, &n, &one, w, &ld);
            for (int j = 0; j < n; j++) {
                printf("%016llx\n", (unsigned long long)digest(w + j * ld, 4));
            }
        }
        break;
    case 1:
        product(N, N, N, 1, NULL, b, 1, c);
        break;
    case 2:
        product(N, N, N, 1, a, nowhere, 1, c);
        break;
    case 3:
        product(N, N, N, 1, a, b, 1, nowhere);
        break;
    case 4:
        product(N, N, N, 1, a, b, 1, protected_copy(c, PROT_READ));
        break;
    case 5:
        product(N, N, N, 1, a, protected_copy(b, PROT_NONE), 1, c);
        break;
    case 6: /* one column too many */
        product(N, N + 1, N, 1, a, filled(2), 1, c);
        break;
    case 7:
        product(N, N, N, 1, beyond_file(), b, 1, c);
        break;
    case 8:
        product(N, N, N, 1, a, b, 1, beyond_file());
        break;
    case 9: /* beta scales what cannot be written */
        product(N, N, 0, 1, a, b, 2, protected_copy(c, PROT_READ));
        break;
    case 10: /* not even the sizes can be read */
        dgemm_("N", "N", (const integer *)(const void *)nowhere, NULL, NULL,
               NULL, a, NULL, b, NULL, NULL, c, NULL);
        break;
    case 11: { /* negative increments from an address in the middle */
        const integer n = 30, minus = -1;
        const double two = 2;
        daxpy_(&n, &two, nowhere, &minus, c, &minus);
        break;
    }
    default:
        return 2;
    }
    printf("last: %ld wrong\n", product_errors(51, 2));
    return 0;
}
