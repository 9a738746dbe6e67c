/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stub's connection as its session reads it (proxy/client/stub_client.c): frames that come in
 * pieces, with descriptors. The first byte of the input says how large the pieces
 * are and with which of them descriptors come; the session around the connection is
 * this file's. Frames come through whole, in order and once, behind one hello; a stub
 * that breaks the rules is let go; no descriptor stays open.
 */
#include "config.h"

#include <sys/socket.h>

#include "proxy/client/stage.h"
#include "proxy/client/stub_client.c" /* for receive */
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "frames of a stub come whole and in order";
const char *const fuzz_words[] = {"\x01", "\x03",     "\x07",
                                  "\x0a", "\xff\xff", NULL};

static struct stage *const some_stage = (struct stage *)&fuzz_taken;
static struct {
    const uint8_t *bytes; /* what the stub sends */
    size_t n, at;         /* up to which its frames have come */
    unsigned hellos, ends;
} said;

/* ---- the session */

void
fy_loop_unwatch(struct fy_loop *loop, struct fy_watch *watch)
{
    (void)loop;
    (void)watch;
}

int
fy_loop_watch(struct fy_loop *loop, struct fy_watch *watch, uint32_t events)
{
    (void)loop;
    watch->events = events;
    return 0;
}

void
fy_loop_set(struct fy_loop *loop, struct fy_timer *timer, uint64_t delay_ns)
{
    (void)loop;
    (void)timer;
    (void)delay_ns;
}

/* The frame is the next one that was sent, but for those nobody waits for: before
 * the hello, and a second hello. */
static void
judge(uint32_t type, const char *body, size_t n)
{
    struct fy_stub_frame frame;
    do {
        MUST(said.n - said.at >= sizeof frame);
        memcpy(&frame, said.bytes + said.at, sizeof frame);
        said.at += sizeof frame;
        MUST(frame.bytes <= said.n - said.at);
        said.at += frame.bytes;
    } while (frame.type != type || (said.hellos == 0 && type != FY_STUB_HELLO));
    MUST(frame.bytes == n);
    MUST(!memcmp(body, said.bytes + said.at - n, n));
    fuzz_taken++;
}

static void
take_hello(struct stub_client *client, const char *body, size_t n)
{
    MUST(said.hellos == 0 && n <= FY_STUB_FRAME_BYTES && client->nfds <= 4);
    judge(FY_STUB_HELLO, body, n);
    said.hellos++;
    client->stage = n % 2 ? NULL : some_stage;
}

static void
take_frame(struct stage *stage, uint32_t type, const char *body, size_t n)
{
    MUST(stage == some_stage && n <= FY_STUB_DATA_BYTES);
    judge(type, body, n);
}

static void
take_end(struct stage *stage)
{
    MUST(stage == some_stage && said.ends++ == 0);
}

static const struct fy_session_calls calls = {
    .begin = take_hello, .frame = take_frame, .orphan = take_end};

/* ---- the stub */

/* One piece, with `nfds' descriptors. */
static void
send_piece(int to, const uint8_t *bytes, size_t n, unsigned nfds)
{
    union {
        struct cmsghdr header;
        char block[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    int fds[8];
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (nfds > 0) {
        for (unsigned i = 0; i < nfds; i++) {
            fds[i] = STDIN_FILENO;
        }
        message.msg_control = control.block;
        message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
    }
    MUST(sendmsg(to, &message, MSG_NOSIGNAL) == (ssize_t)n);
}

static int
lowest_free(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fy_session session = {.calls = &calls};
    struct stub_client *client = calloc(1, sizeof *client);
    int ends[2], before = lowest_free();
    if (n < 2) {
        free(client);
        return 0;
    }
    size_t piece = 1 + (bytes[0] & 15U) * 997;
    unsigned nfds = bytes[0] >> 4 & 7;
    bytes++;
    n--;
    MUST(client &&
         socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    client->session = &session;
    client->watch =
        (struct fy_watch){.fd = ends[0], .ready = serve, .owner = client};
    session.stubs.clients = client;
    memset(&said, 0, sizeof said);
    said.bytes = bytes;
    said.n = n;
    for (size_t at = 0; at < n && !client->gone; at += piece) {
        size_t k = n - at < piece ? n - at : piece;
        send_piece(ends[1], bytes + at, k, at % 3 == 0 ? nfds : 0);
        serve(client, EPOLLIN);
        /* Something is said to it, too. */
        fy_stub_client_send(client, FY_STUB_WANT, bytes, k < 64 ? k : 64);
        MUST(client->nfds <= 4 && client->in_used <= FY_STUB_FRAME_BYTES);
    }
    close(ends[1]);
    for (size_t round = 0; round <= n && !client->gone; round++) {
        serve(client, EPOLLIN | EPOLLHUP);
    }
    MUST(client->gone && client->nfds == 0);
    close(ends[0]);
    fy_stub_clients_sweep(&session);
    MUST(!session.stubs.clients && lowest_free() == before);
    return 0;
}

static size_t
put(char *to, uint32_t type, const void *body, uint32_t n)
{
    const struct fy_stub_frame frame = {.bytes = n, .type = type};
    memcpy(to, &frame, sizeof frame);
    memcpy(to + sizeof frame, body, n);
    return sizeof frame + n;
}

void
fuzz_make_seeds(void)
{
    static char bytes[4096] = "\x31";
    size_t n = 1;
    n += put(bytes + n, FY_STUB_HELLO, "a hello, sixteen", 16);
    n += put(bytes + n, FY_STUB_INPUT, "some input", 10);
    n += put(bytes + n, FY_STUB_INPUT_END, "", 0);
    n += put(bytes + n, FY_STUB_CREDIT, "\x01\x00\x00\x00", 4);
    fuzz_seed(bytes, n);
    bytes[0] = '\x70';
    fuzz_seed(bytes, n);
    n += put(bytes + n, FY_STUB_HELLO, "again", 5);
    bytes[0] = '\x0f';
    fuzz_seed(bytes, n);
}
