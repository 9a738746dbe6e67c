/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has ferry's threads run wherever the process may: a thread inherits the processors of the one that starts it, which
 * may be bound to a single one. Unit tests and tools have no shim.
 */
#include "config.h"

#include "pager/device/own_thread.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/signals.h"

enum {
    MOST_THREADS = 512, /* of the process, looked at */
    MOST_PLACE = 1024   /* processors of one place */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_set_t cpus;
static bool looked;

static const struct fy_shim_services *services;

_Static_assert(sizeof(struct fy_own_block) <= FY_OWN_BLOCK_BYTES, "engine.h");

struct fy_own_block *
fy_own_block(void)
{
    static __thread struct fy_own_block without_shim;

    return services && services->own_block ? services->own_block()
                                           : &without_shim;
}

void
fy_own_threads_tell(const struct fy_shim_services *given)
{
    services = given;
}

int
fy_own_thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *),
                    void *argument)
{
    sigset_t before;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    fy_signals_block(&before);
    error =
        stack_bytes ? pthread_attr_setstacksize(&attributes, stack_bytes) : 0;
    if (error == 0) {
        error = pthread_create(thread, &attributes, run, argument);
    }
    if (error != 0) {
        error = pthread_create(thread, NULL, run, argument);
    }
    fy_signals_restore(&before);
    pthread_attr_destroy(&attributes);
    return error;
}

void
fy_own_thread_ends(const sigset_t *starters)
{
    char text[1024];
    int saved = errno, fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    const char *name = strrchr(text, ')');
    if (name && strncmp(name, ") Z", 3) == 0) {
        /* The last word is the wait status of the main thread. */
        int status = atoi(strrchr(name, ' '));
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
            (void)syscall(SYS_exit, WEXITSTATUS(status));
        }
        fy_signals_restore(starters);
    }
    errno = saved;
}

int
fy_own_process_new(const volatile unsigned **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned *word = mmap(NULL, page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (word == MAP_FAILED) {
        return FY_ERR_NOMEM;
    }
    if (madvise(word, page, MADV_WIPEONFORK) != 0) {
        (void)munmap(word, page);
        return FY_ERR_UNSUPPORTED;
    }
    *word = (unsigned)getpid();
    *out = word;
    return 0;
}

void
fy_own_process_free(const volatile unsigned *word)
{
    (void)munmap((void *)(uintptr_t)word, (size_t)sysconf(_SC_PAGESIZE));
}

static void
add_threads(cpu_set_t *all)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    for (int i = 0; tasks && i < MOST_THREADS && (entry = readdir(tasks));
         i++) {
        cpu_set_t one;
        long thread = strtol(entry->d_name, NULL, 10);
        if (thread > 0 &&
            sched_getaffinity((pid_t)thread, sizeof one, &one) == 0) {
            CPU_OR(all, all, &one);
        }
    }
    if (tasks) {
        (void)closedir(tasks);
    }
}

/* OpenMP API 4.5, "Thread affinity routines". */
static void
add_places(void *runtime, cpu_set_t *all)
{
    int (*count)(void), (*procs)(int);
    void (*ids)(int, int *);
    int place[MOST_PLACE];
    *(void **)&count = dlsym(runtime, "omp_get_num_places");
    *(void **)&procs = dlsym(runtime, "omp_get_place_num_procs");
    *(void **)&ids = dlsym(runtime, "omp_get_place_proc_ids");
    if (!count || !procs || !ids) {
        return;
    }
    for (int i = 0, places = count(); i < places; i++) {
        int n = procs(i);
        if (n < 1 || n > MOST_PLACE) {
            continue;
        }
        ids(i, place);
        for (int k = 0; k < n; k++) {
            if (place[k] >= 0 && place[k] < CPU_SETSIZE) {
                CPU_SET((size_t)place[k], all);
            }
        }
    }
}

void
fy_own_cpus_look(void)
{
    static const char *const runtimes[] = {"libgomp.so.1", "libomp.so.5",
                                           "libiomp5.so"};
    int saved = errno;
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        CPU_ZERO(&all);
    }
    add_threads(&all);
    for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++) {
        void *runtime = dlopen(runtimes[i], RTLD_NOW | RTLD_NOLOAD);
        if (runtime) {
            add_places(runtime, &all);
            (void)dlclose(runtime);
        }
    }
    pthread_mutex_lock(&lock);
    cpus = all;
    looked = CPU_COUNT(&all) > 0;
    pthread_mutex_unlock(&lock);
    errno = saved;
}

/* The lock is only ever held for a moment, but perhaps by a thread that a forked
 * child has not: then the caller's own are good enough. */
static bool
look_up(cpu_set_t *out)
{
    bool known = false;
    if (pthread_mutex_trylock(&lock) == 0) {
        known = looked;
        *out = cpus;
        pthread_mutex_unlock(&lock);
    }
    return known;
}

unsigned
fy_own_cpus(void)
{
    cpu_set_t set;
    if (!look_up(&set) && sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    return CPU_COUNT(&set) < 1 ? 1 : (unsigned)CPU_COUNT(&set);
}

void
fy_own_thread_begins(void)
{
    cpu_set_t set;
    if (look_up(&set)) {
        (void)sched_setaffinity(0, sizeof set, &set);
    }
}

void
fy_own_threads_child(void)
{
    if (services && services->main_thread) {
        services->main_thread();
    }
}
