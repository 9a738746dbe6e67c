/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session says to a stub (shim/stub/serve.c): frames on its socket. The rest
 * of the stub is this file's, but for what it holds back (shim/stub/held.c). What the
 * frames say is written, in order and whole, to the descriptor that they name; each
 * input ends in the original, in a status, or in the stub's own end.
 */
#include "config.h"

#include <setjmp.h>
#include <sys/mman.h>

#include "shim/stub/serve.c" /* for obey_all */
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "a stub writes what its session says, and ends";
const char *const fuzz_words[] = {"\x03", "\x04", "\x05", "\x06", "\xff\xff",
                                  "\x01", "\x02", "\x07", NULL};

static jmp_buf ended;
static unsigned nsent;

/* ---- the rest of the stub */

void
stub_exec(const struct stub *stub)
{
    (void)stub;
    longjmp(ended, 1);
}

void
stub_end(int number, int status)
{
    (void)number;
    (void)status;
    longjmp(ended, 2);
}

void
stub_again(const struct stub *stub)
{
    (void)stub;
    longjmp(ended, 3);
}

void
stub_complain(const struct stub *stub, const char *a, const char *b)
{
    (void)stub;
    MUST(*a && *b);
}

int
stub_send(uint32_t type, const void *bytes, uint32_t n)
{
    MUST(type >= FY_STUB_HELLO && type <= FY_STUB_PONG);
    MUST(n <= FY_STUB_DATA_BYTES && (bytes || n == 0));
    nsent++;
    return 0;
}

void
stub_send_to(int to)
{
    (void)to;
}

void
stub_stop(void)
{
}

void
stub_signals_seen(void)
{
}

void
stub_signals_deliver(void)
{
}

void
stub_signals_ignore(int number)
{
    (void)number;
}

void
stub_signals_catch(const struct stub *stub)
{
    (void)stub;
}

uint64_t
stub_signals_passed(void)
{
    return 0;
}

bool
stub_pipe_kills(void)
{
    return false;
}

void
stub_pipe_broken(void)
{
}

bool
stub_spool_room(const char *folder)
{
    (void)folder;
    return true;
}

void
stub_spool_add(const char *bytes, size_t n)
{
    (void)bytes;
    (void)n;
}

void
stub_spool_forget(void)
{
}

int
stub_spool_replay(void)
{
    return 0;
}

void
fy_sha256_start(struct fy_sha256 *hash)
{
    (void)hash;
}

void
fy_sha256_add(struct fy_sha256 *hash, const void *bytes, size_t n)
{
    (void)hash;
    (void)bytes;
    (void)n;
}

/* ---- what is shown */

/* The bytes of OUT or ERR frames, up to the first one that is no frame. */
static size_t
expected(const uint8_t *bytes, size_t n, uint32_t type, uint8_t *out)
{
    struct fy_stub_frame frame;
    size_t used = 0;
    while (n >= sizeof frame) {
        memcpy(&frame, bytes, sizeof frame);
        bytes += sizeof frame;
        n -= sizeof frame;
        if (frame.bytes > FY_STUB_DATA_BYTES || frame.bytes > n) {
            break;
        }
        if (frame.type == type) {
            memcpy(out + used, bytes, frame.bytes);
            used += frame.bytes;
        }
        if (frame.type == FY_STUB_EXEC || frame.type == FY_STUB_EXIT ||
            frame.type == FY_STUB_AGAIN || frame.type > FY_STUB_PLACE ||
            frame.type == 0) {
            break;
        }
        bytes += frame.bytes;
        n -= frame.bytes;
    }
    return used;
}

static int files[3]; /* in the place of the descriptors */
static int before[3];

void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

static void
swap_fds(bool in)
{
    for (int fd = 0; fd < 3; fd++) {
        if (in) {
            before[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
            files[fd] = memfd_create("fuzz", MFD_CLOEXEC);
            MUST(before[fd] >= 0 && files[fd] >= 0);
            MUST(dup2(files[fd], fd) == fd);
            if (fd == 2 && __sanitizer_set_report_fd) {
                __sanitizer_set_report_fd((void *)(intptr_t)before[2]);
            }
            MUST(fd > 0 || lseek(fd, 7, SEEK_SET) == 7);
        } else {
            (void)dup2(before[fd], fd);
            (void)close(before[fd]);
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static char *argv[] = {NULL};
    static struct service service;
    static struct stub stub;
    uint8_t *want = malloc(n + 1), *have = malloc(n + 1);
    memset(&service, 0, sizeof service);
    memset(&stub, 0, sizeof stub);
    stub.argv = stub.envp = argv;
    stub.path = "";
    stub.socket = -1;
    service.stub = &stub;
    service.input_start = -1;
    MUST(want && have);
    fflush(stdout);
    swap_fds(true);
    volatile int how = setjmp(ended);
    if (how == 0) {
        for (size_t at = 0; at < n;) {
            size_t k = n - at < sizeof room - service.used
                           ? n - at
                           : sizeof room - service.used;
            k = k < 1 + bytes[at] * 64U ? k : 1 + bytes[at] * 64U;
            memcpy(room + service.used, bytes + at, k);
            service.used += k;
            at += k;
            handle_frames(&service);
        }
    }
    swap_fds(false);
    MUST(stub_held_fd() < 0);
    for (int fd = 1; fd < 3; fd++) {
        size_t size =
            expected(bytes, n, fd == 1 ? FY_STUB_OUT : FY_STUB_ERR, want);
        MUST(pread(files[fd], have, n + 1, 0) == (ssize_t)size);
        MUST(!memcmp(want, have, size));
        fuzz_taken += size > 0;
    }
    for (int fd = 0; fd < 3; fd++) {
        (void)close(files[fd]);
    }
    free(want);
    free(have);
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
    static char bytes[4096];
    struct fy_stub_run run = {.reads_stdin = 1, .keeps_stdin = 1};
    struct fy_stub_exit end = {.status = 3, .input_bytes = 5};
    size_t n = put(bytes, FY_STUB_RUN, &run, sizeof run);
    n += put(bytes + n, FY_STUB_OUT, "hello\n", 6);
    n += put(bytes + n, FY_STUB_PLACE, "12345678", 8);
    n += put(bytes + n, FY_STUB_ERR, "trouble\n", 8);
    n += put(bytes + n, FY_STUB_WANT, "\xff\xff\xff\xff", 4);
    n += put(bytes + n, FY_STUB_PING, "", 0);
    n += put(bytes + n, FY_STUB_FORGET, "", 0);
    n += put(bytes + n, FY_STUB_OUT, "more\n", 5);
    fuzz_seed(bytes, n);
    size_t stop = n + put(bytes + n, FY_STUB_EXIT, &end, sizeof end);
    fuzz_seed(bytes, stop);
    end.input_bytes = INT64_MAX; /* behind where stdin began: overflowed */
    stop = n + put(bytes + n, FY_STUB_EXIT, &end, sizeof end);
    fuzz_seed(bytes, stop);
    stop = n + put(bytes + n, FY_STUB_AGAIN, "", 0);
    fuzz_seed(bytes, stop);
    fuzz_seed(bytes, put(bytes, FY_STUB_EXEC, "", 0));
}
