/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that are unusual. Argument: rounding (the program's rounding mode and
 * exception flags hold in calls), files (no descriptor of the program is taken
 * or left), memory (calls while no memory can be had), addresses (while few are
 * left), limits (no threads, no files), streams (stdin, stdout and stderr closed), shared (results go to
 * memory shared with a child), chroot, user (what ferry needs is out of reach).
 */
#include "common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* With FIRST in the environment, a call before things become odd. */
static void
first(void)
{
    if (getenv("FIRST")) {
        printf("first: %ld wrong\n", product_errors(50, 1));
    }
}

static double
third_product(int mode)
{
    enum {
        M = 60
    };
    static double a[M * M], b[M * M], c[M * M];
    const integer n = M;
    const double one = 1, zero = 0;
    double sum = 0;

    for (int i = 0; i < M * M; i++) {
        a[i] = 1.0 / 3;
        b[i] = i / M == i % M ? 1.0 / 7 : 0; /* one product per element */
    }
    fesetround(mode);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    fesetround(FE_TONEAREST);
    for (int i = 0; i < M * M; i++) {
        sum += c[i] != c[0];
    }
    return sum == 0 ? c[0] : NAN;
}

static int
rounding(void)
{
    printf("near %a\n", third_product(FE_TONEAREST));
    printf("up   %a\n", third_product(FE_UPWARD));
    printf("down %a\n", third_product(FE_DOWNWARD));
    printf("near %a\n", third_product(FE_TONEAREST));
    return 0;
}

static int
descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");

    while (folder && readdir(folder)) {
        count++;
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

static int
files(void)
{
    const int before = descriptors();
    const int file = open("/dev/null", O_RDONLY);

    printf("descriptors: %d, next %d\n", before, file);
    printf("%ld wrong\n", product_errors(50, 1));
    printf("next: %d\n", open("/dev/null", O_RDONLY));
    /* A program that closes all it does not know. */
    for (int i = 3; i < 200; i++) {
        close(i);
    }
    printf("%ld wrong\n", product_errors(60, 2));
    printf("next: %d\n", open("/dev/null", O_RDONLY));
    for (int i = 3; i < 60; i++) {
        if (open("/dev/null", O_RDONLY) < 0) {
            break;
        }
    }
    printf("%ld wrong\n", product_errors(61, 3));
    return 0;
}

/* What is left of limited addresses is the program's, but for a part. */
static int
addresses(void)
{
    char text[256] = "";
    FILE *file = fopen("/proc/self/statm", "r");
    const size_t pages =
        file && fgets(text, sizeof text, file) ? strtoul(text, NULL, 10) : 0;
    const struct rlimit limit = {pages * 4096 + (1 << 30),
                                 pages * 4096 + (1 << 30)};
    int blocks = 0;

    if (file) {
        fclose(file);
    }
    setrlimit(RLIMIT_AS, &limit);
    printf("%ld wrong\n", product_errors(200, 1));
    while (blocks < 60 && malloc(10 << 20)) {
        blocks++;
    }
    printf("%d MiB more, %ld wrong\n", 10 * blocks, product_errors(200, 2));
    return 0;
}

static int
memory(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    enum {
        M = 70
    };
    static double a[M * M], b[M * M], c[M * M];
    const integer n = M;
    const double one = 1;

    first();
    fill(a, M * M, 1);
    fill(b, M * M, 2);
    setrlimit(RLIMIT_AS, &limit); /* nothing more can be mapped */
    for (int i = 0; i < 3; i++) {
        dgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &one, c, &n);
    }
    printf("%016llx\n", (unsigned long long)digest(c, M * M));
    return 0;
}

static int
limits(void)
{
    const struct rlimit none = {0, 0}, few = {3, 3};

    first();
    setrlimit(RLIMIT_NOFILE, &few);
    setrlimit(RLIMIT_FSIZE, &none);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_MEMLOCK, &none);
    printf("%ld wrong\n", product_errors(50, 1));
    printf("%ld wrong\n", product_errors(60, 2));
    return 0;
}

static int
streams(void)
{
    close(0);
    close(1);
    close(2);
    const long errors = product_errors(60, 1);
    /* What is opened now gets 0, 1, 2: nothing else may write there. */
    char name[] = "streams-XXXXXX", text[64] = {0};
    const int first = mkstemp(name);
    const int second = dup(first), third = dup(first);
    const long more = product_errors(61, 2);
    const int clean = lseek(first, 0, SEEK_END) == 0;
    unlink(name);
    (void)text;
    return errors + more == 0 && clean && first == 0 && second == 1 &&
                   third == 2
               ? 17
               : 18;
}

static int
shared(void)
{
    enum {
        M = 40
    };
    double *x = mmap(NULL, 3 * M * M * sizeof *x, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const integer n = M;
    const double one = 1;

    fill(x, 3 * M * M, 1);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        dgemm_("N", "N", &n, &n, &n, &one, x, &n, x + M * M, &n, &one,
               x + 2 * M * M, &n);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    printf("%016llx\n", (unsigned long long)digest(x, 3 * M * M));
    return 0;
}

/* A program that sees another file system, or is another user, from then on. */
static int
chrooted(void)
{
    first();
    if (chroot("/proc/self/fdinfo") != 0 || chdir("/") != 0) {
        return 77;
    }
    printf("%ld wrong\n", product_errors(50, 1));
    printf("%ld wrong\n", product_errors(60, 2));
    return 0;
}

static int
dropped(void)
{
    first();
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 77;
    }
    printf("%ld wrong\n", product_errors(50, 1));
    printf("%ld wrong\n", product_errors(60, 2));
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"rounding", rounding},   {"files", files},     {"memory", memory},
        {"addresses", addresses}, {"limits", limits},   {"streams", streams},
        {"shared", shared},       {"chroot", chrooted}, {"user", dropped}};

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0) {
            return modes[i].run();
        }
    }
    return 2;
}
