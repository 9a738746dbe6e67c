#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# valgrind finds in a program under ferry what it finds without: nothing of ferry's. Calls
# run their originals, and the report says so.
srcdir=$(cd "${FERRY_SRCDIR:-$(dirname "$0")/../..}" && pwd)
ferry=$(cd "${FERRY_BUILDDIR:-.}" && pwd)/ferry
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
command -v valgrind >/dev/null || skip_all "valgrind is not installed"
cc=${CC:-cc}
$cc --version >/dev/null 2>&1 || skip_all "no C compiler"
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
cd "$t" || exit 99
cat >calls.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { N = 40 };
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
static double multiply(void)
{
    const int n = N;
    const double one = 1, zero = 0;
    double *a = malloc(3 * sizeof *a * N * N), *b = a + N * N, *c = b + N * N, sum = 0;
    for (int i = 0; i < N * N; i++) a[i] = i % 7, b[i] = i % 5, c[i] = 0;
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    for (int i = 0; i < N * N; i++) sum += c[i];
    free(a);
    return sum;
}
static void *run(void *unused)
{
    (void)unused;
    printf("%g\n", multiply());
    return NULL;
}
static volatile double seen;
static void handle(int number)
{
    (void)number;
    seen = multiply();
}
int main(int argc, char **argv)
{
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 3; i++) run(NULL);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    signal(SIGUSR1, handle);
    raise(SIGUSR1);
    printf("%g\n", seen);
    void *library = dlopen("./late.so", RTLD_NOW | RTLD_GLOBAL);
    void (*late)(void);
    if (!library) return puts(dlerror()), 1;
    *(void **)&late = dlsym(library, "late");
    late();
    *(void **)&late = dlsym(library, "ddot_");
    printf("%d\n", late != NULL);
    if (argc == 1) dlclose(library);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(NULL);
        execlp("echo", "echo", "exec", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    char line[16] = "";
    FILE *stream = popen("echo popen", "r");
    printf("%s", fgets(line, sizeof line, stream));
    int status = pclose(stream) | system("echo system");
    if (argc > 1 && strcmp(argv[1], "error") == 0) {
        double *one = malloc(sizeof *one);
        if (*one > 1) puts("more");
        free(one);
    }
    return status;
}
END
cat >late.c <<'END'
#include <stdio.h>
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);
double cblas_ddot(int n, const double *x, int incx, const double *y, int incy);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy)
{
    return *n * *x * *incx + *y * *incy;
}
double cblas_ddot(int n, const double *x, int incx, const double *y, int incy) { return ddot_(&n, x, &incx, y, &incy); }
END
cat >plugin.c <<'END'
#include <stdio.h>
double cblas_ddot(int, const double *, int, const double *, int);
void late(void)
{
    double x[3] = {1, 2, 3};
    for (int i = 0; i < 2; i++) printf("%g\n", cblas_ddot(3, x, 1, x, 1));
}
END
$cc -w -g -shared -fPIC -o libdgemm.so "$srcdir/tests/preload/imports_blas.c" &&
    $cc -w -g -shared -fPIC -o libdot.so late.c && $cc -w -g -shared -fPIC -o late.so plugin.c -L. -ldot -Wl,-rpath,"$t" &&
    $cc -w -g -pthread -o calls calls.c -L. -ldgemm -Wl,-rpath,"$t" -ldl || exit 99

# judge NAME ARGUMENT OPTIONS...: the same under valgrind with and without ferry
judge()
{
    name=$1 argument=$2
    shift 2
    # shellcheck disable=SC2086
    kept plain valgrind -q --error-exitcode=9 "$@" ./calls $argument
    # shellcheck disable=SC2086
    kept ferry "$ferry" run --no-discover $options -- valgrind -q --error-exitcode=9 "$@" ./calls $argument
    sed -i 's/^==[0-9]*==/==/' plain.err ferry.err # numbers of processes
    alike "$name, $options" plain ferry
}
for options in "--device none" "--device host" "--device host --force"; do
    judge memcheck ""
done
equal "memcheck finds nothing" "$(cat plain.err plain.status)" 0
judge "memcheck of children and leaks" "" --trace-children=yes --leak-check=full --show-leak-kinds=definite
judge helgrind kept --tool=helgrind
judge drd kept --tool=drd
judge "an error of the program's own" error
equal "... and its status" "$(cat ferry.status) $(grep -c Conditional ferry.err)" "9 1"
kept ferry "$ferry" run --no-discover --device host --force --report -- valgrind -q ./calls
equal "the report says it" "$(awk '$1 == "dgemm" { getline next_line; print $2, $3, next_line }' ferry.err)" \
    "6 0     declined: valgrind 6"
finish
