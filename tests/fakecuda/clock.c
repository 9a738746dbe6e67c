/* SPDX-License-Identifier: Apache-2.0
 *
 * See clock.h. Stands before the C library's mutexes, conditions, threads and
 * system calls, and in the vDSO, which ferry's shim asks without the C library.
 * Large copies by the kernel within the process are not made: they take time.
 * One lock guards all state; no other is taken while it is held. Long because all
 * that a thread can wait for shares it.
 */
#include "config.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/fakecuda/clock.h"

#define EXPORT __attribute__((visibility("default")))

/* The host of the simulated card: that of the H200 in bench/RESULTS.md, but with
 * the twelve processors, and so copying threads, that the project's targets name. */
enum {
    HOST_CPUS = 12,
    COPY_BYTES_US = 8000, /* of a thread, a microsecond: 470 us for 4 MiB */
    BUS_BYTES_US =
        120000,        /* of all threads: their copies in DDR5-4800, 8 channels,
                              307 GB/s read and written, in part */
    WAKE_NS = 30000,   /* until a thread that sleeps goes on */
    WAKING_NS = 3000,  /* for the one who wakes it: 37 us for twelve */
    LOOK_NS = 30,      /* at the clock */
    SPIN_NS = 2000,    /* the same for who does nothing else */
    LOOKS = 8,         /* in a row, before that is believed */
    CALL_NS = 1000,    /* a system call that copies */
    SKIP_BYTES = 4097, /* copies from here on are not made */
};

struct thread {
    struct thread *next; /* of those that sleep */
    struct thread *all;
    sem_t wake;
    pthread_t id;
    const void *on; /* what it waits for, or NULL */
    uint64_t when;  /* or until then; 0: for ever */
    bool late;      /* woken by the time */
    bool done, gone;
    unsigned device, looks;
    uint64_t computed_ns; /* processor time that has been counted */
    void *(*run)(void *);
    void *argument;
};

static struct {
    pthread_mutex_t lock;
    bool on;
    uint64_t now, bus_free;
    int64_t to_realtime;
    unsigned running;
    unsigned contended; /* threads that wait for mutexes; atomic */
    struct thread *sleepers, *threads;
    pthread_key_t end;
} clk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct thread *self;

static struct {
    int (*lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *);
    int (*trylock)(pthread_mutex_t *);
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                  void *);
    int (*join)(pthread_t, void **);
    long (*sysconf)(int);
} real;

static long
raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static uint64_t
real_clock(clockid_t clock)
{
    struct timespec now = {0, 0};
    (void)raw(SYS_clock_gettime, clock, (long)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void
find_real(void)
{
    *(void **)&real.unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    *(void **)&real.trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    *(void **)&real.create = dlsym(RTLD_NEXT, "pthread_create");
    *(void **)&real.join = dlsym(RTLD_NEXT, "pthread_join");
    *(void **)&real.sysconf = dlsym(RTLD_NEXT, "sysconf");
    *(void **)&real.lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
}

static struct thread *
me(void)
{
    if (self == NULL) { /* the first, or of no pthread_create() */
        self = calloc(1, sizeof(*self));
        (void)sem_init(&self->wake, 0, 0);
        self->id = pthread_self();
    }
    return self;
}

/* ---- who runs; clk.lock is held ---- */

static void
unlink_sleeper(struct thread *one)
{
    struct thread **link = &clk.sleepers;
    while (*link != one) {
        link = &(*link)->next;
    }
    *link = one->next;
}

static void
go_on(struct thread *one)
{
    unlink_sleeper(one);
    one->on = NULL;
    one->when = 0;
    clk.running++;
    (void)sem_post(&one->wake);
}

/* No thread runs: the clock goes to the next time that a thread waits for. */
static void
advance(void)
{
    uint64_t next = UINT64_MAX;
    if (clk.running > 0 || !clk.on) {
        return;
    }
    for (struct thread *one = clk.sleepers; one != NULL; one = one->next) {
        if (one->when != 0 && one->when < next) {
            next = one->when;
        }
    }
    if (next == UINT64_MAX) {
        return;
    }
    clk.now = next > clk.now ? next : clk.now;
    for (struct thread *one = clk.sleepers, *after; one != NULL; one = after) {
        after = one->next;
        if (one->when != 0 && one->when <= clk.now) {
            one->late = one->on != NULL;
            go_on(one);
        }
    }
}

/* Sleeps; the lock is given up meanwhile. Before time is simulated `when' is real. */
static void
block(struct thread *one, const void *on, uint64_t when)
{
    struct thread **link = &clk.sleepers;
    bool simulated = clk.on;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = one;
    one->next = NULL;
    one->on = on;
    one->when = simulated ? when : 0;
    one->late = false;
    clk.running--;
    advance();
    (void)real.unlock(&clk.lock);
    if (simulated || when == 0) {
        while (sem_wait(&one->wake) != 0) {
        }
        (void)real.lock(&clk.lock);
        return;
    }
    struct timespec until = {(time_t)(when / 1000000000),
                             (long)(when % 1000000000)};
    int failed;
    do {
        failed = sem_clockwait(&one->wake, CLOCK_MONOTONIC, &until);
    } while (failed != 0 && errno == EINTR);
    (void)real.lock(&clk.lock);
    if (failed != 0 && one->on != NULL) {
        one->late = true;
        go_on(one);
        (void)sem_wait(&one->wake);
    } else if (failed != 0) {
        (void)sem_wait(&one->wake); /* posted just now */
    }
}

/* Wakes one, or all, of those that wait for it; how many. */
static unsigned
wake(const void *on, bool all, uint64_t latency)
{
    unsigned count = 0;
    for (struct thread *one = clk.sleepers, *after; one != NULL; one = after) {
        after = one->next;
        if (one->on != on) {
            continue;
        }
        if (clk.on && latency > 0 && one->device == 0) {
            one->on = NULL;
            one->when = clk.now + latency;
        } else {
            go_on(one);
        }
        count++;
        if (!all) {
            break;
        }
    }
    return count;
}

static void
sleep_until(struct thread *one, uint64_t when)
{
    bool alone = clk.running == 1;
    for (struct thread *other = clk.sleepers; other != NULL && alone;
         other = other->next) {
        alone = other->when == 0 || other->when > when;
    }
    if (when <= clk.now) {
        return;
    }
    if (alone) {
        clk.now = when;
    } else {
        block(one, NULL, when);
    }
}

/* ---- what a thread has computed takes its time ---- */

static void
charge(uint64_t more)
{
    struct thread *one = me();
    if (!clk.on || one->gone || one->device > 0) {
        return;
    }
    uint64_t computed = real_clock(CLOCK_THREAD_CPUTIME_ID);
    uint64_t ns = computed - one->computed_ns + more;
    (void)real.lock(&clk.lock);
    sleep_until(one, clk.now + ns);
    (void)real.unlock(&clk.lock);
    one->computed_ns = real_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* What was done since is the simulation's own. */
static void
uncharged(void)
{
    if (clk.on && self->device == 0) {
        self->computed_ns = real_clock(CLOCK_THREAD_CPUTIME_ID);
    }
}

EXPORT bool
fakeclock_is_on(void)
{
    return clk.on;
}

EXPORT uint64_t
fakeclock_now(void)
{
    (void)real.lock(&clk.lock);
    uint64_t now = clk.on ? clk.now : real_clock(CLOCK_MONOTONIC);
    (void)real.unlock(&clk.lock);
    return now;
}

EXPORT void
fakeclock_sleep_until(uint64_t ns)
{
    me()->looks = 0;
    charge(0);
    (void)real.lock(&clk.lock);
    if (clk.on) {
        sleep_until(me(), ns);
    }
    (void)real.unlock(&clk.lock);
    uncharged();
}

EXPORT void
fakeclock_sleep(uint64_t ns)
{
    fakeclock_sleep_until(fakeclock_now() + ns);
}

EXPORT void
fakeclock_device(bool enters)
{
    struct thread *one = me();
    if (enters) {
        charge(0);
        one->device++;
    } else {
        one->device--;
        uncharged();
    }
}

EXPORT void
fakeclock_copy(size_t bytes)
{
    me()->looks = 0;
    charge(CALL_NS);
    (void)real.lock(&clk.lock);
    uint64_t bus = clk.bus_free > clk.now ? clk.bus_free : clk.now;
    uint64_t end = clk.now + bytes * 1000 / COPY_BYTES_US;
    clk.bus_free = bus + bytes * 1000 / BUS_BYTES_US;
    sleep_until(me(), clk.bus_free > end ? clk.bus_free : end);
    (void)real.unlock(&clk.lock);
    uncharged();
}

/* ---- the clock itself ---- */

static int
simulated_clock(clockid_t clock, struct timespec *out)
{
    bool monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
                     clock == CLOCK_BOOTTIME || clock == CLOCK_MONOTONIC_COARSE;
    if (!clk.on || (!monotonic && clock != CLOCK_REALTIME &&
                    clock != CLOCK_REALTIME_COARSE)) {
        return (int)raw(SYS_clock_gettime, clock, (long)out, 0, 0, 0, 0);
    }
    charge(++me()->looks > LOOKS ? SPIN_NS : LOOK_NS);
    uint64_t now =
        fakeclock_now() + (monotonic ? 0 : (uint64_t)clk.to_realtime);
    uncharged();
    out->tv_sec = (time_t)(now / 1000000000);
    out->tv_nsec = (long)(now % 1000000000);
    return 0;
}

/* Puts a jump to simulated_clock() where the vDSO's function begins. */
static void
take_vdso(void)
{
    const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)base;
    const Elf64_Sym *symbols = NULL;
    const char *strings = NULL;
    Elf64_Word count = 0;
    Elf64_Addr load = 0;
    if (base == NULL) {
        return;
    }
    const Elf64_Phdr *program = (const Elf64_Phdr *)(base + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++) {
        if (program[i].p_type == PT_LOAD) {
            load = (Elf64_Addr)base + program[i].p_offset - program[i].p_vaddr;
        }
    }
    for (int i = 0; i < header->e_phnum; i++) {
        const Elf64_Dyn *row = (const Elf64_Dyn *)(base + program[i].p_offset);
        for (; program[i].p_type == PT_DYNAMIC && row->d_tag != DT_NULL;
             row++) {
            Elf64_Addr at = load + row->d_un.d_ptr;
            if (row->d_tag == DT_SYMTAB) {
                symbols = (const Elf64_Sym *)at;
            } else if (row->d_tag == DT_STRTAB) {
                strings = (const char *)at;
            } else if (row->d_tag == DT_HASH) {
                count = ((const Elf64_Word *)at)[1];
            }
        }
    }
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(base + header->e_shoff);
    for (int i = 0; count == 0 && i < header->e_shnum; i++) {
        if (sections[i].sh_type == SHT_DYNSYM) {
            count = (Elf64_Word)(sections[i].sh_size / sizeof(Elf64_Sym));
        }
    }
    for (Elf64_Word i = 0; symbols != NULL && i < count; i++) {
        if (strcmp(strings + symbols[i].st_name, "__vdso_clock_gettime") != 0) {
            continue;
        }
        unsigned char code[12] = {0x48, 0xB8, 0, 0, 0,    0,
                                  0,    0,    0, 0, 0xFF, 0xE0};
        void *target = (void *)simulated_clock;
        char *at = (char *)(load + symbols[i].st_value);
        uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
        memcpy(code + 2, &target, sizeof(target));
        if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) ==
                0 ||
            mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) ==
                0) {
            memcpy(at, code, sizeof(code));
        }
    }
}

EXPORT void
fakeclock_begin(void)
{
    (void)me();
    self->computed_ns = real_clock(CLOCK_THREAD_CPUTIME_ID);
    take_vdso();
    (void)real.lock(&clk.lock);
    clk.now = real_clock(CLOCK_MONOTONIC);
    clk.to_realtime = (int64_t)(real_clock(CLOCK_REALTIME) - clk.now);
    clk.on = true;
    (void)real.unlock(&clk.lock);
}

static void
in_child(void)
{
    clk.on = false;
    clk.running = 1;
    clk.contended = 0;
    clk.sleepers = NULL;
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    clk.lock = fresh;
}

static void
thread_ends(void *value)
{
    struct thread *one = value;
    (void)real.lock(&clk.lock);
    one->done = one->gone = true;
    (void)wake(one, true, 0);
    clk.running--;
    advance();
    (void)real.unlock(&clk.lock);
}

__attribute__((constructor)) static void
start(void)
{
    find_real();
    clk.running = 1;
    (void)me();
    (void)pthread_key_create(&clk.end, thread_ends);
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* ---- the C library's functions ---- */

EXPORT int
pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (real.lock == NULL) {
        find_real();
    }
    if (!clk.on || me()->gone) {
        return real.lock(mutex);
    }
    int result = real.trylock(mutex);
    if (result != EBUSY) {
        return result;
    }
    (void)real.lock(&clk.lock);
    (void)__atomic_add_fetch(&clk.contended, 1, __ATOMIC_SEQ_CST);
    while ((result = real.trylock(mutex)) == EBUSY) {
        block(self, mutex, 0);
    }
    (void)__atomic_sub_fetch(&clk.contended, 1, __ATOMIC_SEQ_CST);
    (void)real.unlock(&clk.lock);
    uncharged();
    return result;
}

EXPORT int
pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (real.unlock == NULL) {
        find_real();
    }
    int result = real.unlock(mutex);
    if (__atomic_load_n(&clk.contended, __ATOMIC_SEQ_CST) > 0) {
        (void)real.lock(&clk.lock);
        (void)wake(mutex, false, 0);
        (void)real.unlock(&clk.lock);
    }
    return result;
}

static int
wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t when)
{
    struct thread *one = me();
    one->looks = 0;
    charge(0);
    (void)real.lock(&clk.lock);
    (void)real.unlock(mutex);
    (void)wake(mutex, false, 0);
    if (when != 0 && clk.on && when <= clk.now) {
        one->late = true;
    } else {
        block(one, condition, when);
    }
    bool late = one->late && when != 0;
    (void)real.unlock(&clk.lock);
    (void)pthread_mutex_lock(mutex);
    uncharged();
    return late ? ETIMEDOUT : 0;
}

EXPORT int
pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_for(condition, mutex, 0);
}

/* A time of a clock as one of CLOCK_MONOTONIC. */
static uint64_t
monotonic(clockid_t clock, const struct timespec *time)
{
    uint64_t when =
        (uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec;
    if (clock == CLOCK_REALTIME && clk.on) {
        when -= (uint64_t)clk.to_realtime;
    } else if (clock == CLOCK_REALTIME) {
        when -= real_clock(CLOCK_REALTIME) - real_clock(CLOCK_MONOTONIC);
    }
    return when == 0 ? 1 : when;
}

EXPORT int
pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       clockid_t clock, const struct timespec *until)
{
    return wait_for(condition, mutex, monotonic(clock, until));
}

EXPORT int
pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                       const struct timespec *until)
{
    /* Times of CLOCK_MONOTONIC are those since the machine was started. */
    clockid_t clock =
        until->tv_sec > 1000000000 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    return wait_for(condition, mutex, monotonic(clock, until));
}

static int
wake_for(const void *condition, bool all)
{
    charge(0);
    (void)real.lock(&clk.lock);
    unsigned count = wake(condition, all, WAKE_NS);
    (void)real.unlock(&clk.lock);
    if (count > 0) {
        charge((uint64_t)count * WAKING_NS);
    }
    return 0;
}

EXPORT int
pthread_cond_signal(pthread_cond_t *condition)
{
    return wake_for(condition, false);
}

EXPORT int
pthread_cond_broadcast(pthread_cond_t *condition)
{
    return wake_for(condition, true);
}

EXPORT int
pthread_cond_destroy(pthread_cond_t *condition)
{
    (void)condition;
    return 0;
}

static void *
thread_begins(void *argument)
{
    self = argument;
    self->id = pthread_self();
    self->computed_ns = real_clock(CLOCK_THREAD_CPUTIME_ID);
    (void)pthread_setspecific(clk.end, self);
    return self->run(self->argument);
}

EXPORT int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
               void *(*run)(void *), void *argument)
{
    struct thread *new = calloc(1, sizeof(*new));
    if (new == NULL) {
        return EAGAIN;
    }
    if (real.create == NULL) {
        find_real();
    }
    (void)me();
    charge(0);
    (void)sem_init(&new->wake, 0, 0);
    new->run = run;
    new->argument = argument;
    (void)real.lock(&clk.lock);
    clk.running++;
    (void)real.unlock(&clk.lock);
    int result = real.create(thread, attributes, thread_begins, new);
    (void)real.lock(&clk.lock);
    if (result != 0) {
        clk.running--;
        free(new);
    } else {
        new->id = *thread;
        new->all = clk.threads;
        clk.threads = new;
    }
    (void)real.unlock(&clk.lock);
    return result;
}

EXPORT int
pthread_join(pthread_t thread, void **result)
{
    charge(0);
    (void)real.lock(&clk.lock);
    struct thread *one = clk.threads; /* the newest of that number */
    while (one != NULL && !pthread_equal(one->id, thread)) {
        one = one->all;
    }
    while (one != NULL && !one->done) {
        block(me(), one, 0);
    }
    (void)real.unlock(&clk.lock);
    int status = real.join(thread, result);
    uncharged();
    return status;
}

static long
answer(long result)
{
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* A wait of several processes: in the machine's time. */
static long
futex_wait(const long at[6])
{
    charge(0);
    (void)real.lock(&clk.lock);
    clk.running--;
    advance();
    (void)real.unlock(&clk.lock);
    long result = raw(SYS_futex, at[0], at[1], at[2], at[3], at[4], at[5]);
    (void)real.lock(&clk.lock);
    clk.running++;
    (void)real.unlock(&clk.lock);
    uncharged();
    return result;
}

EXPORT long
syscall(long number, ...)
{
    long at[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        at[i] = va_arg(list, long);
    }
    va_end(list);
    if (clk.on &&
        (number == SYS_process_vm_readv || number == SYS_process_vm_writev)) {
        const struct iovec *own = (const struct iovec *)at[1];
        size_t bytes = 0;
        for (long i = 0; i < at[2]; i++) {
            bytes += own[i].iov_len;
        }
        /* What would go to the program was not computed: its memory stays. */
        if (bytes >= SKIP_BYTES || number == SYS_process_vm_writev) {
            fakeclock_copy(bytes);
            return (long)bytes;
        }
    }
    if (number == SYS_futex &&
        ((at[1] & FUTEX_CMD_MASK) == FUTEX_WAIT ||
         (at[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET)) {
        return answer(futex_wait(at));
    }
    return answer(raw(number, at[0], at[1], at[2], at[3], at[4], at[5]));
}

/* By this name ferry knows a runtime that has to know of every thread, and calls its
 * functions instead of those of libc itself (shim/calls/imports.c). */
EXPORT void *__libc_memalign(size_t alignment, size_t bytes);
void *
__libc_memalign(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

EXPORT int
nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!clk.on) {
        return (int)answer(
            raw(SYS_nanosleep, (long)time, (long)left, 0, 0, 0, 0));
    }
    fakeclock_sleep((uint64_t)time->tv_sec * 1000000000 +
                    (uint64_t)time->tv_nsec);
    return 0;
}

EXPORT int
usleep(useconds_t us)
{
    struct timespec time = {(time_t)(us / 1000000),
                            (long)(us % 1000000) * 1000};
    return nanosleep(&time, NULL);
}

EXPORT int
sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set)
{
    long result =
        raw(SYS_sched_getaffinity, thread, (long)bytes, (long)set, 0, 0, 0);
    if (result < 0) {
        return (int)answer(result);
    }
    memset((char *)set + result, 0, bytes - (size_t)result);
    for (int i = 0; clk.on && i < HOST_CPUS; i++) {
        CPU_SET_S((size_t)i, bytes, set);
    }
    return 0;
}

EXPORT long
sysconf(int name)
{
    if (real.sysconf == NULL) {
        find_real();
    }
    return clk.on && name == _SC_NPROCESSORS_ONLN ? HOST_CPUS
                                                  : real.sysconf(name);
}
