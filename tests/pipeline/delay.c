/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cable with a length, between two network namespaces: delay CLIENT-PID
 * STORAGE-PID MICROSECONDS makes an interface fy0 in the network of the first
 * process and fy1 in that of the second, and holds each packet for that long.
 * For kernels without netem; started by rig.py as root, ended by a signal.
 * Packets that meet a full queue are dropped, as a router would.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 4096,
    PACKET_BYTES = 65535 + 64,
    HEAP_BYTES = 64 << 20
};

/* One direction: packets in arrival order, their bytes in a ring. */
struct lane {
    int from, to;
    uint64_t delay_ns;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct {
        uint64_t due_ns;
        size_t at, bytes;
    } slots[SLOTS];
    unsigned head, tail;
    size_t end;
    unsigned char *heap;
};

static uint64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Where a packet of the greatest size may go; SIZE_MAX: the lane is full. */
static size_t
room(const struct lane *lane)
{
    if (lane->head - lane->tail == SLOTS) {
        return SIZE_MAX;
    }
    if (lane->head == lane->tail) {
        return 0;
    }
    size_t begin = lane->slots[lane->tail % SLOTS].at;
    if (lane->end > begin) {
        if (HEAP_BYTES - lane->end >= PACKET_BYTES) {
            return lane->end;
        }
        return begin > PACKET_BYTES ? 0 : SIZE_MAX;
    }
    return begin - lane->end > PACKET_BYTES ? lane->end : SIZE_MAX;
}

static void *
receive(void *argument)
{
    struct lane *lane = argument;
    static _Thread_local unsigned char dropped[PACKET_BYTES];
    for (;;) {
        pthread_mutex_lock(&lane->lock);
        size_t at = room(lane);
        pthread_mutex_unlock(&lane->lock);
        unsigned char *to = at == SIZE_MAX ? dropped : lane->heap + at;
        ssize_t n = read(lane->from, to, PACKET_BYTES);
        if (n < 0) {
            return NULL;
        }
        if (at == SIZE_MAX) {
            continue;
        }
        pthread_mutex_lock(&lane->lock);
        unsigned i = lane->head % SLOTS;
        lane->slots[i].due_ns = now_ns() + lane->delay_ns;
        lane->slots[i].at = at;
        lane->slots[i].bytes = (size_t)n;
        lane->end = at + (size_t)n;
        lane->head++;
        pthread_cond_signal(&lane->more);
        pthread_mutex_unlock(&lane->lock);
    }
}

static void *
deliver(void *argument)
{
    struct lane *lane = argument;
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        pthread_mutex_lock(&lane->lock);
        while (lane->head == lane->tail) {
            pthread_cond_wait(&lane->more, &lane->lock);
        }
        unsigned i = lane->tail % SLOTS;
        uint64_t due_ns = lane->slots[i].due_ns;
        const unsigned char *at = lane->heap + lane->slots[i].at;
        size_t bytes = lane->slots[i].bytes;
        pthread_mutex_unlock(&lane->lock);
        struct timespec t = {.tv_sec = (time_t)(due_ns / 1000000000u),
                             .tv_nsec = (long)(due_ns % 1000000000u)};
        if (now_ns() < due_ns) {
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        }
        /* An interface that is down loses the packet. */
        ssize_t sent = write(lane->to, at, bytes);
        (void)sent;
        pthread_mutex_lock(&lane->lock);
        lane->tail++;
        pthread_mutex_unlock(&lane->lock);
    }
    return NULL;
}

/* An interface in the network of a process. Packets come with the headers of
 * segmentation offload, so that a bulk transfer is few large ones. */
static int
open_interface(const char *pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int network = open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0 || setns(network, CLONE_NEWNET) != 0) {
        perror(path);
        exit(1);
    }
    close(network);
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    struct ifreq request;
    memset(&request, 0, sizeof request);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0 ||
        ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) {
        perror("/dev/net/tun");
        exit(1);
    }
    return fd;
}

int
main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: delay CLIENT-PID STORAGE-PID MICROSECONDS\n", stderr);
        return 2;
    }
    static struct lane lanes[2];
    int here = open_interface(argv[1], "fy0");
    int there = open_interface(argv[2], "fy1");
    for (int i = 0; i < 2; i++) {
        lanes[i].from = i ? there : here;
        lanes[i].to = i ? here : there;
        lanes[i].delay_ns = strtoul(argv[3], NULL, 10) * 1000;
        lanes[i].heap = malloc(HEAP_BYTES);
        pthread_mutex_init(&lanes[i].lock, NULL);
        pthread_cond_init(&lanes[i].more, NULL);
        pthread_t thread;
        if (!lanes[i].heap ||
            pthread_create(&thread, NULL, receive, &lanes[i]) != 0 ||
            pthread_create(&thread, NULL, deliver, &lanes[i]) != 0) {
            perror("delay");
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
