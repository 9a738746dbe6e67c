/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a library stays that was opened with RTLD_GLOBAL and closed, while others
 * have found its work(): kept ACTION LIBRARY PLUGIN [LIBRARY PLUGIN].
 * -DLIBRARY: work(), and a word when it goes. -DPLUGIN: asks for work() in every way;
 * -DSLOW: its constructor tells so and takes its time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int function(int);

#ifdef LIBRARY

int
work(int n)
{
    return TAG + n;
}

#ifndef SILENT
__attribute__((destructor)) static void
gone(void)
{
    printf("%d goes\n", TAG);
}
#endif

#else

int work(int);

/* What this object finds: by name, with a version, as the next one, by itself. */
function *
ask(char how)
{
    switch (how) {
    case 'd':
        return (function *)dlsym(RTLD_DEFAULT, "work");
    case 'v':
        return (function *)dlvsym(RTLD_DEFAULT, "work", "V_1");
    case 'n':
        return (function *)dlsym(RTLD_NEXT, "work");
    case 'c':
        printf("called: %d\n", work(1));
        break;
    }
    return NULL;
}

int
again(int n)
{
    return work(n);
}

#ifdef PLUGIN

__attribute__((destructor)) static void
gone(void)
{
    puts("a plugin goes");
}

#ifdef SLOW
__attribute__((constructor)) static void
comes(void)
{
    if (write(100, "", 1) == 1) {
        usleep(300000);
    }
}
#endif

#ifdef TABLE
function *const table[] = {work};

function *
first(void)
{
    return table[0];
}
#endif

#else

static void *
open_file(const char *file, int mode)
{
    void *handle = dlopen(file, mode);
    if (!handle) {
        puts(dlerror());
        exit(1);
    }
    return handle;
}

/* The closed library's memory is used for something else, if it is free. */
static void
finish(const char *what, function *f, void *close_last)
{
    void *other = dlopen("libm.so.6", RTLD_NOW);
    printf("%s: %d\n", what, f(5));
    dlclose(other);
    if (close_last) {
        dlclose(close_last);
    }
    puts("closed");
}

static int
is_there(const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
    if (handle) {
        dlclose(handle);
    }
    return handle != NULL;
}

/* The program finds it. */
static void
by_program(char how, const char *library)
{
    void *handle = open_file(library, RTLD_NOW | RTLD_GLOBAL);
    function *f = ask(how);
    dlclose(handle);
    printf("there: %d\n", is_there(library));
    finish("program", f ? f : again, NULL);
}

/* Asked by a handle, or for the next one: it goes. */
static void
by_handle(const char *library)
{
    void *handle = open_file(library, RTLD_NOW | RTLD_GLOBAL);
    function *f = (function *)dlsym(handle, "work");
    function *all = (function *)dlsym(dlopen(NULL, RTLD_NOW), "work");
    function *next = ask('n');
    printf("%d %d %d %d\n", f(1), all(2), next(3), f == all);
    dlclose(handle);
    printf("there: %d\n", is_there(library));
}

/* A plugin finds it: it stays as long as that. */
static void
by_plugin(char how, int mode, const char *library, const char *plugin)
{
    void *handle = open_file(library, RTLD_NOW | RTLD_GLOBAL);
    for (int i = 0; i < 2; i++) {
        void *user = open_file(plugin, mode);
        function *f = NULL;
        if (how == 't') {
            f = ((function * (*)(void)) dlsym(user, "first"))();
        } else if (how != '-') {
            f = ((function * (*)(char)) dlsym(user, "ask"))(how);
        }
        dlclose(handle);
        printf("there: %d\n", is_there(library));
        finish("plugin", f ? f : (function *)dlsym(user, "again"), user);
        printf("there: %d\n", is_there(library));
        handle = open_file(library, RTLD_NOW | RTLD_GLOBAL);
    }
    dlclose(handle);
}

/* A thread with 16 KiB of stack makes the first call. */
static void *
call_in_thread(void *again)
{
    printf("thread: %d\n", ((function *)again)(1));
    return NULL;
}

static void
by_thread(const char *library, const char *plugin)
{
    void *handle = open_file(library, RTLD_NOW | RTLD_GLOBAL);
    void *user = open_file(plugin, RTLD_LAZY);
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16 << 10);
    pthread_create(&thread, &attributes, call_in_thread, dlsym(user, "again"));
    pthread_join(thread, NULL);
    dlclose(handle);
    finish("thread", (function *)dlsym(user, "again"), user);
}

/* What dlerror() says after an answer, and after none. */
static void
by_error(const char *library)
{
    void *handle = open_file(library, RTLD_NOW | RTLD_GLOBAL);
    (void)dlsym(RTLD_DEFAULT, "no_such_function");
    (void)dlsym(RTLD_DEFAULT, "work");
    printf("%d\n", dlerror() == NULL);
    (void)dlsym(RTLD_DEFAULT, "work");
    (void)dlsym(RTLD_DEFAULT, "no_such_function");
    again(1); /* bound now */
    const char *error = dlerror();
    printf("%d\n", error && strstr(error, "no_such_function"));
    dlclose(handle);
}

/* Each plugin has one, which no other object sees; the program calls. */
static void
by_two(char **files)
{
    void *plugin[2];
    function *found[2];
    for (int i = 0; i < 2; i++) {
        plugin[i] = open_file(files[2 * i + 1], RTLD_NOW | RTLD_LOCAL);
        found[i] = ((function * (*)(char)) dlsym(plugin[i], "ask"))('d');
    }
    printf("%d %d\n", found[0](1), found[1](2));
    printf("%d\n", dlsym(RTLD_DEFAULT, "work") == NULL);
    printf("%d\n", dlsym(dlopen(NULL, RTLD_NOW), "work") == NULL);
    dlclose(plugin[0]);
    printf("%d\n", found[1](3));
    dlclose(plugin[1]);
}

/* Opened once more it is another object, often where it was: for its opener alone, or
 * behind the other library. */
static void
by_address(char **files)
{
    void *first = open_file(files[0], RTLD_NOW | RTLD_GLOBAL);
    dlclose(first);
    first = open_file(files[0], RTLD_NOW | RTLD_LOCAL);
    printf("%d\n", ask('d') == NULL);
    dlclose(first);
    first = open_file(files[0], RTLD_NOW | RTLD_GLOBAL);
    void *second = open_file(files[2], RTLD_NOW | RTLD_GLOBAL);
    dlclose(first);
    void *user = open_file(files[1], RTLD_LAZY);
    function *f = (function *)dlsym(user, "again");
    printf("%d\n", f(1));
    first = open_file(files[0], RTLD_NOW | RTLD_GLOBAL);
    finish("address", f, user);
    dlclose(first);
    dlclose(second);
}

static void *
open_slow(void *file)
{
    return open_file(file, RTLD_LAZY);
}

/* The first call comes while another thread opens a library. */
static void
by_opener(char **files)
{
    pthread_t thread;
    int ends[2];
    char byte;
    void *slow, *handle = open_file(files[0], RTLD_NOW | RTLD_GLOBAL);
    void *user = open_file(files[1], RTLD_LAZY);
    function *f = (function *)dlsym(user, "again");
    if (pipe(ends) != 0 || dup2(ends[1], 100) != 100) {
        exit(1);
    }
    pthread_create(&thread, NULL, open_slow, files[2]);
    if (read(ends[0], &byte, 1) != 1) {
        exit(1);
    }
    printf("%d\n", f(1));
    pthread_join(thread, &slow);
    dlclose(handle);
    printf("there: %d\n", is_there(files[0]));
    finish("opener", f, user);
}

int
main(int argc, char **argv)
{
    const char *action = argc > 3 ? argv[1] : "";
    setbuf(stdout, NULL);
    if (strcmp(action, "program") == 0) {
        by_program(*argv[3], argv[2]);
    } else if (strcmp(action, "handle") == 0) {
        by_handle(argv[2]);
    } else if (strcmp(action, "thread") == 0) {
        by_thread(argv[2], argv[3]);
    } else if (strcmp(action, "error") == 0) {
        by_error(argv[2]);
    } else if (strcmp(action, "plugin") == 0 && argc > 4) {
        by_plugin(*argv[4], RTLD_NOW, argv[2], argv[3]);
    } else if (strcmp(action, "lazy") == 0 && argc > 4) {
        by_plugin(*argv[4], RTLD_LAZY, argv[2], argv[3]);
    } else if (strcmp(action, "two") == 0 && argc > 5) {
        by_two(argv + 2);
    } else if (strcmp(action, "address") == 0 && argc > 4) {
        by_address(argv + 2);
    } else if (strcmp(action, "opener") == 0 && argc > 4) {
        by_opener(argv + 2);
    } else {
        return 2;
    }
    return 0;
}
#endif
#endif
