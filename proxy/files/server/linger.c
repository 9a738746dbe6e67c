/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of the process beyond its connection. It listens on a socket in a private
 * folder, whose name is half of a random token; the other half has to be said in the
 * HELLO. Who has both takes the connection over. Answers of requests that changed
 * something are kept until they are acknowledged, so such a request is done once.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    NAME_HALF = FY_FILES_TOKEN_BYTES / 2,
    LIVING_MAX = 64, /* processes of one user that may linger */
};

/* ---- the folder -------------------------------------------------------------------------- */

/* The private folder of this user, made if need be. */
static bool
find_folder(char *out, size_t capacity)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat about;
    int n = runtime && *runtime == '/'
                ? snprintf(out, capacity, "%s/ferry-files", runtime)
                : -1;
    if (n < 0 || (size_t)n >= capacity ||
        (mkdir(out, 0700) != 0 && errno != EEXIST)) {
        (void)snprintf(out, capacity, "/tmp/ferry-files-%u",
                       (unsigned)geteuid());
        (void)mkdir(out, 0700);
    }
    return lstat(out, &about) == 0 && S_ISDIR(about.st_mode) &&
           about.st_uid == geteuid() && (about.st_mode & 077) == 0;
}

static bool
set_address(struct sockaddr_un *out, const char *folder, const char *name)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n =
        snprintf(out->sun_path, sizeof out->sun_path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof out->sun_path;
}

static void
name_of(const unsigned char *token, char out[2 * NAME_HALF + 1])
{
    for (unsigned i = 0; i < NAME_HALF; i++) {
        (void)snprintf(out + (size_t)2 * i, 3, "%02x", token[i]);
    }
}

/* Connects to the listening process; -1: none. */
static int
reach(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        int error = errno;
        (void)close(fd);
        fd = -1;
        errno = error;
    }
    return fd;
}

/* Removes the sockets of processes that have ended. How many go on. */
static unsigned
remove_dead(const char *folder)
{
    unsigned living = 0;
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        struct sockaddr_un address;
        if (entry->d_name[0] == '.' ||
            !set_address(&address, folder, entry->d_name)) {
            continue;
        }
        int fd = reach(&address);
        living += fd >= 0 || errno != ECONNREFUSED;
        if (fd >= 0) {
            (void)close(fd);
        } else if (errno == ECONNREFUSED) {
            (void)unlink(address.sun_path);
        }
    }
    if (entries) {
        (void)closedir(entries);
    }
    return living;
}

int
fy_files_listen(unsigned char token[FY_FILES_TOKEN_BYTES])
{
    char folder[96], name[2 * NAME_HALF + 1];
    struct sockaddr_un address;
    if (!find_folder(folder, sizeof folder) ||
        getrandom(token, FY_FILES_TOKEN_BYTES, 0) != FY_FILES_TOKEN_BYTES) {
        return -1;
    }
    if (remove_dead(folder) >= LIVING_MAX) {
        return -1;
    }
    name_of(token, name);
    int fd =
        set_address(&address, folder, name)
            ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
            : -1;
    if (fd >= 0 &&
        (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
         listen(fd, 4) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

int
fy_files_reach(const void *token, size_t n)
{
    char folder[96], name[2 * NAME_HALF + 1];
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (n != FY_FILES_TOKEN_BYTES || !find_folder(folder, sizeof folder)) {
        return -1;
    }
    name_of(token, name);
    int fd = set_address(&address, folder, name) ? reach(&address) : -1;
    if (fd >= 0 &&
        (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
         peer.uid != geteuid())) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

int
fy_files_accept(struct fy_files_server *server)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    int fd = accept4(server->door.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 &&
        (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
         peer.uid != geteuid())) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- answers that are kept; with the lock of struct fy_files_sending held ---------------------- */

struct fy_files_said {
    struct fy_files_said *next;
    uint64_t id;
    size_t n;
    char bytes[];
};

enum {
    SAID_MAX = 64 << 10, /* that a client leaves unacknowledged */
};

bool
fy_files_said_add(struct fy_files_sending *sending, uint64_t id,
                  const struct fy_files_out *frame)
{
    struct fy_files_said *said = malloc(sizeof *said + frame->n);
    if (!said || sending->nsaid >= SAID_MAX) {
        free(said);
        return false;
    }
    said->next = NULL;
    said->id = id;
    said->n = frame->n;
    memcpy(said->bytes, frame->bytes, frame->n);
    *sending->last_said = said;
    sending->last_said = &said->next;
    sending->nsaid++;
    return true;
}

bool
fy_files_said_find(const struct fy_files_sending *sending, uint64_t id,
                   struct fy_files_out *out)
{
    struct fy_files_said *said = sending->said;
    while (said && said->id != id) {
        said = said->next;
    }
    if (said) {
        *out = (struct fy_files_out){.bytes = said->bytes, .n = said->n};
    }
    return said != NULL;
}

void
fy_files_said_free(struct fy_files_sending *sending, uint64_t upto)
{
    struct fy_files_said **link = &sending->said;
    while (*link) {
        struct fy_files_said *said = *link;
        if (said->id <= upto) {
            *link = said->next;
            sending->nsaid--;
            free(said);
        } else {
            link = &said->next;
        }
    }
    sending->last_said = link;
}
