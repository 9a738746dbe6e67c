/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes as descriptors. One object an inode: it is found by the number that the client
 * knows, as long as it is held open, and by its path otherwise. A file that was read or
 * written stays open for a moment; one that the client keeps stays until it is forgotten.
 * Long because borrowing, resting and keeping are states of one object.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"

enum {
    IDLE_MAX = 1024, /* that are held open after use */
};

/* A writer that is open keeps others from executing the file. */
#define IDLE_READS_NS  (2 * UINT64_C(1000000000))
#define IDLE_WRITES_NS (UINT64_C(100000000))
#define IDLE_STAYS_NS  (60 * UINT64_C(1000000000))

static unsigned
bucket(uint64_t number)
{
    return (unsigned)(number * UINT64_C(0x9e3779b97f4a7c15) >> 54) %
           FY_FILES_BUCKETS;
}

int
fy_files_objects_open(struct fy_files_server *server)
{
    struct fy_files_objects *all = &server->objects;
    struct rlimit limit;
    unsigned most = 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        most = limit.rlim_cur > 1 << 20 ? 1 << 20 : (unsigned)limit.rlim_cur;
    }
    all->idle_max = most / 4 < IDLE_MAX ? most / 4 : IDLE_MAX;
    all->kept_max = most / 4; /* with two descriptors each */
    return pthread_mutex_init(&all->lock, NULL) ? FY_ERR_NOMEM : 0;
}

/* ---- the table; with its lock held ---------------------------------------------------- */

static struct fy_files_object *
find(struct fy_files_server *server, dev_t dev, ino_t ino)
{
    struct fy_files_object *at =
        server->objects.buckets[bucket(fy_files_ino(server, dev, ino))];
    while (at && (at->dev != dev || at->ino != ino)) {
        at = at->next;
    }
    return at;
}

/* By the client's number. */
static struct fy_files_object *
find_number(struct fy_files_server *server, uint64_t ino)
{
    struct fy_files_object *at = server->objects.buckets[bucket(ino)];
    while (at && fy_files_ino(server, at->dev, at->ino) != ino) {
        at = at->next;
    }
    return at;
}

static struct fy_files_kept **
find_kept(struct fy_files_objects *all, uint64_t number)
{
    struct fy_files_kept **link = &all->kept[bucket(number)];
    while (*link && (*link)->number != number) {
        link = &(*link)->next;
    }
    return link;
}

/* No request borrows the object, and no number needs its descriptors to read and write. */
static bool
is_free(const struct fy_files_object *object)
{
    return object->refs == 0 && object->kept == object->held;
}

static void
leave_idle(struct fy_files_objects *all, struct fy_files_object *object)
{
    *(object->older ? &object->older->newer : &all->oldest) = object->newer;
    *(object->newer ? &object->newer->older : &all->newest) = object->older;
    object->older = object->newer = NULL;
    object->idle = false;
    all->nidle--;
}

static void
take(struct fy_files_objects *all, struct fy_files_object *object)
{
    if (object->idle) {
        leave_idle(all, object);
    }
    object->refs++;
}

static void
close_at(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Leaves O_PATH alone: no program of this host finds the file open for writing. */
static void
strip(struct fy_files_object *object)
{
    close_at(object->reads);
    if (object->writes != object->reads) {
        close_at(object->writes);
    }
    object->reads = object->writes = -1;
}

/* It is in no list but its bucket's. */
static void
discard(struct fy_files_server *server, struct fy_files_object *object)
{
    struct fy_files_object **link =
        &server->objects
             .buckets[bucket(fy_files_ino(server, object->dev, object->ino))];
    while (*link != object) {
        link = &(*link)->next;
    }
    *link = object->next;
    close_at(object->path);
    strip(object);
    free(object);
}

static void
discard_idle(struct fy_files_server *server, struct fy_files_object *object)
{
    leave_idle(&server->objects, object);
    if (object->held > 0) {
        strip(object);
    } else {
        discard(server, object);
    }
}

/* It is free from now on. */
static void
rest(struct fy_files_server *server, struct fy_files_object *object)
{
    struct fy_files_objects *all = &server->objects;
    if (object->reads < 0 && object->writes < 0) {
        if (object->held == 0) {
            discard(server, object);
        }
        return;
    }
    object->idle = true;
    object->idle_ns = fy_clock_ns();
    object->older = all->newest;
    *(all->newest ? &all->newest->newer : &all->oldest) = object;
    all->newest = object;
    all->nidle++;
    if (all->nidle > all->idle_max) {
        discard_idle(server, all->oldest);
    }
}

/* Its object, new or not, borrowed; NULL: no memory. */
static struct fy_files_object *
object_of(struct fy_files_server *server, const struct stat *about)
{
    struct fy_files_objects *all = &server->objects;
    struct fy_files_object *object = find(server, about->st_dev, about->st_ino);
    if (object) {
        take(all, object);
        return object;
    }
    object = calloc(1, sizeof *object);
    if (!object) {
        return NULL;
    }
    object->dev = about->st_dev;
    object->ino = about->st_ino;
    object->type = about->st_mode & S_IFMT;
    object->path = object->reads = object->writes = -1;
    object->last = &object->first;
    object->refs = 1;
    unsigned at = bucket(fy_files_ino(server, about->st_dev, about->st_ino));
    object->next = all->buckets[at];
    all->buckets[at] = object;
    return object;
}

/* ---- opening ------------------------------------------------------------------------- */

int
fy_files_fd(const struct fy_files_object *object)
{
    return object->path >= 0    ? object->path
           : object->reads >= 0 ? object->reads
                                : object->writes;
}

static bool
serves(const struct fy_files_object *object, enum fy_files_access access)
{
    switch (access) {
    case FY_FILES_READS:
        return object->reads >= 0;
    case FY_FILES_WRITES:
        return object->writes >= 0;
    case FY_FILES_SYNCS:
        return object->reads >= 0 || object->writes >= 0;
    default:
        return fy_files_fd(object) >= 0;
    }
}

/* Nothing that is opened waits for a peer or becomes a terminal of this process. */
enum {
    PLAIN = O_NONBLOCK | O_NOCTTY | O_CLOEXEC
};

/* Opens the object for that access: by open(2) of `path', or of the client's
 * path if that is NULL. *out_flags: as it was opened. */
static int
open_for(struct fy_files_server *server, const struct fy_files_node *node,
         const char *path, enum fy_files_access access, int *out_flags)
{
    static const int tries[][3] = {
        [FY_FILES_PATH] = {O_PATH, -1},
        [FY_FILES_READS] = {O_RDONLY, -1},
        [FY_FILES_WRITES] = {O_RDWR, O_WRONLY, -1},
        [FY_FILES_SYNCS] = {O_RDONLY, O_WRONLY, -1},
    };
    int fd = -EACCES;
    for (const int *flags = tries[access]; *flags >= 0 && fd == -EACCES;
         flags++) {
        *out_flags = *flags;
        int all = *flags == O_PATH ? O_PATH : *flags | PLAIN;
        if (path) {
            fd = open(path, all | O_CLOEXEC);
            fd = fd < 0 ? -errno : fy_files_untouched(fd, all);
        } else {
            fd = fy_files_open(server, &node->path, all);
        }
    }
    return fd;
}

/* Takes the descriptor, if it has none of that kind. With the lock held. */
static void
equip(struct fy_files_object *object, int fd, int flags)
{
    bool used = false;
    if (flags == O_PATH) {
        used = object->path < 0;
        object->path = used ? fd : object->path;
        close_at(used ? -1 : fd);
        return;
    }
    int mode = flags & O_ACCMODE;
    if (mode != O_RDONLY && object->writes < 0) {
        object->writes = fd;
        used = true;
    }
    if (mode != O_WRONLY && object->reads < 0) {
        object->reads = fd;
        used = true;
    }
    close_at(used ? -1 : fd);
}

/* Checks the request against the type of the object. */
static int
check_type(mode_t type, enum fy_files_access access)
{
    if (access == FY_FILES_PATH || S_ISREG(type)) {
        return 0;
    }
    if (S_ISDIR(type)) {
        return access == FY_FILES_SYNCS ? 0 : -EISDIR;
    }
    return -EINVAL;
}

static int
borrow_held(struct fy_files_server *server, struct fy_files_object *object,
            enum fy_files_access access)
{
    char path[32];
    int flags, status = check_type(object->type, access);
    if (status || serves(object, access)) {
        return status;
    }
    fy_files_fd_path(fy_files_fd(object), path);
    int fd = open_for(server, NULL, path, access, &flags);
    if (fd < 0) {
        return fd;
    }
    (void)pthread_mutex_lock(&server->objects.lock);
    equip(object, fd, flags);
    (void)pthread_mutex_unlock(&server->objects.lock);
    return 0;
}

static int
borrow_named(struct fy_files_server *server, const struct fy_files_node *node,
             enum fy_files_access access, struct fy_files_object **out)
{
    struct stat about;
    int flags;
    int fd = open_for(server, node, NULL, access, &flags);
    if (fd == -ELOOP && access != FY_FILES_PATH) {
        return -EINVAL; /* a link */
    }
    if (fd < 0) {
        return fd;
    }
    int status =
        fstat(fd, &about) != 0 ? -errno : check_type(about.st_mode, access);
    if (!status && node->ino &&
        fy_files_ino(server, about.st_dev, about.st_ino) != node->ino) {
        status = -ESTALE;
    }
    if (status) {
        (void)close(fd);
        return status;
    }
    (void)pthread_mutex_lock(&server->objects.lock);
    struct fy_files_object *object = object_of(server, &about);
    if (object) {
        equip(object, fd, flags);
    }
    (void)pthread_mutex_unlock(&server->objects.lock);
    if (!object) {
        (void)close(fd);
        return -ENOMEM;
    }
    *out = object;
    return 0;
}

int
fy_files_borrow(struct fy_files_server *server,
                const struct fy_files_node *node, enum fy_files_access access,
                struct fy_files_object **out)
{
    struct fy_files_objects *all = &server->objects;
    struct fy_files_object *object = NULL;
    (void)pthread_mutex_lock(&all->lock);
    if (node->kept) {
        const struct fy_files_kept *kept = *find_kept(all, node->kept);
        object = kept ? kept->object : NULL;
    } else if (node->ino) {
        object = find_number(server, node->ino);
    }
    if (object) {
        take(all, object);
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (!object) {
        return node->kept ? -ESTALE : borrow_named(server, node, access, out);
    }
    int status = borrow_held(server, object, access);
    if (status) {
        fy_files_return(server, object);
        return status;
    }
    *out = object;
    return 0;
}

void
fy_files_return(struct fy_files_server *server, struct fy_files_object *object)
{
    if (!object) {
        return;
    }
    (void)pthread_mutex_lock(&server->objects.lock);
    object->refs--;
    if (is_free(object)) {
        rest(server, object);
    }
    (void)pthread_mutex_unlock(&server->objects.lock);
}

void
fy_files_adopt(struct fy_files_server *server, int fd, const struct stat *about)
{
    (void)pthread_mutex_lock(&server->objects.lock);
    struct fy_files_object *object = object_of(server, about);
    if (object) {
        equip(object, fd, O_RDWR);
        object->stays = !(about->st_mode & S_IWUSR);
        object->refs--;
        if (is_free(object)) {
            rest(server, object);
        }
    } else {
        (void)close(fd);
    }
    (void)pthread_mutex_unlock(&server->objects.lock);
}

static bool
is_gone(const struct fy_files_object *object)
{
    struct stat about;
    return fstat(fy_files_fd(object), &about) != 0 || about.st_nlink == 0;
}

/* ---- kept ----------------------------------------------------------------------------- */

/* An object of it, which must be that inode, with all descriptors that can be had;
 * borrowed. */
static int
open_all(struct fy_files_server *server, int folder, const char *name,
         const struct stat *inode, struct fy_files_object **out)
{
    struct stat about;
    int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        int error = errno;
        close_at(fd);
        return -error;
    }
    if (about.st_dev != inode->st_dev || about.st_ino != inode->st_ino) {
        (void)close(fd);
        return -ESTALE;
    }
    (void)pthread_mutex_lock(&server->objects.lock);
    struct fy_files_object *object = object_of(server, &about);
    if (object) {
        equip(object, fd, O_PATH);
    }
    (void)pthread_mutex_unlock(&server->objects.lock);
    if (!object) {
        (void)close(fd);
        return -ENOMEM;
    }
    if (S_ISREG(about.st_mode) &&
        borrow_held(server, object, FY_FILES_WRITES) != 0) {
        (void)borrow_held(server, object, FY_FILES_READS);
    }
    *out = object;
    return 0;
}

/* Holds the object, and gives it back. Half of the numbers are left for files that
 * lose their last name by the client. */
static int
keep(struct fy_files_server *server, uint64_t number,
     struct fy_files_object *object, bool held)
{
    struct fy_files_objects *all = &server->objects;
    unsigned most = held ? all->kept_max / 2 : all->kept_max;
    struct fy_files_kept *kept = malloc(sizeof *kept);
    (void)pthread_mutex_lock(&all->lock);
    struct fy_files_kept **link = find_kept(all, number);
    int status = *link                ? -EEXIST
                 : all->nkept >= most ? -EMFILE
                 : !kept              ? -ENOMEM
                                      : 0;
    if (!status) {
        *kept = (struct fy_files_kept){NULL, number, object, held};
        *link = kept;
        object->kept++;
        object->held += held;
        all->nkept++;
    }
    (void)pthread_mutex_unlock(&all->lock);
    fy_files_return(server, object);
    if (status) {
        free(kept);
    }
    return status;
}

int
fy_files_keep(struct fy_files_server *server, uint64_t number, int folder,
              const char *name, const struct stat *inode)
{
    struct fy_files_object *object = NULL;
    int status = open_all(server, folder, name, inode, &object);
    return status ? status : keep(server, number, object, false);
}

/* Borrows it, with a descriptor that only holds it. */
static int
borrow_path(struct fy_files_server *server, const struct fy_files_node *node,
            struct fy_files_object **out)
{
    char path[32];
    int status = fy_files_borrow(server, node, FY_FILES_PATH, out);
    if (status || (*out)->path >= 0) {
        return status;
    }
    fy_files_fd_path(fy_files_fd(*out), path);
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        status = -errno;
        fy_files_return(server, *out);
        return status;
    }
    (void)pthread_mutex_lock(&server->objects.lock);
    equip(*out, fd, O_PATH);
    (void)pthread_mutex_unlock(&server->objects.lock);
    return 0;
}

int
fy_files_hold(struct fy_files_request *request, struct fy_files_message *answer)
{
    struct fy_files_server *server = request->server;
    struct fy_files_bytes rows = request->message.data;
    uint64_t number = request->message.number;
    struct fy_files_node node;
    int status = 0;
    for (; rows.n && !status; number++) {
        struct fy_files_object *object;
        if (!fy_files_node_take(&rows, &node) || number > UINT64_MAX / 4) {
            return -EINVAL;
        }
        status = borrow_path(server, &node, &object);
        status = status ? status : keep(server, number, object, true);
        /* Asked again over another connection: it is held already. */
        status = status && status != -EEXIST
                     ? fy_files_number_put(number, &request->scratch)
                     : 0;
    }
    answer->data =
        (struct fy_files_bytes){request->scratch.bytes, request->scratch.n};
    return status ? -ENOMEM : 0;
}

void
fy_files_unkeep(struct fy_files_server *server, uint64_t number)
{
    struct fy_files_objects *all = &server->objects;
    (void)pthread_mutex_lock(&all->lock);
    struct fy_files_kept **link = find_kept(all, number);
    struct fy_files_kept *kept = *link;
    if (kept) {
        *link = kept->next;
        all->nkept--;
        struct fy_files_object *object = kept->object;
        object->kept--;
        object->held -= kept->held;
        if (is_free(object) && object->kept == 0 && is_gone(object)) {
            if (object->idle) {
                leave_idle(all, object);
            }
            discard(server, object);
        } else if (is_free(object) && !object->idle) {
            rest(server, object);
        }
        free(kept);
    }
    (void)pthread_mutex_unlock(&all->lock);
}

void
fy_files_drop(struct fy_files_server *server, const struct stat *about)
{
    (void)pthread_mutex_lock(&server->objects.lock);
    struct fy_files_object *object = find(server, about->st_dev, about->st_ino);
    if (object && object->idle) {
        discard_idle(server, object);
    }
    (void)pthread_mutex_unlock(&server->objects.lock);
}

bool
fy_files_objects_sweep(struct fy_files_server *server)
{
    struct fy_files_objects *all = &server->objects;
    uint64_t now = fy_clock_ns();
    (void)pthread_mutex_lock(&all->lock);
    struct fy_files_object *newer;
    for (struct fy_files_object *at = all->oldest; at; at = newer) {
        newer = at->newer;
        if (now - at->idle_ns > (at->writes < 0 ? IDLE_READS_NS
                                 : at->stays    ? IDLE_STAYS_NS
                                                : IDLE_WRITES_NS)) {
            discard_idle(server, at);
        }
    }
    bool some = all->oldest != NULL;
    (void)pthread_mutex_unlock(&all->lock);
    return some;
}

void
fy_files_objects_close(struct fy_files_server *server)
{
    struct fy_files_objects *all = &server->objects;
    for (unsigned i = 0; i < FY_FILES_BUCKETS; i++) {
        while (all->kept[i]) {
            fy_files_unkeep(server, all->kept[i]->number);
        }
    }
    while (all->oldest) {
        discard_idle(server, all->oldest);
    }
    (void)pthread_mutex_destroy(&all->lock);
}
