/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaches the provider at run time: host ACTION FILE [FILE]. Linked to nothing.
 * Prints what it finds; tests/preload/binding.sh compares with a run without
 * the preload.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int function(int);

static void *
open_or_die(const char *file, int mode)
{
    void *handle = dlopen(file, mode);
    if (!handle) {
        puts(dlerror());
        exit(1);
    }
    return handle;
}

static int
call(void *handle, const char *name, int n)
{
    function *f = (function *)dlsym(handle, name);
    if (!f) {
        printf("%s: %s\n", name, dlerror());
        return -1;
    }
    return f(n);
}

static void
run_plugin(const char *file, int mode)
{
    void *handle = open_or_die(file, mode);
    printf("%d\n", call(handle, "run", 5));
    printf("%d\n", call(handle, "run", 6));
}

static void
look_up(const char *file)
{
    void *handle = open_or_die(file, RTLD_NOW);
    errno = 77;
    function *f = (function *)dlsym(handle, "work"),
             *again = (function *)dlsym(handle, "work"),
             *versioned = (function *)dlvsym(handle, "work", "V_1");
    printf("%d %d %d %d\n", f(5), f == again, f == versioned, errno);
    printf("%d\n", call(handle, "work_ifunc", 5));
    printf("%d\n", call(handle, "no_such_function", 5) < 0);
    printf("%d\n", call(handle, "work_absent", 5) < 0);
    printf("%d\n", dlsym(RTLD_DEFAULT, "work_absent") == NULL);
    printf("%d\n", dlsym(RTLD_DEFAULT, "work") == NULL);
    char *error = dlerror();
    printf("%d %d\n", error && strstr(error, "work") != NULL,
           dlerror() == NULL);
    void *self = dlopen(NULL, RTLD_NOW);
    printf("%d %d\n", dlsym(self, "work_absent") == NULL,
           dlsym(self, "work") == NULL);
    printf("%d\n", dlsym(self, "printf") == dlsym(RTLD_DEFAULT, "printf"));
    printf("%d\n", *(int *)dlsym(handle, "work_variable"));
}

enum {
    THREADS = 3,
    FILES = 30
};

/* The FILES * THREADS objects of a folder come first, unless it is NULL. */
static void
make_global(const char *file, const char *folder)
{
    for (int i = 0; folder && i < FILES * THREADS; i++) {
        char other[4096];
        snprintf(other, sizeof other, "%s/%d.so", folder, i);
        open_or_die(other, RTLD_NOW | RTLD_GLOBAL);
    }
    open_or_die(file, RTLD_NOW | RTLD_GLOBAL);
    printf("%d\n", call(RTLD_DEFAULT, "work", 5));
    function *f = (function *)dlsym(RTLD_DEFAULT, "work"),
             *g = (function *)dlsym(dlopen(NULL, RTLD_NOW), "work");
    printf("%d\n", f == g);
}

/* Opens, calls and closes plugins in turn, so that addresses are used again. */
static void
reopen(const char *a, const char *b)
{
    for (int i = 0; i < 6; i++) {
        void *handle = open_or_die(i % 2 ? a : b, RTLD_LAZY);
        printf("%d\n", call(handle, "run", i));
        printf("%d\n", call(handle, "work", i));
        if (dlclose(handle)) {
            puts(dlerror());
        }
    }
    printf("%d\n", dlopen(a, RTLD_NOLOAD | RTLD_NOW) == NULL);
}

static void
two_copies(const char *a, const char *b)
{
    void *first = open_or_die(a, RTLD_NOW), *second = open_or_die(b, RTLD_LAZY);
    for (int i = 0; i < 3; i++) {
        printf("%d %d\n", call(first, "run", i), call(second, "run", i));
        printf("%d %d\n", call(first, "work", i), call(second, "work", i));
    }
    function *f = (function *)dlsym(first, "work"),
             *g = (function *)dlsym(second, "work");
    printf("%d\n", f == g);
}

struct opener {
    const char *folder;
    int number, wrong;
};

/* Each thread has files of its own, closes every other, and calls them all. */
static void *
open_many(void *argument)
{
    struct opener *opener = argument;
    for (int i = 0; i < 2 * FILES; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%d.so", opener->folder,
                 opener->number * FILES + i % FILES);
        void *handle = open_or_die(file, RTLD_NOW | RTLD_LOCAL);
        function *f = (function *)dlsym(handle, "run");
        opener->wrong += !f || f(i) != i + 2000;
        if (i % 2) {
            dlclose(handle);
        }
    }
    return NULL;
}

static void
open_at_once(const char *folder)
{
    pthread_t threads[THREADS];
    struct opener openers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        openers[i] = (struct opener){folder, i, 0};
        if (pthread_create(&threads[i], NULL, open_many, &openers[i])) {
            exit(1);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("%d\n", openers[i].wrong);
    }
}

int
main(int argc, char **argv)
{
    const char *action = argc > 2 ? argv[1] : "";
    if (strcmp(action, "lazy") == 0) {
        run_plugin(argv[2], RTLD_LAZY);
    } else if (strcmp(action, "now") == 0) {
        run_plugin(argv[2], RTLD_NOW);
    } else if (strcmp(action, "deep-lazy") == 0) {
        run_plugin(argv[2], RTLD_LAZY | RTLD_DEEPBIND);
    } else if (strcmp(action, "deep-now") == 0) {
        run_plugin(argv[2], RTLD_NOW | RTLD_DEEPBIND);
    } else if (strcmp(action, "dlsym") == 0) {
        look_up(argv[2]);
    } else if (strcmp(action, "global") == 0) {
        make_global(argv[2], argv[3]); /* or NULL */
    } else if (strcmp(action, "at-once") == 0) {
        if (argc > 3) { /* the engine is loaded before */
            printf("%d\n", call(open_or_die(argv[3], RTLD_NOW), "run", 0));
        }
        open_at_once(argv[2]);
    } else if (strcmp(action, "reopen") == 0 && argc > 3) {
        reopen(argv[2], argv[3]);
    } else if (strcmp(action, "two") == 0 && argc > 3) {
        two_copies(argv[2], argv[3]);
    } else {
        return 2;
    }
    return 0;
}
