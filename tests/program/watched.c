/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands whose pages ferry watches, and a program that does with its memory what the
 * kernel refuses for such pages. Modes: remap (mremap(2) of two mappings that would be
 * one), userfault (of the program's own, before and after), huge (pages of 2 MiB), user
 * (another one), forks (with so many threads). A first word ENOSYS or EPERM: with a
 * filter. Numbers are whole and small, so each result is exact.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum {
    N = 192, /* 288 KiB, whole pages */
    COUNT = N * N,
    BYTES = COUNT * 8,
    PAGE = 4096,
    HUGE = 2 << 20,
    MOST_THREADS = 8,
    CHILDREN = 20,
    PATIENCE_SECONDS = 100, /* a deadlock ends the program */
};

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
product(const double *a, const double *b, double *c)
{
    const double one = 1, zero = 0;
    const integer n = N;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
}

static unsigned
sum_of(const double *b)
{
    return (unsigned)(digest(b, COUNT) % 1000000);
}

/* A product twice, so that the second one may find its operands on the device. */
static void
say(const char *of, const double *a, const double *b, double *c)
{
    product(a, b, c);
    unsigned first = sum_of(c);
    product(a, b, c);
    printf("%s: %u %u\n", of, first, sum_of(c));
}

/* ---- remap ------------------------------------------------------------------------ */

static char *area; /* room for sixteen operands, reserved */

/* The low half is an operand; then the high half comes, which the kernel makes one
 * mapping with it, unless the first is watched. */
static char *
two_halves(const double *b, double *c)
{
    (void)mmap(area, 16 * BYTES, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    double *low = map(area + 4 * BYTES, BYTES, MAP_FIXED);
    fill(low, COUNT, 1);
    say("low half", low, b, c);
    fill(map((char *)low + BYTES, BYTES, MAP_FIXED), COUNT, 2);
    say("high half", low + COUNT, b, c);
    say("low half again", low, b, c);
    return (char *)low;
}

static void
remapped(const char *how, char *old, size_t old_bytes, size_t new_bytes,
         int flags, char *to, const double *b, double *c)
{
    errno = 0;
    char *now = mremap(old, old_bytes, new_bytes, flags, to);
    int error = errno;
    printf("%s: %s at %s\n", how, now == MAP_FAILED ? strerror(error) : "done",
           now == MAP_FAILED ? "nothing"
           : now == old      ? "the old place"
           : now == to       ? "the wanted place"
                             : "another place");
    if (now == MAP_FAILED) {
        now = old;
        new_bytes = old_bytes < 2 * BYTES ? old_bytes : 2 * BYTES;
    }
    say(how, (double *)now, b, c);
    if (new_bytes >= 2 * BYTES) {
        say(how, (double *)(now + BYTES), b, c);
    }
    if (new_bytes > old_bytes) {
        fill((double *)(now + 2 * BYTES), COUNT, 3);
        say(how, (double *)(now + 2 * BYTES), b, c);
    }
    if (now < area || now >= area + 16 * BYTES) {
        (void)munmap(now, new_bytes);
    }
}

static void
remap(void)
{
    double *b = map(NULL, BYTES, 0), *c = map(NULL, BYTES, 0);
    fill(b, COUNT, 5);
    area = (char *)map(NULL, 16 * BYTES, 0);
    remapped("moved", two_halves(b, c), 2 * BYTES, 2 * BYTES,
             MREMAP_MAYMOVE | MREMAP_FIXED, area + 8 * BYTES, b, c);
    remapped("grown elsewhere", two_halves(b, c), 2 * BYTES, 3 * BYTES,
             MREMAP_MAYMOVE, NULL, b, c);
    remapped("no room", two_halves(b, c), 2 * BYTES, 3 * BYTES, 0, NULL, b, c);
    remapped("less elsewhere", two_halves(b, c), 2 * BYTES, BYTES + PAGE,
             MREMAP_MAYMOVE | MREMAP_FIXED, area + 8 * BYTES, b, c);
    remapped("a middle part", two_halves(b, c) + PAGE, 2 * BYTES - 2 * PAGE,
             BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, area + 8 * BYTES, b, c);
    char *low = two_halves(b, c);
    (void)munmap(low + 2 * BYTES, BYTES); /* room to grow in */
    remapped("grown where it is", low, 2 * BYTES, 3 * BYTES, MREMAP_MAYMOVE,
             NULL, b, c);
    low = two_halves(b, c);
    (void)munmap(low + 2 * BYTES, BYTES);
    remapped("grown where it must be", low, 2 * BYTES, 3 * BYTES, 0, NULL, b,
             c);
    low = two_halves(b, c);
    remapped("with what is not mapped", low, 3 * BYTES, 3 * BYTES,
             MREMAP_MAYMOVE | MREMAP_FIXED, area + 8 * BYTES, b, c);
    low = two_halves(b, c);
    (void)mprotect(low + BYTES, BYTES, PROT_READ);
    remapped("of two kinds", low, 2 * BYTES, 3 * BYTES, MREMAP_MAYMOVE, NULL, b,
             c);
    low = two_halves(
        b, c); /* a page that is not watched, a gap, and both halves */
    (void)map(low - 3 * PAGE, PAGE, MAP_FIXED);
    (void)munmap(low - 2 * PAGE, 2 * PAGE);
    errno = 0;
    char *now =
        mremap(low - 3 * PAGE, 2 * BYTES + 3 * PAGE, 2 * BYTES + 3 * PAGE,
               MREMAP_MAYMOVE | MREMAP_FIXED, area + 9 * BYTES);
    printf("of several: %s\n", now == MAP_FAILED ? strerror(errno) : "done");
    now = now == MAP_FAILED ? low : now + 3 * PAGE;
    say("of several", (double *)now, b, c);
    say("of several", (double *)(now + BYTES), b, c);
    low = two_halves(b, c);
    errno = 0;
    now = (char *)syscall(SYS_mremap, low, 2 * BYTES, 3 * BYTES, MREMAP_MAYMOVE,
                          NULL);
    printf("by number: %s\n", now == MAP_FAILED ? strerror(errno) : "done");
}

/* ---- userfault -------------------------------------------------------------------- */

static int
own_userfault(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* USER_MODE_ONLY */);
    struct uffdio_api api = {.api = UFFD_API};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
        fprintf(stderr, "no userfaultfd\n");
        exit(77);
    }
    return fd;
}

static void
own(int fd, double *a)
{
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)a, .len = BYTES},
        .mode = UFFDIO_REGISTER_MODE_MISSING};
    printf("registered: %s\n",
           ioctl(fd, UFFDIO_REGISTER, &range) == 0 ? "done" : strerror(errno));
}

static void
userfault(void)
{
    double *a = map(NULL, BYTES, 0), *b = map(NULL, BYTES, 0),
           *c = map(NULL, BYTES, 0);
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    say("before", a, b, c);
    int fd = own_userfault();
    own(fd, a);
    a[5] = 2;
    say("after", a, b, c);
    own(fd, b);
    b[7] = 1;
    say("both", a, b, c);
    own(fd, c);
    (void)close(fd);
    a[9] = 0;
    say("closed", a, b, c);
}

/* ---- forks ------------------------------------------------------------------------ */

static int stop;

/* Operands of malloc() that grow, shrink and go, until main says so. */
static void *
allocate(void *number)
{
    unsigned wrong = 0, round = (unsigned)(uintptr_t)number;
    double *c = malloc(BYTES), *expected = malloc(BYTES);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        double *a = malloc(BYTES), *b = malloc(BYTES);
        if (!a || !b || !c || !expected) {
            exit(1);
        }
        fill(a, COUNT, round++);
        fill(b, COUNT, 2);
        product(a, b, c);
        memcpy(expected, c, BYTES);
        a = realloc(a, 2 * BYTES);
        product(a, b, c);
        wrong += memcmp(expected, c, BYTES) != 0;
        a[3]++;
        product(a, b, c);
        wrong += memcmp(expected, c, BYTES) == 0;
        free(a);
        free(b);
    }
    free(c);
    free(expected);
    return (void *)(uintptr_t)wrong;
}

static void
forks(unsigned threads)
{
    pthread_t others[MOST_THREADS];
    unsigned good = 0;
    double *a = malloc(BYTES), *b = malloc(BYTES), *c = malloc(BYTES);
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    product(a, b, c);
    const unsigned expected = sum_of(c);
    for (unsigned t = 0; t < threads; t++) {
        if (pthread_create(&others[t], NULL, allocate, (void *)(uintptr_t)t)) {
            exit(1);
        }
    }
    (void)fflush(stdout);
    for (int i = 0; i < CHILDREN; i++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) {
            (void)alarm(PATIENCE_SECONDS);
            double *own = malloc(2 * BYTES);
            product(a, b, own);
            unsigned is = sum_of(own);
            free(own);
            _exit(is != expected);
        }
        a[0] = -a[0]; /* the child has the other one */
        product(a, b, c);
        a[0] = -a[0];
        (void)waitpid(child, &status, 0);
        good += status == 0;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    printf("%u children\n", good);
    for (unsigned t = 0; t < threads; t++) {
        void *wrong;
        (void)pthread_join(others[t], &wrong);
        printf("%u wrong\n", (unsigned)(uintptr_t)wrong);
    }
}

/* ---- huge, user, filtered ------------------------------------------------------------ */

static void
huge(void)
{
    const integer n = 512; /* 2 MiB */
    const double one = 1, zero = 0;
    char *at = (char *)map(NULL, 5 * HUGE, 0);
    at += -(uintptr_t)at % HUGE;
    (void)madvise(at, 4 * HUGE, MADV_HUGEPAGE);
    double *a = (double *)at, *b = (double *)(at + HUGE),
           *c = (double *)(at + 2 * HUGE);
    fill(a, 2 * HUGE / 8, 1);
    for (int i = 0; i < 8; i++) {
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        printf("%d %llx\n", i, (unsigned long long)digest(c, HUGE / 8));
        switch (i) {
        case 1:
            a[77]++;
            break;
        case 2:
            (void)madvise(at, HUGE, 25 /* MADV_COLLAPSE */);
            break;
        case 3:
            b[1000]--;
            (void)madvise(at + HUGE, HUGE, MADV_NOHUGEPAGE);
            break;
        case 4:
            (void)madvise(at + PAGE, HUGE / 2, MADV_DONTNEED);
            break;
        case 5:
            (void)madvise(at, HUGE, MADV_FREE);
            fill(a, HUGE / 8, 4);
            break;
        default:
            (void)mlock(at, HUGE);
        }
    }
}

/* /proc shows this process only to root from now on, unless it is dumpable again. */
static void
user(void)
{
    double *a = map(NULL, BYTES, 0), *b = map(NULL, BYTES, 0),
           *c = map(NULL, BYTES, 0);
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    say("before", a, b, c);
    if (setuid(65534) != 0) {
        fprintf(stderr, "not root\n");
        exit(77);
    }
    a[5]++;
    say("after", a, b, c);
    double *d = map(NULL, BYTES, 0);
    fill(d, COUNT, 3);
    say("new", d, b, c);
    (void)prctl(PR_SET_DUMPABLE, 1);
    d[7]++;
    say("dumpable", d, b, c);
}

/* prctl(2), which ferry does not see: it would not follow into the program. */
static long
prctl_unseen(long option, long a, const void *b)
{
    register long c __asm__("r10") = 0, d __asm__("r8") = 0;
    long result = SYS_prctl;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(option), "S"(a), "d"(b), "r"(c), "r"(d)
                     : "rcx", "r11", "memory");
    return result;
}

/* Executes the mode behind a filter, by which userfaultfd(2) fails with that error. */
static void
filtered(char **argv, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    if (prctl_unseen(PR_SET_NO_NEW_PRIVS, 1, NULL) != 0 ||
        prctl_unseen(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fprintf(stderr, "no filter\n");
        exit(77);
    }
    argv[1] = argv[0];
    (void)execv(argv[1], argv + 1);
    exit(1);
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    (void)alarm(PATIENCE_SECONDS);
    if (threads > MOST_THREADS) {
        return 1;
    }
    if (strcmp(mode, "ENOSYS") == 0 || strcmp(mode, "EPERM") == 0) {
        filtered(argv, mode[1] == 'N' ? ENOSYS : EPERM);
    } else if (strcmp(mode, "remap") == 0) {
        remap();
    } else if (strcmp(mode, "userfault") == 0) {
        userfault();
    } else if (strcmp(mode, "huge") == 0) {
        huge();
    } else if (strcmp(mode, "user") == 0) {
        user();
    } else if (strcmp(mode, "forks") == 0) {
        forks(threads);
    } else {
        return 1;
    }
    return 0;
}
