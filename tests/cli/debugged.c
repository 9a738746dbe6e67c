/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that multiplies two matrices and looks at its descriptors, for
 * tests/cli/debug.sh: what the debug log does is not to be seen here. Prints one line;
 * status 1 where something is not as it should be, 77 without a BLAS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N = 96
};

typedef void gemm_fn(const char *, const char *, const int *, const int *,
                     const int *, const double *, const double *, const int *,
                     const double *, const int *, const double *, double *,
                     const int *);

static gemm_fn *gemm;
static double a[N * N], b[N * N], c[N * N];

/* The sum of the product's elements: N^3 where every element is 1. */
static double
multiply(void)
{
    const int n = N;
    const double one = 1, zero = 0;
    double sum = 0;
    for (int i = 0; i < N * N; i++) {
        a[i] = b[i] = 1;
    }
    gemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    for (int i = 0; i < N * N; i++) {
        sum += c[i];
    }
    return sum;
}

/* Closes from `first' on; the program's next file has that number, and its content. */
static int
closes(unsigned first, const char *file)
{
    char text[16] = "";
    (void)multiply();
    closefrom((int)first);
    (void)multiply();
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    (void)multiply();
    if (fd != (int)first || write(fd, "mine", 4) != 4) {
        return 1;
    }
    (void)multiply();
    return lseek(fd, 0, SEEK_CUR) != 4 ||
           pread(fd, text, sizeof text, 0) != 4 || strcmp(text, "mine") != 0;
}

static int
forks(void)
{
    int status = 1;
    (void)multiply();
    pid_t pid = fork();
    if (pid == 0) {
        _exit(multiply() == (double)N * N * N ? 0 : 1);
    }
    return waitpid(pid, &status, 0) != pid || status != 0;
}

/* The kernel says of a path that is no address what it always does. */
static int
starts_nothing(void)
{
    char *argv[] = {"none", NULL}, *variables[] = {NULL};
    const char *volatile path = (const char *)(uintptr_t)1;
    errno = 0;
    (void)execve(path, argv, variables);
    return errno != EFAULT;
}

/* A filter of system calls that lets no file be opened: nor does ferry open one. */
static int
filters(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    (void)multiply();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
        return 1;
    }
    return forks();
}

int
main(int argc, char **argv)
{
    void *blas = dlopen("libblas.so.3", RTLD_NOW);
    gemm = blas ? (gemm_fn *)dlsym(blas, "dgemm_") : NULL;
    if (!gemm || argc < 2) {
        return 77;
    }
    int status = 0;
    if (strcmp(argv[1], "closes") == 0) {
        status = closes((unsigned)atoi(argv[2]), argv[3]);
    } else if (strcmp(argv[1], "forks") == 0) {
        status = forks();
    } else if (strcmp(argv[1], "starts") == 0) {
        status = starts_nothing();
    } else if (strcmp(argv[1], "filters") == 0) {
        status = filters();
    } else if (strcmp(argv[1], "limit") == 0) {
        const struct rlimit none = {0, RLIM_INFINITY};
        const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
        status = setrlimit(RLIMIT_FSIZE, &none);
        (void)multiply();
        status = status || setrlimit(RLIMIT_FSIZE, &all);
    }
    printf("%.0f\n", multiply());
    return status;
}
