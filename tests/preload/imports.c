/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that defines every function of libc and libm that ferry's objects import
 * (own.S, made by imports.sh). Who calls one ends the program with status 99 and its name
 * on stderr, but for malloc() and its kin, which are a real allocator that knows its own
 * blocks. The program itself finds libc's functions by dlvsym(). Its dgemm_() is in
 * imports_blas.c.
 *   imports             offloaded calls, also in a forked child, and started commands
 *   imports exec FILE   becomes `cat FILE'
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>

void dgemm_(const char *transa, const char *transb, const int *m, const int *n,
            const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);
void imports_called(const char *name);
extern char **environ;

enum {
    ORDER = 300,
    BLOCK_BYTES = 32,
    ARENA_BYTES = 512 << 20,
};
static const size_t mark = 0x6665727279;
static double a[ORDER * ORDER], b[ORDER * ORDER], c[ORDER * ORDER];

static long
ask_kernel(long number, long x, long y, long z)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(x), "S"(y), "d"(z)
                     : "rcx", "r11", "memory");
    return result;
}

static size_t
length(const char *text)
{
    size_t n = 0;
    while (text[n]) {
        n++;
    }
    return n;
}

static void
say(int fd, const char *text)
{
    (void)ask_kernel(SYS_write, fd, (long)text, (long)length(text));
}

static void
end(const char *what, const char *name)
{
    say(2, what);
    say(2, name);
    say(2, "\n");
    (void)ask_kernel(SYS_exit_group, 99, 0, 0);
}

void
imports_called(const char *name)
{
    end("called: ", name);
}

/* ---- memory ------------------------------------------------------------------- */

struct block {
    size_t mark, bytes;
} __attribute__((aligned(16)));
static char arena[ARENA_BYTES] __attribute__((aligned(16)));
static size_t arena_used;

static struct block *
block_of(void *memory)
{
    struct block *block = (struct block *)memory - 1;
    if ((char *)memory < arena || (char *)memory >= arena + ARENA_BYTES ||
        block->mark != mark) {
        end("not the program's memory: ", "free");
    }
    return block;
}

void *
malloc(size_t bytes)
{
    size_t room = (bytes + sizeof(struct block) + 15) & ~(size_t)15;
    size_t at = __atomic_fetch_add(&arena_used, room, __ATOMIC_RELAXED);
    if (at + room > ARENA_BYTES) {
        end("no memory", "");
    }
    struct block *block = (struct block *)(arena + at);
    *block = (struct block){mark, bytes};
    return block + 1;
}

void *
calloc(size_t n, size_t bytes)
{
    return malloc(n * bytes); /* nothing is used twice: zeros */
}

void
free(void *memory)
{
    if (memory) {
        block_of(memory)->mark = mark + 1;
    }
}

void *
realloc(void *memory, size_t bytes)
{
    volatile char *from = memory, *to = malloc(bytes);
    for (size_t i = 0; memory && i < block_of(memory)->bytes && i < bytes;
         i++) {
        to[i] = from[i];
    }
    free(memory);
    return (void *)(size_t)to;
}

/* ---- what it does --------------------------------------------------------------- */

static void *
libc(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
    if (!found) {
        end("libc has no ", name);
    }
    return found;
}

static const char *
multiply(void)
{
    const int n = ORDER;
    const double one = 1, zero = 0;
    for (int i = 0; i < n * n; i++) {
        a[i] = i % 7;
        b[i] = i % 5;
        c[i] = -1;
    }
    for (int i = 0; i < 3; i++) {
        dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += a[i * n] * b[i];
    }
    return c[0] == sum ? "right\n" : "wrong\n";
}

static void
wait_for(pid_t child)
{
    int status = -1;
    pid_t (*wait)(pid_t, int *, int);
    *(void **)&wait = libc("waitpid");
    if (wait(child, &status, 0) != child || status) {
        end("a child failed", "");
    }
}

int
main(int argc, char **argv)
{
    extern int execv(const char *, char *const *), system(const char *);
    pid_t (*fork_it)(void), child;
    if (argc == 3) {
        char *words[] = {"cat", argv[2], NULL};
        return execv("/bin/cat", words), 1;
    }
    say(1, multiply());
    *(void **)&fork_it = libc("fork");
    child = fork_it();
    if (child == 0) {
        say(1, multiply());
        char *words[] = {"echo", "exec", NULL};
        execv("/bin/echo", words);
    }
    wait_for(child);
    char *words[] = {"echo", "spawn", NULL};
    if (posix_spawn(&child, "/bin/echo", NULL, NULL, words, environ)) {
        end("no spawn", "");
    }
    wait_for(child);
    if (system("echo system")) {
        end("no system", "");
    }
    char line[16] = "";
    FILE *stream = popen("echo popen", "r");
    size_t (*get)(void *, size_t, size_t, FILE *);
    *(void **)&get = libc("fread");
    say(1, get(line, 1, 6, stream) == 6 ? line : "no popen\n");
    return pclose(stream);
}
