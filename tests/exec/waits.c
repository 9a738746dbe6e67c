/* SPDX-License-Identifier: Apache-2.0 */
/*
 * system(3) and popen(3): what the program and its shell see while one waits for
 * the other. Run with and without ferry: not one line may differ.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* For a shell: libc keeps all signals of the program blocked until it is woken
 * from starting that shell, which may be after the shell's first commands. */
#define UNTIL_IT_WAITS \
    "until grep -q '^State:.S' /proc/$PPID/status; do sleep 0.01; done; "
/* A handler interrupts the wait; the shell goes on when it is delivered. */
#define INTERRUPT                                                          \
    UNTIL_IT_WAITS "kill -ALRM $PPID; while grep -q '^ShdPnd:.*[1-9a-f]' " \
                   "/proc/$PPID/status; do sleep 0.01; done; "

static void
line(const char *command, int status)
{
    printf("%s -> %x, errno %d\n", command, (unsigned)status, errno);
    fflush(stdout);
}

static void
run(const char *command)
{
    errno = 0;
    int status = system(command);
    line(command, status);
}

static volatile sig_atomic_t hits;

static void
hit(int number)
{
    (void)number;
    hits++;
}

static void
dispositions(const char *when)
{
    struct sigaction a, b;
    sigset_t mask;
    sigaction(SIGINT, NULL, &a);
    sigaction(SIGQUIT, NULL, &b);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    printf("%s: INT %s QUIT %s CHLD %s\n", when,
           a.sa_handler == SIG_DFL   ? "default"
           : a.sa_handler == SIG_IGN ? "ignored"
                                     : "caught",
           b.sa_handler == SIG_DFL   ? "default"
           : b.sa_handler == SIG_IGN ? "ignored"
                                     : "caught",
           sigismember(&mask, SIGCHLD) ? "blocked" : "open");
    fflush(stdout);
}

static void
test_system(void)
{
    static const char look[] =
        "grep -E 'Sig(Blk|Ign)' /proc/self/status; " UNTIL_IT_WAITS
        "grep -E 'Sig(Blk|Ign|Cgt)' /proc/$PPID/status";
    printf("%d\n", system(NULL));
    run("exit 0");
    run("exit 7");
    run("kill -TERM $$");
    run("nonexistent-command-here 2>/dev/null");
    run("");
    run("-c 2>/dev/null");
    run("echo \"$0|$*|$#\"; tr '\\0' '|' </proc/$$/cmdline");
    run(look);
    struct sigaction action = {.sa_handler = hit};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
    run(look);
    run("kill -INT $PPID; kill -QUIT $PPID; sleep 0.1");
    printf("%d hits\n", (int)hits);
    action.sa_handler = SIG_IGN;
    sigaction(SIGINT, &action, NULL);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    run(look);
    dispositions("after");
    action.sa_handler = hit;
    sigaction(SIGALRM, &action, NULL);
    run(INTERRUPT "exit 3");
    /* Nobody to wait for. */
    signal(SIGCHLD, SIG_IGN);
    run("exit 5");
    signal(SIGCHLD, SIG_DFL);
    setenv("VARIABLE", "set", 1);
    run("echo $VARIABLE ${LD_PRELOAD-none} ${FERRY_SETTINGS-none}");
    clearenv();
    run("/usr/bin/env | /bin/grep -v -e ^PWD= -e ^OLDPWD=");
}

static void *
long_one(void *arg)
{
    system("echo $$ >child; sleep 30; touch wrong");
    return arg;
}

static void
test_cancel(void)
{
    pthread_t thread;
    void *result;
    struct timespec step = {0, 20 * 1000 * 1000};
    unlink("child");
    pthread_create(&thread, NULL, long_one, NULL);
    long pid = 0;
    while (!pid) {
        nanosleep(&step, NULL);
        FILE *file = fopen("child", "r");
        if (file) {
            (void)!fscanf(file, "%ld", &pid);
            fclose(file);
        }
    }
    dispositions("while it waits");
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "returned");
    dispositions("after it");
    printf("%s\n", kill((pid_t)pid, 0) ? "gone" : "still there");
    run("exit 4");
}

static void *
short_ones(void *arg)
{
    char command[64];
    int wrong = 0;
    for (int i = 0; i < 20; i++) {
        int code = (int)(long)arg * 20 + i;
        snprintf(command, sizeof command, "exit %d", code);
        wrong += system(command) != code << 8;
    }
    return (void *)(long)wrong;
}

static void
test_threads(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, short_ones, (void *)i);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        printf("%ld wrong\n", (long)wrong);
    }
    dispositions("after all");
}

static void
read_all(const char *command, const char *mode)
{
    char text[256];
    errno = 0;
    FILE *stream = popen(command, mode);
    if (!stream) {
        line(command, errno);
        return;
    }
    printf("close on exec %d, flags %x\n", fcntl(fileno(stream), F_GETFD),
           (unsigned)fcntl(fileno(stream), F_GETFL) & ~(unsigned)O_LARGEFILE);
    while (fgets(text, sizeof text, stream)) {
        printf("  %s", text);
    }
    errno = 0;
    int status = pclose(stream);
    line(command, status);
}

static void
test_popen(void)
{
    read_all("echo a; echo b; exit 3", "r");
    read_all("echo a", "re");
    read_all("echo a", "er");
    read_all("kill -9 $$", "r");
    read_all("echo a", "rw");
    read_all("echo a", "");
    read_all("echo a", "x");
    read_all("-x 2>/dev/null", "r");
    read_all("nonexistent-command-here 2>/dev/null", "r");
    read_all("echo \"$0|$*|$#\"; tr '\\0' '|' </proc/$$/cmdline; echo", "r");
    read_all("ls -l /proc/self/fd | grep -c pipe", "r");
    FILE *stream = popen("sed 's/^/got /'; exit 9", "w");
    fprintf(stream, "one\ntwo\n");
    line("w", pclose(stream));
    stream = popen("cat >/dev/null; exit 8", "we");
    fputs("x", stream);
    line("fclose", fclose(stream));
    signal(SIGPIPE, SIG_IGN);
    stream = popen("exec <&-; sleep 0.1; exit 0", "w");
    struct pollfd unread = {.fd = fileno(stream)};
    poll(&unread, 1, -1); /* for POLLERR */
    fputs("lost", stream);
    errno = 0;
    line("nobody reads", pclose(stream));
    stream = popen("exit 0", "r");
    waitpid(-1, NULL, 0);
    errno = 0;
    line("waited for before", pclose(stream));
    stream = popen("exit 6", "r");
    close(fileno(stream));
    errno = 0;
    line("its fd was closed", pclose(stream));
    stream = fopen("/dev/null", "r");
    errno = 0;
    line("pclose of a file", pclose(stream));
    struct sigaction action = {.sa_handler = hit};
    sigaction(SIGALRM, &action, NULL);
    stream = popen(INTERRUPT "exit 2", "r");
    line("interrupted", pclose(stream));
}

/* The children have only their own ends: a reader sees the end of file. */
static void
test_many(void)
{
    FILE *streams[40];
    for (int i = 0; i < 40; i++) {
        streams[i] = popen("cat >/dev/null; ls /proc/self/fd | wc -l", "w");
        if (i == 20) {
            pclose(streams[i]);
        }
    }
    for (int i = 0; i < 40; i++) {
        if (i != 20) {
            line("one of many",
                 i % 2 ? pclose(streams[i]) : fclose(streams[i]));
        }
    }
}

static void
test_closed(void)
{
    int out = fcntl(1, F_DUPFD_CLOEXEC, 10);
    for (int closed = 0; closed < 8; closed++) {
        for (int fd = 0; fd < 3; fd++) {
            if (closed >> fd & 1) {
                close(fd);
            } else {
                dup2(out, fd);
            }
        }
        FILE *stream = popen("echo text; exit 3", "r");
        char text[64] = "";
        (void)!fgets(text, sizeof text, stream);
        int fd = fileno(stream), status = pclose(stream);
        dprintf(out, "%d: fd %d %x %s", closed, fd, (unsigned)status, text);
        /* One that does not read would end us by SIGPIPE, if it is fast. */
        stream = popen("cat >&1 2>/dev/null || cat >/dev/null; exit 4", "w");
        fputs("sent\n", stream);
        fd = fileno(stream);
        status = pclose(stream);
        dprintf(out, "%d: fd %d %x\n", closed, fd, (unsigned)status);
    }
}

static void
test_forked(void)
{
    FILE *stream = popen("cat; exit 5", "w");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        errno = 0;
        line("in the child", pclose(stream));
        read_all("echo of the child; exit 1", "r");
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    fputs("text\n", stream);
    line("in the parent", pclose(stream));
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "system") == 0) {
        test_system();
    } else if (strcmp(what, "cancel") == 0) {
        test_cancel();
    } else if (strcmp(what, "threads") == 0) {
        test_threads();
    } else if (strcmp(what, "popen") == 0) {
        test_popen();
    } else if (strcmp(what, "many") == 0) {
        test_many();
    } else if (strcmp(what, "closed") == 0) {
        test_closed();
    } else if (strcmp(what, "forked") == 0) {
        test_forked();
    } else if (strcmp(what, "covers") == 0) {
        run(argv[2]);
        read_all(argv[2], "r");
    } else {
        return 2;
    }
    return 0;
}
