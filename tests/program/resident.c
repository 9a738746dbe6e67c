/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random changes of operands between offloaded products, by every way that memory
 * changes: stores, read(2), process_vm_writev(2), MADV_DONTNEED, another mapping at the
 * address, mremap(2), realloc(3), threads, forked children. All numbers are whole and
 * small, so each result is exact. Prints sums of all operands.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum {
    N = 176, /* 242 KiB */
    BUFFERS = 6,
    BYTES = (N * N * 8 + 4095) / 4096 * 4096,
    MOST = 1 << 20, /* of an element that is an input */
};

static double *buffers[BUFFERS];
static uint64_t state = 1;
static int pipe_ends[2];

static unsigned
pick(unsigned n)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(state >> 33) % n;
}

static void
fill_random(double *b)
{
    for (int i = 0; i < N * N; i++) {
        b[i] = pick(3);
    }
}

static double *
map(void *at, size_t bytes, int flags)
{
    double *b = mmap(at, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (b == MAP_FAILED) {
        exit(1);
    }
    return b;
}

static void
reduce(double *b)
{
    for (int i = 0; i < N * N; i++) {
        if (b[i] > MOST) {
            for (int k = 0; k < N * N; k++) {
                b[k] = (double)((int64_t)b[k] % 3);
            }
            return;
        }
    }
}

static void
product(double *a, double *b, double *c, integer m, double beta)
{
    const double one = 1;
    const integer ld = N;
    reduce(a);
    reduce(b);
    if (beta != 0) {
        reduce(c);
    }
    dgemm_("N", "N", &m, &m, &m, &one, a, &ld, b, &ld, &beta, c, &ld);
    reduce(c);
}

static void *
write_elsewhere(void *of)
{
    double *b = of;
    for (int i = 0; i < 600; i++) {
        b[i * 37 % (N * N)] = i % 3;
    }
    return NULL;
}

/* Another thread writes an operand of the next product while this one runs. */
static void
with_thread(double *a, double *b, double *c, double *other)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, write_elsewhere, other)) {
        exit(1);
    }
    product(a, b, c, N, 0);
    (void)pthread_join(thread, NULL);
}

static double sum_of(const double *b);

static void
in_child(double *a, double *b, double *c)
{
    double sum;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        product(a, b, c, N, 0);
        sum = sum_of(c);
        _exit(write(pipe_ends[1], &sum, sizeof(sum)) != sizeof(sum));
    }
    b[5] = 2; /* the child has the old one */
    (void)waitpid(child, NULL, 0);
    if (read(pipe_ends[0], &sum, sizeof(sum)) != sizeof(sum)) {
        exit(1);
    }
    printf("child %.17g\n", sum);
}

static void
change(double **of)
{
    double *b = *of, numbers[512];
    size_t at = pick(N * N - 512);
    for (int i = 0; i < 512; i++) {
        numbers[i] = pick(3);
    }
    struct iovec from = {numbers, sizeof(numbers)},
                 to = {b + at, sizeof(numbers)};
    switch (pick(10)) {
    case 0:
        b[at] += 1;
        break;
    case 1:
        fill_random(b);
        break;
    case 2: /* read(2) */
        if (write(pipe_ends[1], numbers, sizeof(numbers)) != sizeof(numbers) ||
            read(pipe_ends[0], b + at, sizeof(numbers)) != sizeof(numbers)) {
            exit(1);
        }
        break;
    case 3:
        (void)process_vm_writev(getpid(), &from, 1, &to, 1, 0);
        break;
    case 4: /* zeros now */
        (void)madvise((char *)b + 4096 * pick(40), 4096 * 8, MADV_DONTNEED);
        break;
    case 5: /* another mapping at the address, of which nothing is known */
        (void)munmap(b, BYTES);
        (void)map(b, BYTES, MAP_FIXED);
        if (pick(2)) {
            fill_random(b);
        }
        break;
    case 6: /* a part is another mapping */
        (void)map((char *)b + 4096 * 7, 4096 * 9, MAP_FIXED);
        break;
    case 7: { /* moved, and an unrelated one comes to the old address */
        double *there = map(NULL, BYTES, 0);
        *of = mremap(b, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, there);
        if (*of == MAP_FAILED) { /* of two mappings, which watched ones stay */
            *of = map(there, BYTES, MAP_FIXED);
            memcpy(*of, b, BYTES);
            (void)munmap(b, BYTES);
        }
        break;
    }
    case 8: /* read only meanwhile */
        (void)mprotect(b, BYTES, PROT_READ);
        (void)mprotect(b, BYTES, PROT_READ | PROT_WRITE);
        break;
    default:
        memcpy(b + at, numbers, sizeof(numbers));
    }
}

static double
sum_of(const double *b)
{
    double sum = 0;
    for (int i = 0; i < N * N; i++) {
        sum += b[i] * (1 + i % 7);
    }
    return sum;
}

int
main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 400;
    state = argc > 2 ? (uint64_t)atoi(argv[2]) : 1;
    if (pipe(pipe_ends)) {
        return 1;
    }
    /* The last two lie beside each other and share a page. */
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = map(NULL, BYTES, 0);
        fill_random(buffers[i]);
    }
    char *both = malloc(2 * N * N * 8 + 8);
    double *near_by[2] = {(double *)both, (double *)both + N * N + 1};
    fill_random(near_by[0]);
    fill_random(near_by[1]);
    for (int round = 0; round < rounds; round++) {
        double *a = buffers[pick(BUFFERS)], *b = buffers[pick(BUFFERS)];
        unsigned to = pick(BUFFERS);
        double *c = buffers[to];
        while (c == a || c == b) {
            to = (to + 1) % BUFFERS;
            c = buffers[to];
        }
        switch (pick(8)) {
        case 0:
            product(a, b, c, N - 16 - (integer)pick(8), pick(2));
            break;
        case 1:
            product(near_by[0], near_by[1], c, N, 0);
            near_by[pick(2)][pick(2) ? 0 : N * N - 1] = pick(3);
            break;
        case 2:
            product(near_by[0], b, near_by[1], N, 1);
            break;
        case 3: {
            double *other = buffers[0];
            for (int i = 0; other == a || other == b || other == c; i++) {
                other = buffers[i];
            }
            with_thread(a, b, c, other);
            break;
        }
        case 4:
            if (pick(20) == 0) {
                in_child(a, b, c);
            }
            /* fallthrough */
        default:
            product(a, b, c, N, pick(2));
        }
        if (pick(2)) {
            change(&buffers[pick(BUFFERS)]);
        }
        double sum = sum_of(near_by[0]) + sum_of(near_by[1]);
        for (int i = 0; i < BUFFERS; i++) {
            sum += (i + 1) * sum_of(buffers[i]);
        }
        printf("%d %.17g\n", round, sum);
    }
    return 0;
}
