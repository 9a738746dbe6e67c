/* SPDX-License-Identifier: Apache-2.0 */
/* Locks between processes; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"
#include "tests/patience.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A second process, which does what it is told and answers with the result. */
struct peer {
    pid_t pid;
    int to, from;
};

struct order {
    char what; /* o: open; c: close; f: flock; l: fcntl; q: query */
    int cmd, type;
    off_t start, len;
};

struct answer {
    long value;
    int error, type;
    off_t start, len;
    bool mine; /* F_GETLK names the parent */
};

static struct answer
obey(const struct order *order, int *fd)
{
    struct flock lock = {.l_type = (short)order->type,
                         .l_start = order->start,
                         .l_len = order->len};
    struct answer answer = {0};
    errno = 0;
    if (order->what == 'o') {
        answer.value = (*fd = open("f", order->cmd)) < 0 ? -1 : 0;
    } else if (order->what == 'c') {
        answer.value = close(*fd);
    } else if (order->what == 'f') {
        answer.value = flock(*fd, order->cmd);
    } else {
        answer.value = fcntl(*fd, order->cmd, &lock);
        answer.type = lock.l_type;
        answer.start = lock.l_start;
        answer.len = lock.l_len;
        answer.mine = lock.l_pid == getppid();
    }
    answer.error = errno;
    return answer;
}

static struct peer
peer_start(struct side *side)
{
    int to[2], from[2];
    MUST(side, pipe(to));
    MUST(side, pipe(from));
    struct peer peer = {fork(), to[1], from[0]};
    if (peer.pid == 0) {
        struct order order;
        int fd = -1;
        close(to[1]);
        close(from[0]);
        signal(SIGALRM, SIG_DFL);
        while (read(to[0], &order, sizeof(order)) == sizeof(order)) {
            struct answer answer = obey(&order, &fd);
            if (write(from[1], &answer, sizeof(answer)) < 0) {
                break;
            }
        }
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    return peer;
}

static void
peer_tell(struct peer *peer, struct order order)
{
    if (write(peer->to, &order, sizeof(order)) < 0) {
        abort();
    }
}

/* Whether an answer is there within `ms'. */
static bool
peer_waits(struct peer *peer, int ms)
{
    struct pollfd pollfd = {.fd = peer->from, .events = POLLIN};
    return poll(&pollfd, 1, ms) == 0;
}

static void
peer_answer(struct side *side, struct peer *peer, const char *text)
{
    struct answer answer = {0};
    if (read(peer->from, &answer, sizeof(answer)) != sizeof(answer)) {
        say(side, "the peer is gone\n");
        return;
    }
    errno = answer.error;
    result(side, text, answer.value);
    if (answer.value == 0 && (answer.type || answer.len)) {
        say(side, "type %d at %ld of %ld%s\n", answer.type, (long)answer.start,
            (long)answer.len, answer.mine ? " by the first" : "");
    }
}

#define PEER(peer, ...)                                       \
    do {                                                      \
        peer_tell(peer, (struct order){.what = __VA_ARGS__}); \
        peer_answer(side, peer, "peer: " #__VA_ARGS__);       \
    } while (0)

/* Waits, for at most 30 s on a quiet machine, until the peer gets a record lock: FUSE tells of the last close of
 * a file after close(2) has returned. */
static void
peer_gets(struct peer *peer, int type)
{
    struct answer answer = {.value = -1};
    for (int i = 0; i < patient(1500) && answer.value < 0; i++) {
        struct timespec moment = {0, 20000000};
        nanosleep(&moment, NULL);
        peer_tell(peer, (struct order){'l', F_SETLK, type, 0, 1});
        if (read(peer->from, &answer, sizeof(answer)) != sizeof(answer)) {
            break;
        }
    }
}

static void
peer_end(struct peer *peer)
{
    close(peer->to);
    close(peer->from);
    waitpid(peer->pid, NULL, 0);
}

static long
locked(int fd, int cmd, int type, off_t start, off_t len)
{
    struct flock lock = {.l_type = (short)type, .l_start = start, .l_len = len};
    return fcntl(fd, cmd, &lock);
}

static void
flocks(struct side *side)
{
    struct peer peer = peer_start(side);
    object_make(side, "f", FILE_10);
    int fd = OPEN(side, open("f", O_RDONLY)),
        other = OPEN(side, open("f", O_RDWR));
    PEER(&peer, 'o', O_RDWR, 0, 0, 0);
    DO(side, flock(fd, LOCK_SH));
    PEER(&peer, 'f', LOCK_SH | LOCK_NB, 0, 0, 0);
    DO(side, flock(fd, LOCK_EX | LOCK_NB)); /* loses the shared one */
    PEER(&peer, 'f', LOCK_UN, 0, 0, 0);
    DO(side, flock(fd, LOCK_EX | LOCK_NB));
    DO(side, flock(other, LOCK_SH | LOCK_NB));
    PEER(&peer, 'f', LOCK_SH | LOCK_NB, 0, 0, 0);
    PEER(&peer, 'l', F_SETLK, F_WRLCK, 0, 0); /* of no concern to each other */
    peer_tell(&peer, (struct order){'f', LOCK_EX, 0, 0, 0});
    DO(side, peer_waits(&peer, 100));
    DO(side, flock(fd, LOCK_UN));
    peer_answer(side, &peer, "peer has waited");
    DO(side, flock(other, LOCK_EX | LOCK_NB));
    PEER(&peer, 'c', 0, 0, 0, 0);
    DO(side, flock(other, LOCK_EX));
    int copy = dup(other);
    DO(side, close(other));
    DO(side, flock(fd, LOCK_SH | LOCK_NB)); /* the copy holds it */
    DO(side, close(copy));
    DO(side, flock(fd, LOCK_SH)); /* may wait a moment */
    DO(side, flock(fd, 77));
    close(fd);
    peer_end(&peer);
}

static void
records(struct side *side)
{
    struct peer peer = peer_start(side);
    object_make(side, "f", FILE_10);
    int fd = OPEN(side, open("f", O_RDWR));
    PEER(&peer, 'o', O_RDWR, 0, 0, 0);
    DO(side, locked(fd, F_SETLK, F_WRLCK, 0, 10));
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 5, 10);
    PEER(&peer, 'l', F_SETLK, F_WRLCK, 10, 10);
    PEER(&peer, 'q', F_GETLK, F_WRLCK, 0, 0);
    DO(side, locked(fd, F_SETLK, F_WRLCK, 15, 1));
    DO(side, locked(fd, F_SETLK, F_UNLCK, 3, 4)); /* a gap: 0-2 and 7-9 stay */
    PEER(&peer, 'q', F_GETLK, F_WRLCK, 0, 0);
    PEER(&peer, 'q', F_GETLK, F_WRLCK, 3, 4);
    PEER(&peer, 'q', F_GETLK, F_RDLCK, 4, 0);
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 3, 4);
    DO(side, locked(fd, F_SETLK, F_RDLCK, 0, 0));
    DO(side, locked(fd, F_SETLK, F_RDLCK, 0, 10));
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 0, 10);
    PEER(&peer, 'l', F_SETLK, F_UNLCK, 0, 0);
    DO(side, locked(fd, F_SETLK, F_WRLCK, 0, 0));
    peer_tell(&peer, (struct order){'l', F_SETLKW, F_WRLCK, 100, 1});
    DO(side, peer_waits(&peer, 100));
    /* Any close of the file by the process gives them all back. */
    OPENS(side, open("f", O_RDONLY));
    peer_answer(side, &peer, "peer has waited");
    DO(side, locked(fd, F_SETLK, F_WRLCK, 100, 1));
    PEER(&peer, 'c', 0, 0, 0, 0);
    DO(side, locked(fd, F_SETLK, F_WRLCK, 100, 1));
    DO(side, locked(fd, F_SETLK, F_WRLCK, -5, 1));
    DO(side, locked(fd, F_SETLK, F_WRLCK, 10, -5));
    DO(side, locked(fd, F_SETLK, F_WRLCK, INT64_MAX, 2));
    DO(side, locked(fd, F_SETLK, 9, 0, 1));
    close(fd);
    fd = OPEN(side, open("f", O_RDONLY));
    DO(side, locked(fd, F_SETLK, F_WRLCK, 0, 1));
    DO(side, locked(fd, F_SETLK, F_RDLCK, 0, 1));
    close(fd);
    peer_end(&peer);
}

static void
interrupt(int number)
{
    (void)number;
}

/* Without detection a signal ends it. */
static void
deadlock(struct side *side)
{
    struct sigaction ours = {.sa_handler = interrupt}, old;

    struct peer peer = peer_start(side);
    object_make(side, "f", FILE_10);
    int fd = OPEN(side, open("f", O_RDWR));
    PEER(&peer, 'o', O_RDWR, 0, 0, 0);
    DO(side, locked(fd, F_SETLK, F_WRLCK, 0, 1));
    PEER(&peer, 'l', F_SETLK, F_WRLCK, 1, 1);
    peer_tell(&peer, (struct order){'l', F_SETLKW, F_WRLCK, 0, 1});
    DO(side, peer_waits(&peer, 100));
    sigaction(SIGALRM, &ours, &old);
    unsigned left = alarm(1);
    DO(side, locked(fd, F_SETLKW, F_WRLCK, 1, 1));
    sigaction(SIGALRM, &old, NULL);
    alarm(left);
    DO(side, locked(fd, F_SETLK, F_UNLCK, 0, 1));
    peer_answer(side, &peer, "peer has waited");
    close(fd);
    peer_end(&peer);
}

static void
descriptions(struct side *side)
{
    struct peer peer = peer_start(side);
    object_make(side, "f", FILE_10);
    int fd = OPEN(side, open("f", O_RDWR)),
        other = OPEN(side, open("f", O_RDWR));
    PEER(&peer, 'o', O_RDWR, 0, 0, 0);
    DO(side, locked(fd, F_OFD_SETLK, F_WRLCK, 0, 5));
    DO(side, locked(other, F_OFD_SETLK, F_WRLCK, 4, 1));
    DO(side, locked(other, F_SETLK, F_WRLCK, 4, 1));
    PEER(&peer, 'l', F_OFD_SETLK, F_RDLCK, 0, 1);
    PEER(&peer, 'l', F_OFD_SETLK, F_RDLCK, 5, 1);
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 0, 1);
    OPENS(side, open("f", O_RDONLY));
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 0, 1);
    int copy = dup(fd);
    DO(side, close(fd));
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 0, 1);
    DO(side, close(copy));
    peer_gets(&peer, F_RDLCK);
    PEER(&peer, 'l', F_SETLK, F_RDLCK, 0, 1);
    close(other);
    peer_end(&peer);
}

/* A process that holds and one that waits are killed. */
static void
killed(struct side *side)
{
    object_make(side, "f", FILE_10);
    int fd = OPEN(side, open("f", O_RDWR));
    for (int i = 0; i < 2; i++) {
        struct peer holder = peer_start(side), waiter = peer_start(side);
        struct order order = {i ? 'f' : 'l', i ? LOCK_EX : F_SETLKW, F_WRLCK, 0,
                              0};
        PEER(&holder, 'o', O_RDWR, 0, 0, 0);
        PEER(&waiter, 'o', O_RDWR, 0, 0, 0);
        peer_tell(&holder, order);
        peer_answer(side, &holder, "holder");
        peer_tell(&waiter, order);
        DO(side, peer_waits(&waiter, 50));
        kill(waiter.pid, SIGKILL);
        peer_end(&waiter);
        DO(side, i ? flock(fd, LOCK_SH | LOCK_NB)
                   : locked(fd, F_SETLK, F_WRLCK, 0, 1));
        kill(holder.pid, SIGKILL);
        peer_end(&holder);
        DO(side, i ? flock(fd, LOCK_SH | LOCK_NB)
                   : locked(fd, F_SETLK, F_WRLCK, 0, 1));
    }
    close(fd);
}

/* A signal ends the wait. */
static void
interrupted(struct side *side)
{
    struct peer peer = peer_start(side);
    object_make(side, "f", FILE_10);
    int fd = OPEN(side, open("f", O_RDWR));
    PEER(&peer, 'o', O_RDWR, 0, 0, 0);
    PEER(&peer, 'l', F_SETLK, F_WRLCK, 0, 0);
    PEER(&peer, 'f', LOCK_EX, 0, 0, 0);
    struct sigaction ours = {.sa_handler = interrupt}, old;
    sigaction(SIGALRM, &ours, &old);
    unsigned left = alarm(1);
    DO(side, locked(fd, F_SETLKW, F_RDLCK, 0, 1));
    alarm(1);
    DO(side, flock(fd, LOCK_EX));
    sigaction(SIGALRM, &old, NULL);
    alarm(left);
    PEER(&peer, 'c', 0, 0, 0, 0);
    DO(side, locked(fd, F_SETLK, F_RDLCK, 0, 1));
    DO(side, flock(fd, LOCK_EX | LOCK_NB));
    close(fd);
    peer_end(&peer);
}

const struct script lock_scripts[] = {
    {"flock", flocks, false},
    {"record locks", records, false},
    {"deadlock", deadlock, false},
    {"locks of open file descriptions", descriptions, false},
    {"locks of killed processes", killed, false},
    {"interrupted locks", interrupted, false},
    {NULL, NULL, false},
};
