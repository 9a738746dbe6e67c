/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds a wire of either role what a broken or hostile peer would send:
 * recorded sessions with frames changed, dropped, doubled, swapped and bytes
 * spoilt. Each must end without a crash or a leak, in bounded time and memory,
 * and its owner must see a sensible order of events. Prints TAP; see fuzz.h.
 * Compiled with -DFY_LIBFUZZER it is a libFuzzer target.
 */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "proxy/wire/wire.h"
#include "tests/fuzz/fuzz.h"

enum {
    MAX_INPUT = 1 << 20,
    MAX_FRAMES = 4096,
    MAX_STREAMS = 1 << 14,
    MAX_MEMORY = 96 << 20, /* a hostile peer can fill 16 MiB a stream */
    REQUESTS = 6,
};

/* ---- the owner of the wire ---- */

enum state {
    UNKNOWN,
    OPEN,
    ENDED,
    CLOSED,
};

struct owner {
    struct fy_wire *wire;
    enum fy_wire_role role;
    bool tame; /* while recording: does what it should */
    unsigned nevents;
    unsigned char state[MAX_STREAMS];
};

static unsigned char *
state_of(struct owner *owner, int32_t id)
{
    MUST(id > 0);
    return &owner->state[id % MAX_STREAMS];
}

static char noise[70000];

/* Something or other, as owners do. */
static void
react(struct owner *owner, int32_t id)
{
    static const struct fy_wire_pair pairs[] = {
        {"ferry-exit", "0"}, {"ferry-why", "so\n it is"}, {"ferry-reason", ""}};
    if (owner->tame || below(2)) {
        return;
    }
    int status = FY_OK;
    switch (below(8)) {
    case 0:
        status = fy_wire_grant(owner->wire, id, below(100000));
        break;
    case 1:
        status = fy_wire_send(owner->wire, id, noise, below(sizeof noise));
        break;
    case 2:
        status = fy_wire_finish(owner->wire, id, pairs, below(4));
        break;
    case 3:
        status = fy_wire_respond(owner->wire, id, 200 + (int)below(400), pairs,
                                 below(4), below(2));
        break;
    case 4:
        fy_wire_cancel(owner->wire, id);
        break;
    case 5:
        status = fy_wire_ping(owner->wire);
        break;
    case 6: {
        int32_t other;
        status = fy_wire_request(owner->wire, "/other", below(2), NULL, &other);
        if (!status) {
            *state_of(owner, other) = OPEN;
        }
        break;
    }
    default:
        (void)fy_wire_room(owner->wire, id);
    }
    MUST(status <= 0);
}

static void
on_request(void *context, int32_t id, const char *method, const char *path,
           void **out_user)
{
    struct owner *owner = context;
    MUST(owner->role == FY_WIRE_SERVER && *state_of(owner, id) != OPEN);
    MUST(!strcmp(method, "GET") || !strcmp(method, "POST"));
    MUST(strlen(path) < FY_WIRE_MAX_HEAD_BYTES);
    *state_of(owner, id) = OPEN;
    *out_user = owner;
    owner->nevents++;
    if (owner->tame) {
        bool body = strcmp(path, "/refused") != 0;
        const struct fy_wire_pair pair = {"ferry-reason", "busy"};
        MUST(!fy_wire_respond(owner->wire, id, body ? 200 : 503, &pair, 1,
                              body));
        MUST(!fy_wire_grant(owner->wire, id, 100000));
        if (body) {
            MUST(!fy_wire_send(owner->wire, id, noise, sizeof noise));
        }
    }
    react(owner, id);
}

static void
on_response(void *context, int32_t id, void *user, int status,
            const struct fy_wire_pair *pairs, size_t n)
{
    struct owner *owner = context;
    (void)user;
    MUST(owner->role == FY_WIRE_CLIENT && *state_of(owner, id) == OPEN);
    MUST(status >= 200 && status <= 999 && n <= FY_WIRE_MAX_PAIRS);
    for (size_t i = 0; i < n; i++) {
        MUST(*pairs[i].name && strlen(pairs[i].value) < FY_WIRE_MAX_HEAD_BYTES);
    }
    owner->nevents++;
    react(owner, id);
}

static void
on_data(void *context, int32_t id, void *user, const void *bytes, size_t n)
{
    static volatile unsigned char sum;
    struct owner *owner = context;
    (void)user;
    MUST(*state_of(owner, id) == OPEN && n <= FY_WIRE_READ_BYTES);
    sum ^= ((const unsigned char *)bytes)[0];
    sum ^= ((const unsigned char *)bytes)[n - 1];
    owner->nevents++;
    if (owner->tame) {
        MUST(!fy_wire_grant(owner->wire, id, n));
    }
    react(owner, id);
}

static void
on_end(void *context, int32_t id, void *user,
       const struct fy_wire_pair *trailers, size_t n)
{
    static const struct fy_wire_pair pair = {"ferry-exit", "0"};
    struct owner *owner = context;
    (void)user;
    (void)trailers;
    MUST(*state_of(owner, id) == OPEN && n <= FY_WIRE_MAX_PAIRS);
    *state_of(owner, id) = ENDED;
    owner->nevents++;
    if (owner->tame && owner->role == FY_WIRE_SERVER) {
        (void)!fy_wire_finish(owner->wire, id, &pair, 1);
    }
    react(owner, id);
}

static void
on_ready(void *context, int32_t id, void *user)
{
    struct owner *owner = context;
    (void)user;
    MUST(*state_of(owner, id) == OPEN || *state_of(owner, id) == ENDED);
    MUST(fy_wire_room(owner->wire, id) > 0);
    react(owner, id);
}

static void
on_closed(void *context, int32_t id, void *user, uint32_t error)
{
    struct owner *owner = context;
    (void)user;
    (void)error;
    MUST(*state_of(owner, id) == OPEN || *state_of(owner, id) == ENDED);
    *state_of(owner, id) = CLOSED;
    owner->nevents++;
    react(owner, id);
}

static const struct fy_wire_events events = {
    on_request, on_response, on_data, on_end, on_ready, on_closed};

static void
make(struct owner *owner, enum fy_wire_role role, bool tame, int fd)
{
    memset(owner, 0, sizeof *owner);
    owner->role = role;
    owner->tame = tame;
    MUST(!fy_wire_new(role, fd, fd, &events, owner, &owner->wire));
    if (role == FY_WIRE_SERVER) {
        return;
    }
    /* What was asked when the session was recorded; the numbers are the same. */
    static const char *const paths[REQUESTS] = {
        "/hello", "/stage", "/stage/1/stderr", "/refused", "/stage", "/cancel"};
    for (unsigned i = 0; i < REQUESTS; i++) {
        int32_t id;
        bool body = i != 2;
        MUST(!fy_wire_request(owner->wire, paths[i], body, NULL, &id));
        *state_of(owner, id) = OPEN;
        MUST(!fy_wire_grant(owner->wire, id, 200000));
        if (body) {
            MUST(!fy_wire_send(owner->wire, id, noise, 3000 * i));
            MUST(!fy_wire_finish(owner->wire, id, NULL, 0));
        }
        if (i == 5) {
            fy_wire_cancel(owner->wire, id);
        }
    }
}

/* ---- recording ---- */

struct recording {
    unsigned char bytes[MAX_INPUT];
    size_t n;
};
static struct recording said[2]; /* by a client, by a server */

/* Passes on what came from one side; false: nothing. */
static bool
pass(int from, int to, struct recording *recording)
{
    unsigned char block[4096];
    ssize_t n = recv(from, block, sizeof block, MSG_DONTWAIT);
    if (n <= 0) {
        return false;
    }
    MUST(recording->n + (size_t)n <= sizeof recording->bytes);
    memcpy(recording->bytes + recording->n, block, (size_t)n);
    recording->n += (size_t)n;
    MUST(send(to, block, (size_t)n, MSG_NOSIGNAL) == n);
    return true;
}

static void
record(void)
{
    static struct owner client, server;
    int a[2], b[2];
    MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, a));
    MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, b));
    make(&client, FY_WIRE_CLIENT, true, a[0]);
    make(&server, FY_WIRE_SERVER, true, b[0]);
    for (int idle = 0; idle < 3; idle++) {
        MUST(!fy_wire_io(client.wire, true, true));
        MUST(!fy_wire_io(server.wire, true, true));
        while (pass(a[1], b[1], &said[0]) || pass(b[1], a[1], &said[1])) {
            MUST(!fy_wire_io(client.wire, true, true));
            MUST(!fy_wire_io(server.wire, true, true));
            idle = 0;
        }
    }
    MUST(*state_of(&client, 1) == CLOSED && *state_of(&server, 3) == CLOSED);
    fy_wire_free(client.wire);
    fy_wire_free(server.wire);
    close(a[1]);
    close(b[1]);
}

/* ---- spoiling ---- */

enum {
    MAGIC_BYTES = 24
}; /* PRI * HTTP/2.0... */

struct frame {
    const unsigned char *at;
    size_t n;
};
static struct frame frames[MAX_FRAMES];
static unsigned nframes;

static void
cut_frames(const struct recording *recording, size_t from)
{
    nframes = 0;
    while (from + 9 <= recording->n && nframes < MAX_FRAMES) {
        const unsigned char *at = recording->bytes + from;
        size_t n = 9 + ((size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2]);
        MUST(from + n <= recording->n);
        frames[nframes++] = (struct frame){at, n};
        from += n;
    }
}

/* A frame that nobody recorded. */
static size_t
invent(unsigned char *out)
{
    size_t n = below(3) ? below(40) : below(2000);
    out[0] = 0;
    out[1] = (unsigned char)(n >> 8);
    out[2] = (unsigned char)n;
    out[3] = (unsigned char)below(12);
    out[4] = (unsigned char)(below(2) ? below(256) : 4);
    memset(out + 5, 0, 4);
    out[8] = (unsigned char)below(16);
    for (size_t i = 0; i < n; i++) {
        out[9 + i] = (unsigned char)below(256);
    }
    return 9 + n;
}

static size_t
spoil_frame(unsigned char *at, size_t n)
{
    switch (below(6)) {
    case 0: /* its length */
        at[2] = (unsigned char)(at[2] + below(5) - 2);
        break;
    case 1: /* its type */
        at[3] = (unsigned char)below(12);
        break;
    case 2: /* its flags */
        at[4] ^= (unsigned char)(1U << below(8));
        break;
    case 3: /* its stream */
        at[8] = (unsigned char)below(20);
        break;
    case 4: /* a byte within */
        at[below((uint32_t)n)] = (unsigned char)below(256);
        break;
    default:
        for (size_t i = 9; i < n; i++) {
            at[i] = (unsigned char)(below(4) ? at[i] : below(256));
        }
    }
    return n;
}

static size_t
spoil(unsigned side, unsigned char *out)
{
    const struct recording *recording = &said[side];
    size_t magic = side == 0 ? MAGIC_BYTES : 0, n = magic;
    if (below(8) == 0) { /* bytes, not frames */
        memcpy(out, recording->bytes, recording->n);
        return fuzz_bytes(out, recording->n, MAX_INPUT);
    }
    memcpy(out, recording->bytes, magic);
    unsigned swapped = nframes;
    unsigned rare = 6 + below(200);
    for (unsigned i = 0; i < nframes; i++) {
        const struct frame *frame = &frames[i];
        if (i == swapped) {
            frame = &frames[i - 1];
        }
        if (n + 2 * frame->n + 4096 > MAX_INPUT) {
            break;
        }
        unsigned how = below(rare);
        if (how == 0 && below(2)) {
            continue; /* dropped */
        }
        if (how == 1 && i + 1 < nframes && i != swapped) {
            swapped = i + 1;
            frame = &frames[i + 1];
        }
        memcpy(out + n, frame->at, frame->n);
        n += how == 2 ? spoil_frame(out + n, frame->n) : frame->n;
        if (how == 3) {
            memcpy(out + n, frame->at, frame->n);
            n += frame->n;
        }
        if (how == 4) {
            n += invent(out + n);
        }
    }
    return below(8) ? n : fuzz_bytes(out, n, MAX_INPUT);
}

/* ---- feeding ---- */

static unsigned long sessions, broken, happened;

static void
feed(enum fy_wire_role role, const unsigned char *bytes, size_t n)
{
    static struct owner owner;
    static char drained[65536];
    int pair[2];
    MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair));
    make(&owner, role, below(4) == 0, pair[0]);
    bool alive = !fy_wire_io(owner.wire, false, true); /* the requests go */
    size_t at = 0;
    bool drains = below(4) != 0; /* a peer that reads nothing, now and then */
    for (unsigned idle = 0; alive && idle < 3;) {
        size_t most = below(8) ? 65536 : 1 + below(100);
        size_t k = n - at < most ? n - at : most;
        ssize_t sent = k ? send(pair[1], bytes + at, k, MSG_NOSIGNAL) : 0;
        at += sent > 0 ? (size_t)sent : 0;
        alive = !fy_wire_io(owner.wire, true, drains);
        MUST(fuzz_memory() < MAX_MEMORY);
        if (drains) {
            while (recv(pair[1], drained, sizeof drained, 0) > 0) {
            }
        }
        idle = at == n || sent < 0 ? idle + 1 : 0;
    }
    if (!alive) {
        broken++;
        MUST(fy_wire_io(owner.wire, true, true) == FY_ERR_IO);
        MUST(!fy_wire_wants_write(owner.wire));
    } else if (below(2)) {
        shutdown(pair[1], SHUT_WR);
        while (!fy_wire_io(owner.wire, true, true)) {
        }
    }
    sessions++;
    happened += owner.nevents;
    fy_wire_free(owner.wire);
    for (unsigned i = 0; i < MAX_STREAMS; i++) {
        MUST(owner.state[i] == UNKNOWN || owner.state[i] == CLOSED);
    }
    close(pair[1]);
}

#ifdef FY_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n) {
        feed(bytes[0] & 1 ? FY_WIRE_CLIENT : FY_WIRE_SERVER, bytes + 1, n - 1);
    }
    return 0;
}
#else

int
main(void)
{
    static unsigned char input[MAX_INPUT];
    double end = fuzz_begin();
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (char)(i * 7);
    }
    signal(SIGPIPE, SIG_IGN);
    record();
    for (unsigned side = 0; side < 2; side++) { /* as they were */
        fuzz_keep("wire", said[side].bytes, said[side].n);
        feed(side ? FY_WIRE_CLIENT : FY_WIRE_SERVER, said[side].bytes,
             said[side].n);
    }
    MUST(broken == 0 && happened > 10);
    while (fuzz_seconds() < end) {
        unsigned side = below(2);
        cut_frames(&said[side], side == 0 ? MAGIC_BYTES : 0);
        for (unsigned round = 0; round < 50 && fuzz_seconds() < end; round++) {
            size_t n = spoil(side, input);
            fuzz_keep("wire", input, n);
            double began = fuzz_seconds();
            feed(side ? FY_WIRE_CLIENT : FY_WIRE_SERVER, input, n);
            MUST(fuzz_seconds() - began < 10);
        }
    }
    (void)unlink(fuzz_path);
    printf("# %lu sessions, %lu of them broken off, %lu events\n", sessions,
           broken, happened);
    printf("%sok 1 - every session ends in order\n1..1\n",
           sessions > 10 ? "" : "not ");
    return sessions <= 10;
}
#endif
