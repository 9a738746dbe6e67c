/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/client/holders.c and proxy/storage/work.c: who has the ends of a pipe, by real
 * processes; jobs that come back through the bell. Long because all of them share the
 * processes that hold.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/client/holders.h"
#include "proxy/storage/work.h"
#include "tests/patience.h"
#include "tests/unit/nocall.h"
#include "tests/unit/runner.h"

static struct fy_holders *holders;
static int ends[2];
static struct fy_pipe_holders row;

static void
set_up(void)
{
    struct stat status;
    ck_assert_int_eq(fy_holders_new(&holders), 0);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(fstat(ends[0], &status), 0);
    row = (struct fy_pipe_holders){.device = status.st_dev,
                                   .inode = status.st_ino};
}

static void
tear_down(void)
{
    (void)close(ends[0]);
    (void)close(ends[1]);
    fy_holders_free(holders);
}

static pid_t
start(bool reads, bool writes)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (!reads) {
            (void)close(ends[0]);
        } else {
            (void)dup2(ends[0], 0);
        }
        if (!writes) {
            (void)close(ends[1]);
        }
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

static void
stop(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static const struct fy_holder *
find(pid_t pid)
{
    for (unsigned i = 0; i < row.n; i++) {
        if (row.holders[i].pid == pid) {
            return &row.holders[i];
        }
    }
    return NULL;
}

START_TEST(test_scan)
{
    enum fy_hidden hidden;
    pid_t reader = start(true, false), writer = start(false, true);
    const struct fy_holder *one = NULL, *two = NULL;
    /* Until both have closed what they do not hold, and sleep. */
    for (long i = patient(6000); i > 0; i--) {
        ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
        one = find(reader);
        two = find(writer);
        if (one && two && !one->writes && !two->reads && one->settled &&
            two->settled) {
            break;
        }
        (void)poll(NULL, 0, 10);
    }
    ck_assert_uint_eq(row.n, 2); /* not this process */
    ck_assert(one && one->reads && !one->writes && one->settled);
    ck_assert(two && two->writes && !two->reads && two->settled);
    ck_assert(!row.more);
    stop(writer);
    ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
    ck_assert_ptr_null(find(writer));
    stop(reader);
    ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
    ck_assert_uint_eq(row.n, 0);
}
END_TEST

static void *
rest(void *unused)
{
    for (;;) {
        (void)pause();
    }
    return unused;
}

/* Its descriptors are not those of the other threads, as ferry's own threads do. */
static void *
part(void *unused)
{
    if (unshare(CLONE_FILES) == 0) {
        (void)close(ends[1]);
    }
    return rest(unused);
}

/* A holder is seen, or it is said that one may be hidden: a pipe of which ferry missed
 * one would be joined.  Odd: its first thread has ended. */
static void
sees_writer_or_doubts(pid_t writer, const char *call)
{
    enum fy_hidden hidden = FY_HIDDEN_NONE;
    int status = fy_holders_scan(holders, &row, 1, &hidden);
    const char *failed = nocall_reached();
    ck_assert_msg(status || row.more || hidden != FY_HIDDEN_NONE ||
                      (find(writer) && find(writer)->writes),
                  "%s %s: not seen", call ? call : "", failed ? failed : "");
}

START_TEST(failing_call_hides_no_holder_silently)
{
    static const int errors[] = {EMFILE, ENOMEM};
    static const char *const calls[] = {"openat", "fdopendir", "fstatat",
                                        "readlinkat", "read"};
    pid_t writer = _i % 2 ? fork() : start(false, true);
    if (writer == 0) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, rest, NULL);
        pthread_exit(NULL);
    }
    enum fy_hidden hidden;
    bool ready = false;
    for (long i = patient(6000); i > 0 && !ready; i--) {
        ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
        ready = find(writer) && find(writer)->writes;
        (void)poll(NULL, 0, _i % 2 ? 20 : 0);
    }
    ck_assert(ready);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        nocall_always(calls[i], 0, errors[_i / 2]);
        sees_writer_or_doubts(writer, calls[i]);
    }
    unsigned n = 1;
    do {
        nocall_at(n++, errors[_i / 2]);
        sees_writer_or_doubts(writer, NULL);
    } while (nocall_reached());
    ck_assert_uint_gt(n, 3);
    stop(writer);
}
END_TEST

/* Its folder in /proc shows no descriptors then. */
START_TEST(test_a_first_thread_that_ended)
{
    enum fy_hidden hidden;
    const struct fy_holder *one = NULL;
    char path[40], text[256] = "";
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_t thread;
        (void)close(ends[0]);
        (void)pthread_create(&thread, NULL, _i ? part : rest, NULL);
        (void)pthread_create(&thread, NULL, _i ? rest : part, NULL);
        pthread_exit(NULL);
    }
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    for (long i = patient(6000); i > 0 && !strstr(text, ") Z "); i--) {
        FILE *file = fopen(path, "re");
        ck_assert(file && fgets(text, sizeof text, file));
        (void)fclose(file);
        (void)poll(NULL, 0, 10);
    }
    for (long i = patient(6000); i > 0 && !(one && one->settled); i--) {
        ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
        one = find(pid);
        ck_assert(one && one->writes && !one->reads);
        (void)poll(NULL, 0, 10);
    }
    ck_assert(one->settled);
    stop(pid);
}
END_TEST

/* What a forked process that holds the pipe's end does meanwhile. */
enum act {
    OPENS_FILE,      /* a named pipe without a writer: for ever */
    READS_PIPE,      /* the one that is looked at */
    READS_OTHER,     /* another one, before it executes anything */
    READS_THERE,     /* another one, in a program */
    READS_FILE_NAME, /* a program that opens a file */
    READS_CHILD, /* a shell; its child, which executes nothing, writes there */
    STOPS,
    COMPUTES,
};

static pid_t
start_act(enum act act, const char *fifo)
{
    static char cat[] = "cat", minus[] = "-";
    char *name = strdup(fifo);
    char *const other[] = {cat, minus, NULL}, *const file[] = {cat, name, NULL};
    int more[2];
    ck_assert_int_eq(pipe2(more, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char byte;
        (void)close(ends[1]);
        (void)fcntl(ends[0], F_SETFD, 0);
        switch (act) {
        case OPENS_FILE:
            (void)open(fifo, O_RDONLY);
            break;
        case READS_PIPE:
            (void)!read(ends[0], &byte, 1);
            break;
        case READS_OTHER:
            (void)!read(more[0], &byte, 1);
            break;
        case READS_THERE:
            (void)dup2(more[0], 0);
            (void)dup(more[1]); /* it does not end */
            (void)execvp(cat, other);
            break;
        case READS_FILE_NAME:
            (void)execvp(cat, file);
            break;
        case READS_CHILD:
            (void)dup2(more[0], 0);
            (void)dup(more[1]);
            (void)execlp("sh", "sh", "-c", "x=$(read y)", NULL);
            break;
        case STOPS:
            (void)raise(SIGSTOP);
            break;
        default:
            for (;;) {
            }
        }
        _exit(1);
    }
    free(name);
    (void)close(more[0]);
    /* Its other end stays here, so that it does not end. */
    return pid;
}

static bool
settles(pid_t pid, int ms)
{
    enum fy_hidden hidden;
    const struct fy_holder *holder = NULL;
    for (int i = 0; i < ms / 10 && !(holder && holder->settled); i++) {
        (void)poll(NULL, 0, 10);
        ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
        holder = find(pid);
    }
    ck_assert_ptr_nonnull(holder);
    return holder->settled;
}

/* Not where a machine keeps even a parent from looking. */
static bool
has_syscall(pid_t pid)
{
    char path[64], byte;
    (void)snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool has = fd >= 0 && read(fd, &byte, 1) == 1;
    (void)close(fd);
    return has;
}

static int
cpu_ms(pid_t pid)
{
    clockid_t clock;
    struct timespec cpu;
    ck_assert_int_eq(clock_getcpuclockid(pid, &clock), 0);
    ck_assert_int_eq(clock_gettime(clock, &cpu), 0);
    return (int)(cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000);
}

/* A shell on its way to a command opens files of a slow mount, and sleeps. */
START_TEST(test_settled)
{
    static const bool wanted[] = {
        [OPENS_FILE] = false, [READS_PIPE] = true,       [READS_OTHER] = false,
        [READS_THERE] = true, [READS_FILE_NAME] = false, [READS_CHILD] = false,
        [STOPS] = true,       [COMPUTES] = true,
    };
    char folder[] = "/tmp/ferry-act-XXXXXX";
    char fifo[sizeof folder + 2];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(fifo, sizeof fifo, "%s/p", folder);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    for (enum act act = OPENS_FILE; act <= COMPUTES; act++) {
        pid_t pid = start_act(act, fifo);
        bool settled = settles(pid, wanted[act] ? (int)patient(60000) : 300);
        ck_assert_msg(settled == wanted[act] || !has_syscall(pid), "act %d",
                      act);
        stop(pid);
    }
    /* It has not had a processor for long. */
    pid_t pid = start_act(COMPUTES, fifo);
    enum fy_hidden hidden;
    ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
    ck_assert(find(pid) && !find(pid)->settled);
    stop(pid);
    /* It has, before anyone asked for its pipe: as a shell in a long script. */
    pid = start_act(COMPUTES, fifo);
    for (long i = patient(6000); i > 0 && cpu_ms(pid) < 700; i--) {
        (void)poll(NULL, 0, 10);
    }
    ck_assert_int_ge(cpu_ms(pid), 700);
    ck_assert_int_eq(fy_holders_scan(holders, &row, 1, &hidden), 0);
    ck_assert(find(pid) && !find(pid)->settled);
    ck_assert(settles(pid, (int)patient(60000)));
    stop(pid);
    (void)unlink(fifo);
    (void)rmdir(folder);
}
END_TEST

START_TEST(test_data)
{
    pid_t reader = start(true, false);
    (void)poll(NULL, 0, 100);
    ck_assert(!fy_pipe_has_data(reader));
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert(fy_pipe_has_data(reader));
    stop(reader);
    ck_assert(fy_pipe_has_data(reader)); /* nobody can say */
}
END_TEST

START_TEST(test_extra)
{
    /* Before: inherited by all. After: somebody's input. */
    int before = open("/dev/null", O_RDONLY);
    fy_holders_free(holders);
    ck_assert_int_eq(fy_holders_new(&holders), 0);
    unsigned pipes = 7;
    ck_assert_uint_eq(fy_holders_extra(holders, getpid(), &pipes), 0);
    ck_assert_uint_eq(pipes, 0);
    int after = open("/dev/zero", O_RDONLY);
    ck_assert_uint_eq(fy_holders_extra(holders, getpid(), &pipes), 1);
    ck_assert_uint_eq(pipes, 0);
    /* Pipes are told apart, but not those with names. */
    int more[2], closed[2], sockets[2];
    char name[] = "/tmp/ferry-pipe-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(name));
    char fifo[sizeof name + 2];
    (void)snprintf(fifo, sizeof fifo, "%s/p", name);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    int named = open(fifo, O_RDWR);
    ck_assert_int_ge(named, 0);
    ck_assert_int_eq(pipe(more), 0);
    ck_assert_int_eq(pipe2(closed, O_CLOEXEC), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    ck_assert_uint_eq(fy_holders_extra(holders, getpid(), &pipes), 4);
    ck_assert_uint_eq(pipes, 2);
    ck_assert_int_eq(unlink(fifo), 0);
    ck_assert_uint_eq(fy_holders_extra(holders, getpid(), &pipes), 4);
    ck_assert_uint_eq(pipes, 2);
    const int opened[] = {after,     before,    more[0],    more[1],   named,
                          closed[0], closed[1], sockets[0], sockets[1]};
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        (void)close(opened[i]);
    }
    ck_assert_int_eq(rmdir(name), 0);
}
END_TEST

/* As the stub does, which closes its folder's descriptor after its hello. */
static void *
opens_and_closes(void *ended)
{
    const atomic_bool *end = ended;
    while (!atomic_load(end)) {
        (void)close(open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
    return NULL;
}

START_TEST(a_descriptor_that_is_being_closed_is_none)
{
    atomic_bool end = false;
    pthread_t thread;
    unsigned pipes, seen = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, opens_and_closes, &end), 0);
    for (int i = 0; i < 5000; i++) {
        seen += fy_holders_extra(holders, getpid(), &pipes);
        seen += pipes;
    }
    atomic_store(&end, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(seen, 0);
}
END_TEST

static void *
starts_programs(void *ended)
{
    const atomic_bool *end = ended;
    char *argv[] = {"true", NULL}, *env[] = {NULL};
    pid_t pid;
    while (!atomic_load(end) &&
           posix_spawn(&pid, "/bin/true", NULL, NULL, argv, env) == 0) {
        (void)waitpid(pid, NULL, 0);
    }
    return NULL;
}

START_TEST(a_program_that_is_being_started_is_no_other)
{
    atomic_bool end = false;
    pthread_t thread;
    char name[] = "/tmp/ferry-holders-XXXXXX";
    struct stat status;
    unsigned wrong = 0;
    int fd = mkostemp(name, O_CLOEXEC);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, starts_programs, &end), 0);
    for (int i = 0; i < 1000; i++) {
        wrong += !fy_holders_alone(holders, name, status.st_dev, status.st_ino,
                                   getpid());
    }
    atomic_store(&end, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(wrong, 0);
    (void)close(fd);
    ck_assert_int_eq(unlink(name), 0);
}
END_TEST

START_TEST(test_alone)
{
    char path[] = "/tmp/ferry-alone-XXXXXX";
    struct stat status, pipe_status;
    int file = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(fstat(file, &status), 0);
    ck_assert_int_eq(fstat(ends[0], &pipe_status), 0);
    /* By two children, by one of them, by none. */
    pid_t one = start(true, false);
    pid_t two = start(false, true);
    ck_assert(!fy_holders_inherited(holders, status.st_dev, status.st_ino));
    ck_assert(
        !fy_holders_alone(holders, path, status.st_dev, status.st_ino, one));
    /* Removed since its name was asked for. */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(
        !fy_holders_alone(holders, path, status.st_dev, status.st_ino, one));
    stop(two);
    ck_assert(
        fy_holders_alone(holders, path, status.st_dev, status.st_ino, one));
    ck_assert(!fy_holders_alone(holders, path, status.st_dev, status.st_ino,
                                getpid()));
    stop(one);
    ck_assert(fy_holders_only(holders, path, status.st_dev, status.st_ino,
                              getpid(), false));
    /* What this process had at its start, others may have as well. */
    int input = dup(0);
    ck_assert_int_ge(input, 0);
    ck_assert_int_eq(dup2(ends[0], 0), 0);
    fy_holders_free(holders);
    ck_assert_int_eq(fy_holders_new(&holders), 0);
    ck_assert_int_eq(dup2(input, 0), 0);
    (void)close(input);
    ck_assert(
        fy_holders_inherited(holders, pipe_status.st_dev, pipe_status.st_ino));
    ck_assert(!fy_holders_alone(holders, "pipe:[1]", pipe_status.st_dev,
                                pipe_status.st_ino, one));
    (void)close(file);
}
END_TEST

static void
on_signal(int number)
{
    (void)number;
}

enum parent {
    ONLY_WAITS,
    SLEEPS,
    HAS_ANOTHER_CHILD,
    CATCHES_A_SIGNAL,
    CATCHES_SIGINT, /* and is no shell */
    NPARENTS
};

/* The parent of a child like that, both with `file' open. Sets the child. */
static pid_t
start_parent(enum parent kind, int file, pid_t *out_child)
{
    int told[2];
    ck_assert_int_eq(pipe2(told, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pid_t child = fork();
        if (child == 0 || (kind == HAS_ANOTHER_CHILD && fork() == 0)) {
            if (child) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)close(file);
            }
            for (;;) {
                (void)pause();
            }
        }
        for (int i = 1; i < SIGRTMIN; i++) {
            (void)signal(i, SIG_DFL); /* Check and sanitizers have some */
        }
        if (kind == CATCHES_A_SIGNAL) {
            (void)signal(SIGUSR1, on_signal);
        }
        (void)signal(SIGINT, kind == CATCHES_SIGINT ? on_signal : SIG_DFL);
        (void)(write(told[1], &child, sizeof child) == sizeof child);
        if (kind == SLEEPS) {
            (void)pause();
        }
        (void)waitpid(child, NULL, 0);
        _exit(0);
    }
    ck_assert_int_eq(read(told[0], out_child, sizeof *out_child),
                     sizeof *out_child);
    (void)close(told[0]);
    (void)close(told[1]);
    return pid;
}

START_TEST(test_a_parent_that_only_waits_does_not_write)
{
    for (enum parent kind = ONLY_WAITS; kind < NPARENTS; kind++) {
        char path[] = "/tmp/ferry-waits-XXXXXX";
        struct stat status;
        int file = mkostemp(path, O_CLOEXEC);
        ck_assert_int_ge(file, 0);
        ck_assert_int_eq(fstat(file, &status), 0);
        pid_t child, parent = start_parent(kind, file, &child);
        bool waits = false;
        (void)close(file);
        /* Of the right one: it may not be in waitpid() yet. */
        for (int i = 0; i < 1000 && !waits; i++) {
            waits = fy_holders_only(holders, path, status.st_dev, status.st_ino,
                                    child, true);
            if (kind != ONLY_WAITS && i == 20) {
                break;
            }
        }
        ck_assert_msg(waits == (kind == ONLY_WAITS), "parent %d", kind);
        ck_assert(!fy_holders_only(holders, path, status.st_dev, status.st_ino,
                                   child, false));
        ck_assert(!fy_holders_alone(holders, path, status.st_dev, status.st_ino,
                                    child));
        (void)kill(child, SIGKILL);
        stop(parent);
        (void)unlink(path);
    }
}
END_TEST

struct job {
    struct fy_work work;
    int ran, done;
};

static void
run(struct fy_work *work)
{
    ((struct job *)work)->ran++;
}

static void
done(struct fy_work *work)
{
    ((struct job *)work)->done++;
}

START_TEST(test_pool)
{
    struct fy_pool *pool;
    static struct job jobs[100];
    int bell = eventfd(0, EFD_CLOEXEC);
    unsigned finished = 0;
    ck_assert_int_eq(fy_pool_new(bell, &pool), 0);
    for (int i = 0; i < 100; i++) {
        jobs[i].work = (struct fy_work){.run = run, .done = done};
        ck_assert_int_eq(fy_pool_submit(pool, &jobs[i].work), 0);
    }
    while (finished < 100) {
        uint64_t count;
        ck_assert_int_eq(read(bell, &count, sizeof count), sizeof count);
        fy_work_collect(pool);
        finished = 0;
        for (int i = 0; i < 100; i++) {
            finished += jobs[i].done == 1 && jobs[i].ran == 1;
        }
    }
    fy_pool_free(pool);
    (void)close(bell);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("holders");
    TCase *tcase = tcase_create("holders");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60); /* one computes for half a second */
    tcase_add_test(tcase, test_scan);
    tcase_add_loop_test(tcase, failing_call_hides_no_holder_silently, 0, 4);
    tcase_add_loop_test(tcase, test_a_first_thread_that_ended, 0, 2);
    tcase_add_test(tcase, test_settled);
    tcase_add_test(tcase, test_data);
    tcase_add_test(tcase, test_extra);
    tcase_add_test(tcase, a_descriptor_that_is_being_closed_is_none);
    tcase_add_test(tcase, a_program_that_is_being_started_is_no_other);
    tcase_add_test(tcase, test_alone);
    tcase_add_test(tcase, test_a_parent_that_only_waits_does_not_write);
    tcase_add_test(tcase, test_pool);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
