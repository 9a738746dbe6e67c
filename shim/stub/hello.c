/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello of ferry-stub to its session: words, environment, limits, signals,
 * and the descriptors themselves. Changes nothing of the process but for two
 * close-on-exec descriptors.
 */
#include "config.h"

#include "shim/stub/local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/environment.h"
#include "common/kernel.h"

/* Open descriptors beyond 2; UINT32_MAX when nobody can say. */
static uint32_t
count_extra(void)
{
    _Alignas(struct dirent64) char block[4096];
    uint32_t count = 0;
    int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct fy_entries entries = {folder, block, sizeof block, 0, 0};
    const struct dirent64 *entry;
    if (folder < 0) {
        return UINT32_MAX;
    }
    while ((entry = fy_entries_next(&entries))) {
        int fd = 0;
        for (const char *c = entry->d_name; *c >= '0' && *c <= '9'; c++) {
            fd = 10 * fd + (*c - '0');
        }
        count += fd > 2 && fd != folder;
    }
    (void)close(folder);
    return entries.n < 0 ? UINT32_MAX : count;
}

/* Bits of fy_stub_hello.same. */
static uint32_t
compare_outputs(void)
{
    struct stat one, two;
    if (fstat(1, &one) != 0 || fstat(2, &two) != 0 ||
        one.st_dev != two.st_dev || one.st_ino != two.st_ino) {
        return 0;
    }
    /* Two ways into one pipe or terminal are as good as one, and whoever reads
     * the pipe there must get both. */
    if (S_ISFIFO(one.st_mode) || S_ISCHR(one.st_mode)) {
        return 1 << 1;
    }
    pid_t pid = getpid();
    long order = syscall(SYS_kcmp, pid, pid, KCMP_FILE, 1, 2);
    if (order >= 0) {
        return order == 0 ? 1 << 1 : 0;
    }
    /* No kcmp here: of a file, only the position would tell. */
    return S_ISREG(one.st_mode) ? 1 << 2 : 1 << 1;
}

static void
read_signals(struct fy_stub_hello *hello)
{
    sigset_t blocked;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stub has one thread */
    (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int i = 1; i <= 64; i++) {
        struct sigaction action;
        uint32_t bit = UINT32_C(1) << ((i - 1) % 32);
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
            hello->ignored[(i - 1) / 32] |= bit;
        }
        if (sigismember(&blocked, i) == 1) {
            hello->blocked[(i - 1) / 32] |= bit;
        }
    }
}

/* False when the kernel does not show the command's arguments. */
static bool
fill(struct fy_stub_hello *hello)
{
    hello->version = FY_STUB_VERSION;
    hello->pid = getpid();
    hello->extra_fds = count_extra();
    mode_t mask = umask(077);
    (void)umask(mask);
    hello->umask = mask;
    errno = 0;
    hello->nice = getpriority(PRIO_PROCESS, 0);
    bool known = errno == 0;
    for (int fd = 0; fd < 3; fd++) {
        int flags = fcntl(fd, F_GETFD);
        known = known && (flags >= 0 || errno == EBADF);
        hello->open |= (uint32_t)(flags >= 0) << fd;
    }
    hello->same = compare_outputs();
    read_signals(hello);
    for (int i = 0; i < 16; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)i, &limit) != 0) {
            return false;
        }
        hello->limits[i][0] = limit.rlim_cur;
        hello->limits[i][1] = limit.rlim_max;
    }
    struct winsize size;
    if (ioctl(1, TIOCGWINSZ, &size) == 0 || ioctl(0, TIOCGWINSZ, &size) == 0) {
        hello->rows = size.ws_row;
        hello->columns = size.ws_col;
    }
    return known;
}

/* ---- the strings ------------------------------------------------------------ */

static char *
make_frame(const struct stub *stub, size_t *out_n)
{
    size_t n = sizeof(struct fy_stub_frame) + sizeof(struct fy_stub_hello) +
               strlen(stub->path) + 1;
    for (char **word = stub->argv; *word; word++) {
        n += strlen(*word) + 1;
    }
    for (char **word = stub->envp; *word; word++) {
        n += strlen(*word) + 1;
    }
    char *block = n > FY_STUB_FRAME_BYTES ? NULL : malloc(n);
    if (!block) {
        return NULL;
    }
    struct fy_stub_hello hello = {0};
    if (!fill(&hello)) {
        free(block);
        return NULL;
    }
    char *at = block + sizeof(struct fy_stub_frame) + sizeof hello;
    at = stpcpy(at, stub->path) + 1;
    for (char **word = stub->argv; *word; word++, hello.argc++) {
        at = stpcpy(at, *word) + 1;
    }
    for (char **word = stub->envp; *word; word++) {
        size_t bytes = fy_environment_copy(*word, at);
        at += bytes;
        hello.envc += bytes > 0;
    }
    *out_n = (size_t)(at - block);
    struct fy_stub_frame frame = {.bytes = (uint32_t)(*out_n - sizeof frame),
                                  .type = FY_STUB_HELLO};
    memcpy(block, &frame, sizeof frame);
    memcpy(block + sizeof frame, &hello, sizeof hello);
    return block;
}

/* ---- sending ------------------------------------------------------------------ */

static int
connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        fd = stub_high(fd);
    }
    if (fd < 0) {
        return -1;
    }
    /* A session that does not take connections is no reason to hang. */
    const struct timeval patience = {.tv_sec = 5}, forever = {0};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    int connected;
    do {
        connected =
            connect(fd, (const struct sockaddr *)&address, sizeof address);
    } while (connected != 0 && errno == EINTR);
    if (connected != 0) {
        (void)close(fd);
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof forever);
    /* It is given our descriptors and decides about our output. */
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) != 0 ||
        peer.uid != geteuid()) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int
send_all(int fd, const char *bytes, size_t n, const int *fds, unsigned nfds)
{
    union {
        struct cmsghdr header;
        char block[CMSG_SPACE(4 * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (nfds > 0) {
        message.msg_control = control.block;
        message.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(nfds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, nfds * sizeof(int));
    }
    while (part.iov_len > 0) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return -1;
        }
        part.iov_base = (char *)part.iov_base + sent;
        part.iov_len -= (size_t)sent;
        message.msg_control = NULL;
        message.msg_controllen = 0;
    }
    return 0;
}

int
stub_hello(struct stub *stub, const char *socket_path)
{
    size_t n;
    char *frame = make_frame(stub, &n);
    if (!frame) {
        return -1;
    }
    struct fy_stub_hello hello;
    memcpy(&hello, frame + sizeof(struct fy_stub_frame), sizeof hello);
    stub->same = hello.same != 0;
    stub->terminal = isatty(1) == 1;
    int folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        folder = stub_high(folder);
    }
    if (folder < 0) {
        goto free_frame;
    }
    stub->socket = connect_to(socket_path);
    if (stub->socket < 0) {
        goto close_folder;
    }
    int fds[4];
    unsigned nfds = 0;
    for (int fd = 0; fd < 3; fd++) {
        if (hello.open >> fd & 1) {
            fds[nfds++] = fd;
        }
    }
    fds[nfds++] = folder;
    if (send_all(stub->socket, frame, n, fds, nfds)) {
        (void)close(stub->socket);
        stub->socket = -1;
    }
close_folder:
    (void)close(folder);
free_frame:
    free(frame);
    return stub->socket < 0 ? -1 : 0;
}
