/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Habits of programs that a watcher of their memory could disturb, or miss a write by: a
 * mode each. Each product is printed as a sum; all numbers are whole and small.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum {
    N = 192, /* 288 KiB, whole pages */
    COUNT = N * N,
    BYTES = COUNT * 8,
    PAGE = 4096,
    MANY = 200,
};

void dgetrf_(const integer *m, const integer *n, double *a, const integer *lda,
             integer *pivots, integer *info);
void dgetri_(const integer *n, double *a, const integer *lda,
             const integer *pivots, double *work, const integer *lwork,
             integer *info);

static double *a, *b, *c;

static double *
map(void)
{
    double *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

static unsigned
product(void)
{
    const double one = 1, zero = 0;
    const integer n = N;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return (unsigned)(digest(c, COUNT) % 1000000);
}

/* A product of what may be on the device, and one of what surely is. */
static void
say(const char *when)
{
    unsigned first = product();
    printf("%s: %u %u\n", when, first, product());
    (void)fflush(stdout);
}

static int
open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 800; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* ---- the process ------------------------------------------------------------------ */

static void *
outlive(void *leader)
{
    (void)pthread_join(*(pthread_t *)leader, NULL);
    say("alone");
    a[3]++;
    say("changed");
    exit(0);
}

/* The first thread ends, and /proc/self has no memory any more. */
static void
leader(void)
{
    static pthread_t self;
    pthread_t other;
    self = pthread_self();
    say("before");
    if (pthread_create(&other, NULL, outlive, &self) == 0) {
        pthread_exit(NULL);
    }
}

/* By all ways to close what a program does not know. */
static void
closed(void)
{
    say("before");
    printf("%d open\n", open_descriptors());
    (void)close_range(3, ~0U, 0);
    a[3]++;
    say("closed");
    int file = open("/dev/null", O_WRONLY);
    printf("descriptor %d\n", file);
    for (int fd = 890; fd < 1000; fd++) {
        (void)dup2(file, fd);
    }
    b[5]++;
    a = map();
    fill(a, COUNT, 4);
    say("taken");
    for (int fd = 890; fd < 1000; fd++) {
        printf("%d", fcntl(fd, F_GETFD) >= 0);
    }
    printf("\n");
}

/* All descriptors that the limit leaves can be had. */
static void
few(unsigned limit)
{
    struct rlimit lower = {limit, limit};
    int count = 0;
    (void)setrlimit(RLIMIT_NOFILE, &lower);
    say("few");
    a[3]++;
    while (dup(0) >= 0) {
        count++;
    }
    say("none");
    printf("%d free\n", count);
}

static void
locked(void)
{
    printf("%d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
    say("locked");
    a[3]++;
    b = map();
    fill(b, COUNT, 4);
    say("new");
    printf("%d\n", munlockall());
    a[4]++;
    say("unlocked");
}

/* No more memory than the program needs; ferry has its own already. */
static void
space(void)
{
    unsigned long pages = 0;
    say("before");
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%lu", &pages) != 1) {
        exit(1);
    }
    (void)fclose(file);
    struct rlimit lower = {pages * PAGE + 2 * BYTES, pages * PAGE + 2 * BYTES};
    (void)setrlimit(RLIMIT_AS, &lower);
    a = map();
    fill(a, COUNT, 4);
    say("one more");
    a[9]--;
    say("changed");
}

/* ---- writes by others ---------------------------------------------------------------- */

static void
child_writes(int how, double *at, double value)
{
    int status;
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        char path[40];
        struct iovec from = {&value, 8}, to = {at, 8};
        (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)parent);
        int memory = how ? open(path, O_RDWR) : -1;
        _exit((how ? pwrite(memory, &value, 8, (off_t)(uintptr_t)at)
                   : process_vm_writev(parent, &from, 1, &to, 1, 0)) != 8);
    }
    (void)waitpid(child, &status, 0);
    printf("child: %d\n", status);
}

static void
written(void)
{
    char path[] = "/tmp/habitsXXXXXX";
    int file = mkstemp(path), ends[2];
    double *from;
    (void)unlink(path);
    from = map();
    fill(from, COUNT, 7);
    if (file < 0 || write(file, from, BYTES) != BYTES || pipe(ends) != 0) {
        exit(1);
    }
    say("before");
    child_writes(0, a + 100, 7);
    say("process_vm_writev");
    child_writes(1, a + 2000, 7);
    say("/proc/PID/mem");
    if (pread(file, a, 2 * PAGE, PAGE) != 2 * PAGE) {
        exit(1);
    }
    say("pread");
    (void)fcntl(file, F_SETFL, O_DIRECT);
    if (pread(file, a + COUNT / 2, 2 * PAGE, 0) != 2 * PAGE) {
        exit(1);
    }
    say("O_DIRECT");
    struct iovec page = {from, PAGE};
    if (vmsplice(ends[1], &page, 1, 0) != PAGE ||
        read(ends[0], b + PAGE, PAGE) != PAGE) {
        exit(1);
    }
    say("vmsplice");
}

/* fork(2) of the kernel alone: no handler has run in the child. */
static void
raw_fork(void)
{
    int status;
    say("before");
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        a[3] += 2;
        say("child");
        a[4] += 2;
        say("child again");
        _exit(0);
    }
    a[3]--;
    (void)waitpid((pid_t)child, &status, 0);
    say("parent");
    printf("%d\n", status);
}

static int
write_and_end(void *unused)
{
    (void)unused;
    a[3] += 2;
    b[9000] -= 2;
    return 0;
}

static void
shared_child(void)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    say("before");
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = clone(write_and_end, stack + sizeof stack,
                            CLONE_VM | SIGCHLD, NULL);
        (void)waitpid(child, &status, 0);
        say("written");
    }
}

/* The child goes on with all of it, the parent ends. */
static void
daemon_child(void)
{
    int status;
    say("before");
    pid_t child = fork();
    if (child == 0) {
        (void)close_range(3, ~0U, 0);
        (void)setsid();
        a[3]++;
        say("daemon");
        a[4]++;
        pid_t next = fork();
        if (next == 0) {
            b[4]++;
            say("its child");
            _exit(0);
        }
        (void)waitpid(next, &status, 0);
        say("daemon again");
        _exit(status != 0);
    }
    (void)waitpid(child, &status, 0);
    printf("%d\n", status);
}

/* ---- the kernel's word on pages ------------------------------------------------------ */

static void
refs(void)
{
    static const char *const words[] = {"1", "4", "3"};
    say("before");
    for (unsigned i = 0; i < 3; i++) {
        int file = open("/proc/self/clear_refs", O_WRONLY);
        printf("%s: %d\n", words[i], (int)write(file, words[i], 1));
        (void)close(file);
        a[600 * i]++;
        say("cleared");
    }
    static const int advice[] = {
        20 /* MADV_COLD */, 21 /* MADV_PAGEOUT */,        MADV_MERGEABLE,
        MADV_DONTFORK,      23 /* MADV_POPULATE_WRITE */, MADV_FREE};
    for (unsigned i = 0; i < sizeof advice / sizeof *advice; i++) {
        int done = madvise(a, BYTES, advice[i]);
        if (advice[i] == MADV_FREE) {
            fill(a, COUNT, 8);
        }
        a[700 * i]++;
        printf("%d: %d\n", advice[i], done);
        say("advised");
    }
}

static void protected(void)
{
    say("before");
    (void)mprotect(a, BYTES, PROT_READ);
    say("read only");
    (void)mprotect(a, BYTES / 2, PROT_READ | PROT_WRITE);
    a[3]++;
    say("half");
    (void)mprotect(a, PAGE, PROT_NONE);
    (void)mprotect(a, BYTES, PROT_READ | PROT_WRITE);
    a[COUNT - 1]++;
    say("again");
    (void)mprotect(c, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    say("executable");
}

/* A driver that ferry does not know may write memory on its own. */
static void
device(void)
{
    say("before");
    int driver = open("/dev/kmsg", O_RDONLY);
    a[3]++;
    say("open");
    a[4]++;
    say("still");
    (void)close(driver);
    a[5]++;
    say("closed");
}

static void
many(void)
{
    double *all[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        a = all[i] = map();
        fill(a, COUNT, i);
        printf("%u ", product());
    }
    for (unsigned i = 0; i < MANY; i++) {
        a = all[i * 7 % MANY];
        a[i]++;
        printf("%u ", product());
        (void)munmap(all[(i * 7 + 3) % MANY], i % 5 ? 0 : BYTES);
        all[(i * 7 + 3) % MANY] = i % 5 ? all[(i * 7 + 3) % MANY] : map();
    }
    printf("\n");
}

/* A matrix in whose place its inverse is computed, while it is read. */
static void
inverse(void)
{
    static integer pivots[N];
    const integer n = N, room = COUNT;
    integer info = 0;
    for (int round = 0; round < 4; round++) {
        memset(a, 0, BYTES);
        for (int i = 0; i < N; i++) {
            a[i * (N + 1)] = 1 << (i + round) % 5;
        }
        dgetrf_(&n, &n, a, &n, pivots, &info);
        dgetri_(&n, a, &n, pivots, c, &room, &info);
        double sum = 0;
        for (int i = 0; i < COUNT; i++) {
            sum += a[i];
        }
        printf("%d %g\n", info, sum);
    }
}

/* Elimination by blocks in one matrix, whose columns are longer than a page, after a
 * product with all of it. Blocks lie between one another in memory. */
static void
blocks(void)
{
    enum {
        WIDE = 576,
        STEP = 192,
        FEW = 32,
    };
    static double all[WIDE * WIDE];
    const double minus = -1, one = 1, zero = 0;
    const integer wide = WIDE, step = STEP, few_rows = FEW;
    for (int k = STEP; k < WIDE; k += STEP) {
        const integer rest = WIDE - k;
        double *left = all + (size_t)(k - STEP) * WIDE + k;
        double *above = all + (size_t)k * WIDE + k - STEP;
        dgemm_("N", "N", &few_rows, &wide, &wide, &one, b, &few_rows, all,
               &wide, &zero, c, &few_rows);
        for (int i = 0; i < WIDE * WIDE; i++) {
            all[i] = (double)(((long)all[i] + i * 7L) % 5);
        }
        dgemm_("N", "N", &rest, &rest, &step, &minus, left, &wide, above, &wide,
               &one, all + (size_t)k * WIDE + k, &wide);
        printf("%d: %llu %llu\n", k, (unsigned long long)digest(c, FEW * WIDE),
               (unsigned long long)digest(all, WIDE * WIDE));
    }
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"leader", leader},
                 {"closed", closed},
                 {"locked", locked},
                 {"space", space},
                 {"written", written},
                 {"raw-fork", raw_fork},
                 {"shared-child", shared_child},
                 {"daemon", daemon_child},
                 {"refs", refs},
                 {"protected", protected},
                 {"device", device},
                 {"many", many},
                 {"inverse", inverse},
                 {"blocks", blocks}};

    a = map();
    b = map();
    c = map();
    fill(a, COUNT, 1);
    fill(b, COUNT, 2);
    if (argc == 3 && strcmp(argv[1], "few") == 0) {
        few((unsigned)atoi(argv[2]));
        return 0;
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (argc == 2 && strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    return 1;
}
