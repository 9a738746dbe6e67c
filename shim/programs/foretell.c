/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells mounts of ferry the words of a command without annotation that is about to be
 * started, so that files which they name are fetched while it starts. Three system calls
 * for a mount that the words or the working folder lead to, none of which waits; whatever
 * fails is passed over. Runs in vfork children.
 */
#include "config.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "proxy/files/client/control.h"
#include "shim/arch/x86_64/raw.h"
#include "shim/programs/exec.h"

enum {
    NAME_MOST = 1024,
    AT_ONCE = 8, /* words of one call */
};

/* A mount, as it is seen from the working folder. */
struct view {
    const char *path;
    const char
        *rest;  /* of that path, below the working folder; NULL: not below */
    bool below; /* the working folder is below the mount */
};

static struct view
look(const struct fy_snapshot *snapshot, const struct fy_snapshot_mount *mount,
     const char *cwd)
{
    size_t n = strlen(cwd);
    struct view view = {.path = fy_snapshot_string(snapshot, mount->path)};
    n -= n == 1;
    view.below = strncmp(cwd, view.path, mount->path_bytes) == 0 &&
                 (cwd[mount->path_bytes] == '/' || !cwd[mount->path_bytes]);
    if (*cwd && strncmp(view.path, cwd, n) == 0 && view.path[n] == '/') {
        view.rest = view.path + n + 1;
    }
    return view;
}

static bool
may_name(const struct view *view, const char *word)
{
    return view->below || strstr(word, view->path) ||
           (view->rest && strstr(word, view->rest));
}

static int
connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path, path, n + 1);
    int fd =
        (int)fy_raw(SYS_socket, AF_UNIX,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0, 0);
    if (fd >= 0 &&
        fy_raw(SYS_connect, fd, (long)&address, sizeof address, 0, 0, 0) != 0) {
        fy_raw(SYS_close, fd, 0, 0, 0, 0, 0);
        return -1;
    }
    return fd;
}

static bool
send_parts(int fd, struct iovec *parts, size_t n)
{
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = n};
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += parts[i].iov_len;
    }
    return fy_raw(SYS_sendmsg, fd, (long)&message, MSG_NOSIGNAL, 0, 0, 0) ==
           (long)bytes;
}

static __attribute__((noinline)) void
tell(const char *control, const struct view *view, const char *cwd,
     char *const words[])
{
    static const char line[] = FY_FILES_CONTROL_WORDS "\n";
    struct iovec parts[AT_ONCE] = {{(void *)line, sizeof line - 1},
                                   {(void *)cwd, strlen(cwd) + 1}};
    size_t n = 2;
    int fd = connect_to(control);
    bool sent = fd >= 0;
    for (; sent && *words; words++) {
        if (may_name(view, *words)) {
            parts[n++] = (struct iovec){*words, strlen(*words) + 1};
        }
        if (n == AT_ONCE) {
            sent = send_parts(fd, parts, n);
            n = 0;
        }
    }
    if (sent && n > 0) {
        (void)send_parts(fd, parts, n);
    }
    if (fd >= 0) {
        fy_raw(SYS_close, fd, 0, 0, 0, 0, 0);
    }
}

static __attribute__((noinline)) void
tell_all(const struct fy_snapshot *snapshot, char *const words[])
{
    char cwd[NAME_MOST];
    if (fy_raw(SYS_getcwd, (long)cwd, sizeof cwd, 0, 0, 0, 0) <= 1 ||
        cwd[0] != '/') {
        strcpy(cwd, "/"); /* words that are absolute are understood */
    }
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        const struct fy_snapshot_mount *mount =
            fy_snapshot_mounts(snapshot) + i;
        const struct view view = look(snapshot, mount, cwd);
        size_t at = 0;
        while (words[at] && !may_name(&view, words[at])) {
            at++;
        }
        if (mount->control && words[at]) {
            tell(fy_snapshot_string(snapshot, mount->control), &view, cwd,
                 words);
        }
    }
}

void
fy_foretell(const struct fy_snapshot *snapshot, char *const argv[])
{
    bool any = false;
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        any = any || fy_snapshot_mounts(snapshot)[i].control;
    }
    if (any && argv[0] && argv[1]) {
        tell_all(snapshot, argv + 1);
    }
}
