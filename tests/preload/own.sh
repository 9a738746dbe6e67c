#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs and libraries with functions and variables of their own that have names of
# BLAS, or of functions of libc that ferry calls: they run as without ferry.
srcdir=${FERRY_SRCDIR:-$(dirname "$0")/../..}
ferry=$(cd "${FERRY_BUILDDIR:-.}" && pwd)/ferry
. "$srcdir/tests/tap.sh"
[ -z "${FERRY_SANITIZED-}" ] || skip_all "sanitized libraries cannot be preloaded"
t=$(mktemp -d) || exit 99
trap 'rm -rf "$t"' EXIT
cd "$t" || exit 99
cat >own.c <<'END'
double drot[4] = {1, 2, 3.5, 4};
int srot = 77;
double (*dscal)(double);
double ddot(int n, const double *x, int incx, const double *y, int incy)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i * incx] * y[i * incy];
    return sum;
}
int isamax(int n, const float *x, int incx) { return x && incx ? n : 0; }
END
cat >use.c <<'END'
#include <stdio.h>
extern double drot[4], (*dscal)(double);
extern int srot;
double ddot(int, const double *, int, const double *, int);
int isamax(int, const float *, int);
int main(void)
{
    double x[3] = {1, 2, 3};
    float f[3] = {1, 2, 3};
    printf("%g %d %d %g %d\n", drot[2], srot, dscal == NULL, ddot(3, x, 1, x, 1), isamax(3, f, 1));
    return 0;
}
END
cc=${CC:-cc}
$cc -shared -fPIC -o libown.so own.c && for pie in -pie -no-pie; do
    $cc -fPIE $pie -o use$pie use.c -L. -lown -Wl,-rpath,"$t" || break
done || skip_all "no compiler"
for pie in -pie -no-pie; do
    for options in "--device host" "--device host --force" "--device host --verify" "--device none"; do
        # shellcheck disable=SC2086
        equal "own names, $pie, $options" "$("$ferry" run --no-discover $options -- ./use$pie 2>error)" \
            "3.5 77 1 14 3"
    done
done
# dl_iterate_phdr: of a sanitizer that is not ready, and with a list taken once, which
# does not have the plugin.
echo 'int main(void) { return 3; }' >three.c
if $cc -fsanitize=thread -static-libtsan -o three three.c 2>error && ./three; [ $? -eq 3 ]; then
    "$ferry" run --no-discover --device host -- ./three 2>error
    equal "a static ThreadSanitizer" "$? $(cat error)" "3 "
else
    skip "a static ThreadSanitizer" "gcc has no libtsan.a"
fi
cat >list.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
static struct dl_phdr_info list[64];
static int count;
static int keep(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (count < 64) list[count++] = *info;
    return 0;
}
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *closure)
{
    static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    int stop = 0;
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
        real(keep, NULL);
    }
    for (int i = 0; i < count && !stop; i++) stop = visit(&list[i], sizeof list[i], closure);
    return stop;
}
int main(void)
{
    dl_iterate_phdr(keep, NULL);
    void *plugin = dlopen("./plugin.so", RTLD_NOW);
    double (*sum)(void);
    if (!plugin) return puts(dlerror()), 1;
    *(void **)&sum = dlsym(plugin, "sum");
    printf("%g\n", sum());
    return 0;
}
END
cat >plugin.c <<'END'
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
static double a[90000], c[90000];
double sum(void)
{
    double s = 0;
    for (int i = 0; i < 90000; i++) a[i] = i % 7;
    cblas_dgemm(102, 111, 111, 300, 300, 300, 1, a, 300, a, 300, 0, c, 300);
    for (int i = 0; i < 90000; i++) s += c[i];
    return s;
}
END
if $cc -shared -fPIC -o plugin.so plugin.c -lblas 2>error && $cc -rdynamic -o list list.c -ldl; then
    wanted=$(./list)
    for options in "--device host" "--device host --force"; do
        # shellcheck disable=SC2086
        equal "a list of objects that is kept, $options" \
            "$("$ferry" run --no-discover $options -- ./list 2>&1)" "$wanted"
    done
else
    skip "a list of objects that is kept" "libblas is not installed"
fi
# Who asks where a function of BLAS or libc comes from hears of the library that has it:
# by names, in a library that was opened and one that looks at home first, by flags.
cat >asks.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
void dgemm_(void);
static void tell(const char *name, void *function)
{
    Dl_info info = {0}, other = {0};
    struct link_map *map = NULL;
    ElfW(Sym) *symbol = NULL;
    int found = dladdr(function, &info) && dladdr1(function, &other, (void **)&map, RTLD_DL_LINKMAP) &&
                dladdr1(function, &other, (void **)&symbol, RTLD_DL_SYMENT);
    if (!found || !map || !symbol || !info.dli_sname) {
        printf("%s: nothing\n", name);
        return;
    }
    printf("%s: %s %s %s %d %d %d\n", name, info.dli_fname, info.dli_sname, map->l_name,
           info.dli_saddr == (char *)info.dli_fbase + symbol->st_value, map->l_addr == (ElfW(Addr))info.dli_fbase,
           other.dli_saddr == info.dli_saddr);
}
int main(int argc, char **argv)
{
    tell("a reference", (void *)dgemm_);
    tell("of libc", dlsym(RTLD_DEFAULT, "execve"));
    tell("dlsym itself", dlsym(RTLD_DEFAULT, "dlsym"));
    tell("by name", dlsym(RTLD_DEFAULT, "dgemm_"));
    tell("behind the program", dlsym(RTLD_NEXT, "dgemm_"));
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | (i == 2 ? RTLD_DEEPBIND : 0));
        void (*look)(void (*)(const char *, void *));
        if (!library) return puts(dlerror()), 1;
        tell("in what was opened", dlsym(library, "ddot"));
        *(void **)&look = dlsym(library, "look");
        look(tell);
    }
    return 0;
}
END
cat >looks.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
double ddot(int n, const double *x, int incx, const double *y, int incy) { return n + *x + incx + *y + incy; }
void look(void (*tell)(const char *, void *))
{
    Dl_info info = {0};
    tell("its own", (void *)ddot);
    tell("by name", dlsym(RTLD_DEFAULT, "dgemm_"));
    printf("%d %s\n", dladdr((void *)ddot, &info), info.dli_fname);
}
END
if $cc -w -shared -fPIC -o looks.so looks.c 2>error && cp looks.so deep.so &&
    $cc -w -fPIE -pie -o asks-pie asks.c -lblas -ldl 2>error && $cc -w -fPIE -no-pie -o asks-no-pie asks.c -lblas -ldl; then
    for pie in -pie -no-pie; do
        kept plain ./asks$pie ./looks.so ./deep.so
        for device in host none; do
            kept ferry "$ferry" run --no-discover --device $device -- ./asks$pie ./looks.so ./deep.so
            alike "dladdr, $pie, $device" plain ferry
        done
    done
else
    skip "dladdr" "libblas is not installed"
fi
finish
