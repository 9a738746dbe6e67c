/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of ferry-stub: while the command runs elsewhere they go there, and their effect
 * comes back. Signals that the kernel raises for acts of the stub itself (SIGTTIN,
 * SIGTTOU, SIGXFSZ) keep their effect: it is the one that reads and writes. SIGPIPE that
 * its own write(2) raises is dropped: the stub ends by it later, since the reader may
 * have died of a signal of the whole group, which comes after it. Another process's
 * SIGPIPE is passed on. Ignored signals stay ignored, blocked ones blocked.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    NUDGE_NS = 5000000
};

/*
 * A frame must not be cut in two by another that a handler sends: while one is
 * on its way, handlers only leave a bit.
 */
static int session = -1;
static pid_t child;
static volatile sig_atomic_t sending;
static uint64_t waiting; /* atomic; bit n-1 of signal n */
static uint64_t passed;  /* atomic; likewise */
static uint64_t caught;  /* likewise: `handle' is there */
static uint64_t ignored; /* likewise: stub_signals_ignore() did that */
static timer_t nudge;    /* sends SIGURG, which nobody else minds */
static bool has_nudge;
static volatile sig_atomic_t nudging;

static int
send_frame(uint32_t type, const void *bytes, uint32_t n)
{
    struct fy_stub_frame frame = {.bytes = n, .type = type};
    struct iovec parts[2] = {{&frame, sizeof frame},
                             {(void *)(uintptr_t)bytes, n}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    const struct timespec moment = {.tv_nsec = 1000000};
    unsigned tries = 1000;
    size_t left = sizeof frame + n;
    while (left > 0) {
        ssize_t sent = sendmsg(session, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0 && (errno == ENOBUFS || errno == ENOMEM) && tries-- > 0) {
            (void)nanosleep(&moment, NULL); /* the kernel's memory is short */
            continue;
        }
        if (sent <= 0) {
            return -1;
        }
        left -= (size_t)sent;
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)sent < parts[i].iov_len ? (size_t)sent
                                                          : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + part;
            parts[i].iov_len -= part;
            sent -= (ssize_t)part;
        }
    }
    return 0;
}

/* In a handler, or between two frames. */
static void
pass(int number)
{
    if (child > 0) {
        (void)kill(child, number);
        return;
    }
    if (number == SIGWINCH) {
        struct winsize size;
        if (ioctl(1, TIOCGWINSZ, &size) == 0) {
            const uint16_t numbers[4] = {size.ws_row, size.ws_col,
                                         size.ws_xpixel, size.ws_ypixel};
            (void)send_frame(FY_STUB_WINDOW, numbers, sizeof numbers);
        }
        return;
    }
    uint32_t word = (uint32_t)number;
    (void)send_frame(FY_STUB_SIGNAL, &word, sizeof word);
    if (number == SIGTSTP) {
        stub_stop();
    }
}

static void
set_nudge(long interval_ns)
{
    const struct timespec time = {.tv_nsec = interval_ns};
    const struct itimerspec times = {time, time};
    (void)timer_settime(nudge, 0, &times, NULL);
}

static void
handle_nudge(int number)
{
    (void)number;
}

/* Only where nothing of the program's own is in the way. */
static void
make_nudge(void)
{
    struct sigaction before, action = {.sa_handler = handle_nudge};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
                             .sigev_signo = SIGURG};
    sigset_t blocked;
    has_nudge =
        has_nudge ||
        (sigaction(SIGURG, NULL, &before) == 0 &&
         before.sa_handler == SIG_DFL &&
         /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
         sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 &&
         !sigismember(&blocked, SIGURG) &&
         timer_create(CLOCK_MONOTONIC, &event, &nudge) == 0 &&
         sigaction(SIGURG, &action, NULL) == 0);
}

void
stub_signals_ignore(int number)
{
    struct sigaction before, action = {.sa_handler = SIG_IGN};
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_DFL &&
        sigaction(number, &action, NULL) == 0) {
        ignored |= UINT64_C(1) << (number - 1);
    }
}

bool
stub_pipe_kills(void)
{
    sigset_t blocked;
    return caught >> (SIGPIPE - 1) & 1 &&
           /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
           sigprocmask(SIG_BLOCK, NULL, &blocked) == 0 &&
           !sigismember(&blocked, SIGPIPE);
}

static void
handle(int number)
{
    int error = errno;
    uint64_t bit = UINT64_C(1) << (number - 1);
    if (number != SIGWINCH && number != SIGTSTP && number != SIGCONT &&
        !(__atomic_fetch_or(&passed, bit, __ATOMIC_SEQ_CST) & bit) &&
        has_nudge) {
        nudging = 1;
        set_nudge(NUDGE_NS);
    }
    if (sending) {
        __atomic_fetch_or(&waiting, bit, __ATOMIC_SEQ_CST);
    } else {
        pass(number);
    }
    errno = error;
}

/* The kernel says of a SIGPIPE of write(2) that the writer has sent it. */
static void
handle_pipe(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != SI_USER || info->si_pid != getpid()) {
        handle(number);
    }
}

int
stub_send(uint32_t type, const void *bytes, uint32_t n)
{
    sending = 1;
    int status = send_frame(type, bytes, n);
    sending = 0;
    for (;;) {
        uint64_t bits =
            __atomic_exchange_n(&waiting, UINT64_C(0), __ATOMIC_SEQ_CST);
        if (bits == 0) {
            return status;
        }
        for (int i = 1; i <= 64; i++) {
            if (bits >> (i - 1) & 1) {
                sending = 1;
                pass(i);
                sending = 0;
            }
        }
    }
}

uint64_t
stub_signals_passed(void)
{
    return __atomic_load_n(&passed, __ATOMIC_SEQ_CST);
}

int
stub_signals_fatal(void)
{
    /* USR1 makes dd tell where it is, USR2 tar if it is asked to. */
    static const int fatal[] = {SIGTERM, SIGINT,  SIGHUP,    SIGQUIT,
                                SIGALRM, SIGABRT, SIGPOLL,   SIGVTALRM,
                                SIGPROF, SIGPWR,  SIGSTKFLT, SIGPIPE};
    uint64_t bits = stub_signals_passed();
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        if (bits >> (fatal[i] - 1) & 1) {
            return fatal[i];
        }
    }
    return 0;
}

void
stub_signals_seen(void)
{
    if (nudging) {
        nudging = 0;
        set_nudge(0);
    }
}

void
stub_pipe_broken(void)
{
    if (stub_pipe_kills() && !stub_signals_fatal()) {
        stub_end(SIGPIPE, 0);
    }
}

void
stub_signals_leave(void)
{
    for (int i = 1; i <= 64; i++) {
        if ((caught | ignored) >> (i - 1) & 1) {
            (void)signal(i, SIG_DFL);
        }
    }
}

void
stub_signals_deliver(void)
{
    /* In this order: one that comes between the two is not missed. */
    stub_signals_leave();
    int number = stub_signals_fatal();
    if (number) {
        stub_end(number, 0);
    }
}

void
stub_stop(void)
{
    struct sigaction ours, normal = {.sa_handler = SIG_DFL};
    sigset_t set, before;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTSTP);
    (void)sigaction(SIGTSTP, &normal, &ours);
    (void)kill(getpid(), SIGTSTP);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
    (void)sigprocmask(SIG_UNBLOCK, &set, &before); /* here it stops */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)sigaction(SIGTSTP, &ours, NULL);
    /* Also when nothing stopped it (an orphaned group): the remote did. */
    const uint32_t go_on = SIGCONT;
    (void)send_frame(FY_STUB_SIGNAL, &go_on, sizeof go_on);
}

void
stub_send_to(int socket)
{
    session = socket;
}

void
stub_signals_to(pid_t to)
{
    child = to;
}

void
stub_signals_catch(const struct stub *stub)
{
    make_nudge();
    static const int left_alone[] = {
        SIGKILL, SIGSTOP, SIGCHLD, SIGTTIN, SIGTTOU, SIGURG,  SIGXFSZ,
        SIGXCPU, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS};
    struct sigaction action = {.sa_handler = handle};
    struct sigaction of_pipe = {.sa_sigaction = handle_pipe,
                                .sa_flags = SA_SIGINFO};
    (void)sigfillset(&action.sa_mask);
    of_pipe.sa_mask = action.sa_mask;
    for (int i = 1; i <= 64; i++) {
        bool skip = i == SIGWINCH && !stub->terminal;
        for (size_t k = 0; k < sizeof left_alone / sizeof *left_alone; k++) {
            skip = skip || i == left_alone[k];
        }
        struct sigaction before;
        if (!skip && sigaction(i, NULL, &before) == 0 &&
            before.sa_handler == SIG_DFL) {
            (void)sigaction(i, i == SIGPIPE ? &of_pipe : &action, NULL);
            caught |= UINT64_C(1) << (i - 1);
        }
    }
}

void
stub_end(int signal_number, int status)
{
    if (signal_number > 0 && signal_number <= 64) {
        struct rlimit limit;
        if (getrlimit(RLIMIT_CORE, &limit) == 0) {
            limit.rlim_cur = 0; /* it would be the stub's memory */
            (void)setrlimit(RLIMIT_CORE, &limit);
        }
        struct sigaction normal = {.sa_handler = SIG_DFL};
        sigset_t set;
        (void)sigemptyset(&set);
        (void)sigaddset(&set, signal_number);
        (void)sigaction(signal_number, &normal, NULL);
        /* A supervisor of system calls may be interrupted by the nudge. */
        while (kill(getpid(), signal_number) != 0 && errno == EINTR) {
        }
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
        status = 128 + signal_number;
    }
    _exit(status);
}
