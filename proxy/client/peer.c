/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights of processes, from /proc; see the header. The user namespace, a Landlock
 * domain and most of the capabilities have been compared by the kernel before, which
 * lets no process through to the socket that may not look into the session (session.c).
 * The network, host name, clocks, keyrings, control groups and personality change no
 * result of a command that works on files alone; umask, limits and nice go with the
 * request, signals and the working folder with the hello.
 */
#include "config.h"

#include "proxy/client/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD /* Linux 6.5 */
#define SO_PEERPIDFD 77
#endif
#ifndef STATX_MNT_ID /* Linux 5.8 */
#define STATX_MNT_ID 0x1000U
#endif

enum {
    STATUS_BYTES = 16 << 10, /* a user of a thousand groups fits */
    LABEL_BYTES = 1 << 10,
};

struct fy_peer {
    char rights[STATUS_BYTES]; /* text of /proc/PID/status */
    char label[LABEL_BYTES];   /* of a security module; "": there is none */
    /* Root folder, and its mount, which belongs to one namespace only. */
    uint64_t device, inode, mount;
};

/* False: the file of a process in /proc cannot be read, or not as a whole. */
static bool
read_text(const char *process, const char *name, char *text, size_t room)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%s/%s", process, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, room) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[n > 0 && (size_t)n < room ? n : 0] = '\0';
    return n > 0 && (size_t)n < room;
}

static bool
read_root(const char *process, struct fy_peer *out)
{
    char path[64];
    struct statx root;
    struct stat namespace;
    (void)snprintf(path, sizeof path, "/proc/%s/root", process);
    if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID,
              &root) != 0) {
        return false;
    }
    out->device = makedev(root.stx_dev_major, root.stx_dev_minor);
    out->inode = root.stx_ino;
    out->mount = root.stx_mnt_id;
    if (!(root.stx_mask & STATX_MNT_ID)) {
        (void)snprintf(path, sizeof path, "/proc/%s/ns/mnt", process);
        bool known = stat(path, &namespace) == 0;
        out->mount = known ? namespace.st_ino : 0;
        return known;
    }
    return true;
}

/* `label': also that of a security module. */
static bool
read_rights(const char *process, bool label, struct fy_peer *out)
{
    out->label[0] = '\0';
    return read_text(process, "/status", out->rights, sizeof out->rights) &&
           read_root(process, out) &&
           (!label ||
            read_text(process, "attr/current", out->label, sizeof out->label));
}

int
fy_peer_new(struct fy_peer **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out) {
        return FY_ERR_NOMEM;
    }
    /* Numbers of another namespace's /proc would be those of other processes. */
    char number[16], self[16] = "";
    (void)snprintf(number, sizeof number, "%d", (int)getpid());
    bool labelled =
        read_text("self", "attr/current", (*out)->label, LABEL_BYTES);
    if (readlink("/proc/self", self, sizeof self - 1) <= 0 ||
        strcmp(number, self) != 0 || !read_rights("self", labelled, *out)) {
        (*out)->rights[0] = '\0';
    }
    return 0;
}

void
fy_peer_free(struct fy_peer *own)
{
    free(own);
}

/* Finds the line that begins so; "" if there is none. *out_n: without the newline. */
static const char *
line_of(const char *rights, const char *begin, size_t *out_n)
{
    const char *line = strstr(rights, begin);
    *out_n = line ? strcspn(line + 1, "\n") + 1 : 0;
    return line ? line : "";
}

static const char *
first_difference(const struct fy_peer *own, const struct fy_peer *other)
{
    static const char *const lines[] = {
        "\nUid:",        "\nGid:",     "\nGroups:",         "\nCapInh:",
        "\nCapPrm:",     "\nCapEff:",  "\nCapBnd:",         "\nCapAmb:",
        "\nNoNewPrivs:", "\nSeccomp:", "\nSeccomp_filters:"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        size_t n, m;
        const char *mine = line_of(own->rights, lines[i], &n);
        const char *theirs = line_of(other->rights, lines[i], &m);
        if (n != m || memcmp(mine, theirs, n) != 0) {
            return lines[i] + 1;
        }
    }
    if (strcmp(own->label, other->label) != 0) {
        return "the label";
    }
    return own->device == other->device && own->inode == other->inode &&
                   own->mount == other->mount
               ? NULL
               : "the root folder";
}

/* Returns true while the peer has not ended: no other process has the same number. */
static bool
lives(int socket)
{
    struct pollfd process = {.fd = -1, .events = POLLIN};
    socklen_t n = sizeof process.fd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &process.fd, &n) != 0) {
        return errno == ENOPROTOOPT;
    }
    bool ended = poll(&process, 1, 0) != 0;
    (void)close(process.fd);
    return !ended;
}

bool
fy_peer_is_like_us(const struct fy_peer *own, int socket, pid_t pid,
                   struct fy_buffer *why)
{
    struct fy_peer other;
    char process[16];
    (void)snprintf(process, sizeof process, "%d", (int)pid);
    const char *differs = "the rights are not known";
    if (own->rights[0] && read_rights(process, own->label[0] != '\0', &other) &&
        lives(socket)) {
        differs = first_difference(own, &other);
    }
    if (differs) {
        fy_buffer_printf(why, "other rights or files: %s", differs);
    }
    return !differs;
}
