/* SPDX-License-Identifier: Apache-2.0 */
/* One question to a mount of ferry over its socket, see the header. */
#include "config.h"

#include "proxy/storage/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/plain.h"

enum {
    ANSWER_BYTES = 64 << 10,
};

static int
failed(int status, const char *what, struct fy_buffer *why)
{
    if (why) {
        fy_buffer_add(why, what);
    }
    return status;
}

/* -1: errno. */
static int
connect_to(const char *path, int flags)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof address.sun_path) {
        errno = EINVAL;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd >= 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* All until the end, NUL-terminated; FY_ERR_BUSY, FY_ERR_IO. */
static int
receive(int fd, unsigned patience_ms, char *answer)
{
    int64_t until = fy_clock_ms() + patience_ms;
    size_t used = 0;
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = until - fy_clock_ms();
        if (patience_ms && left <= 0) {
            return FY_ERR_BUSY;
        }
        int n = poll(&ready, 1, patience_ms ? (int)left : -1);
        if (n < 0 && errno != EINTR) {
            return FY_ERR_IO;
        }
        if (n <= 0) {
            continue;
        }
        ssize_t got = recv(fd, answer + used, ANSWER_BYTES - 1 - used, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            answer[used] = '\0';
            return got < 0 || used == ANSWER_BYTES - 1 ? FY_ERR_IO : 0;
        }
        used += (size_t)got;
    }
}

/* The last line decides. */
static int
judge(char *answer, struct fy_buffer *lines, struct fy_buffer *why)
{
    size_t n = strlen(answer);
    while (n > 0 && answer[n - 1] == '\n') {
        answer[--n] = '\0';
    }
    char *last = strrchr(answer, '\n');
    char *end = last ? last + 1 : answer;
    if (strcmp(end, "ok") != 0 && strncmp(end, "error ", 6) != 0) {
        return failed(FY_ERR_IO, "the mount has ended", why);
    }
    fy_plain(end, "");
    int status =
        strcmp(end, "ok") == 0 ? 0 : failed(FY_ERR_INVALID, end + 6, why);
    *end = '\0';
    if (lines) {
        fy_buffer_add(lines, answer);
    }
    return status;
}

int
fy_control_ask(const char *path, const char *request, unsigned patience_ms,
               struct fy_buffer *lines, struct fy_buffer *why)
{
    char line[256];
    int n = snprintf(line, sizeof line, "%s\n", request);
    char *answer = malloc(ANSWER_BYTES);
    int fd = answer && n < (int)sizeof line ? connect_to(path, 0) : -1;
    int status = fd < 0 || send(fd, line, (size_t)n, MSG_NOSIGNAL) != n
                     ? FY_ERR_IO
                     : receive(fd, patience_ms, answer);
    if (fd >= 0) {
        close(fd);
    }
    if (!status) {
        status = judge(answer, lines, why);
    } else {
        (void)failed(status,
                     status == FY_ERR_BUSY ? "the mount does not answer"
                                           : "no process serves the mount",
                     why);
    }
    free(answer);
    return status;
}

void
fy_control_tell(const char *path, const char *block, size_t n)
{
    int fd = connect_to(path, SOCK_NONBLOCK);
    if (fd >= 0) {
        (void)!send(fd, block, n, MSG_NOSIGNAL);
        close(fd);
    }
}

const char *
fy_control_text(const char *lines, const char *key, size_t *out_bytes)
{
    size_t n = strlen(key);
    while (*lines) {
        size_t length = strcspn(lines, "\n");
        if (length > n && memcmp(lines, key, n) == 0 && lines[n] == ' ') {
            *out_bytes = length - n - 1;
            return lines + n + 1;
        }
        lines += length + (lines[length] == '\n');
    }
    return NULL;
}

unsigned long long
fy_control_number(const char *lines, const char *key)
{
    size_t n;
    const char *text = fy_control_text(lines, key, &n);
    return text ? strtoull(text, NULL, 10) : 0;
}
