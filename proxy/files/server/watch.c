/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched folders: changes in them are told by CHANGED, with the attributes as they
 * are when it is told. A thread of its own reads the events, looks and tells; the
 * client's own changes are told like any. Where inotify cannot see all changes (a file
 * system of several hosts), nothing is watched and the client goes by time.
 *
 * Some changes have no event: of a file that is mapped and written. The same thread looks
 * at the files of watched folders again and again, for a few hundredths of its time, and
 * tells of each that is not as it was at the last look.
 * Long because events and looks share the folders and their lock.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/kernel.h"

enum {
    EVENT_BYTES = 64 << 10,
    ROWS_MAX = 4096, /* changes of one round, each name once */
    PAUSE_MS = 2,    /* between rounds while there is more */
    LOOK_MS = 100,   /* between looks at files without events */
    LOOK_BYTES = 32 << 10,
    LOOK_REST = 39, /* a look of one second is followed by so many of rest */
    MASK = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY |
           IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR |
           IN_EXCL_UNLINK,
};

#define LOOK_NS \
    UINT64_C(2500000) /* without rest, unless one folder takes longer */

/* A regular file at a look: hashes of its name, and of its inode, size and mtime. */
struct seen {
    uint32_t name, about;
};

struct fy_files_folder {
    struct fy_files_folder *next;                      /* of the same bucket */
    struct fy_files_folder *round_next, *round_before; /* all, in a ring */
    int watch;
    uint64_t ino;      /* the client's number */
    struct seen *seen; /* at the last look, by name; NULL: there was none */
    size_t nseen;
    time_t since; /* the second of that look, or when it was watched */
    size_t path_bytes;
    char *path; /* as it was when it was last looked up */
};

/* A name that changed; n 0: the folder itself. */
struct row {
    int watch;
    uint16_t n;
    bool others; /* another than the client wrote it */
    bool gone;   /* when it was told */
    bool again;  /* kept from the round before: the name was gone */
    uint32_t hash;
    uint64_t own; /* the client wrote a file of this ino; 0: none */
    char name[FY_FILES_NAME_BYTES + 1];
};

struct round {
    struct row *rows;   /* ROWS_MAX of them */
    unsigned n, nagain; /* nagain: of them, kept from the round before */
    unsigned *index;    /* of rows by hash, plus 1 */
    bool all;           /* changes are not known: the queue was full */
    uint32_t moved[16]; /* cookies of files that others wrote, lately */
    unsigned nmoved;
    char *events, *entries; /* as they are read */
    struct seen *seen;      /* of the folder that is looked at: nseen of them */
    size_t nseen, seen_capacity;
};

enum {
    INDEX = 2 * ROWS_MAX
};

/* ---- folders; with the lock held --------------------------------------------------------- */

static struct fy_files_folder **
find(struct fy_files_watches *all, int watch)
{
    struct fy_files_folder **link =
        &all->buckets[(unsigned)watch % FY_FILES_FOLDER_BUCKETS];
    while (*link && (*link)->watch != watch) {
        link = &(*link)->next;
    }
    return link;
}

static void
discard(struct fy_files_watches *all, struct fy_files_folder **link)
{
    struct fy_files_folder *folder = *link;
    *link = folder->next;
    folder->round_next->round_before = folder->round_before;
    folder->round_before->round_next = folder->round_next;
    if (all->look == folder) {
        all->look = folder->round_next == folder ? NULL : folder->round_next;
    }
    free(folder->path);
    free(folder->seen);
    free(folder);
}

static void
discard_all(struct fy_files_watches *all)
{
    for (unsigned i = 0; i < FY_FILES_FOLDER_BUCKETS; i++) {
        while (all->buckets[i]) {
            discard(all, &all->buckets[i]);
        }
    }
}

static bool
set_path(struct fy_files_folder *folder, const struct fy_files_bytes *path)
{
    if (folder->path && folder->path_bytes == path->n &&
        (path->n == 0 || memcmp(folder->path, path->at, path->n) == 0)) {
        return true;
    }
    char *copy = malloc(path->n + 1);
    if (!copy) {
        return false;
    }
    if (path->n) {
        memcpy(copy, path->at, path->n);
    }
    free(folder->path);
    folder->path = copy;
    folder->path_bytes = path->n;
    return true;
}

static struct fy_files_folder *
add(struct fy_files_watches *all, int watch)
{
    struct fy_files_folder **link = find(all, watch);
    if (*link) {
        return *link;
    }
    struct fy_files_folder *folder = calloc(1, sizeof *folder);
    if (!folder) {
        return NULL;
    }
    folder->watch = watch;
    folder->since = time(NULL);
    *link = folder;
    if (all->look) {
        folder->round_next = all->look;
        folder->round_before = all->look->round_before;
        folder->round_before->round_next = folder;
        all->look->round_before = folder;
    } else {
        folder->round_next = folder->round_before = folder;
        all->look = folder;
    }
    return folder;
}

static void
ring(const struct fy_files_watches *all)
{
    const uint64_t one = 1;
    (void)!write(all->bell, &one, sizeof one);
}

/* ---- for the handlers ---------------------------------------------------------------------- */

uint64_t
fy_files_watch(struct fy_files_server *server, int fd,
               const struct fy_files_bytes *path, const struct stat *about)
{
    struct fy_files_watches *all = &server->watches;
    char name[32];
    uint64_t number = 0;
    if (!all->runs || !server->local || about->st_dev != server->root_dev) {
        return 0;
    }
    fy_files_fd_path(fd, name);
    (void)pthread_mutex_lock(&all->lock);
    int watch = inotify_add_watch(all->inotify, name, MASK);
    struct fy_files_folder *folder = watch > 0 ? add(all, watch) : NULL;
    if (folder && set_path(folder, path)) {
        folder->ino = fy_files_ino(server, about->st_dev, about->st_ino);
        if (folder->round_next == folder) {
            ring(all); /* there is something to look at now */
        }
        number = (uint64_t)(unsigned)watch | all->generation << 32;
    } else if (watch > 0) {
        (void)inotify_rm_watch(all->inotify, watch);
    }
    (void)pthread_mutex_unlock(&all->lock);
    return number;
}

void
fy_files_unwatch(struct fy_files_server *server, uint64_t number)
{
    struct fy_files_watches *all = &server->watches;
    (void)pthread_mutex_lock(&all->lock);
    int watch = (int)(number & INT32_MAX);
    if (number >> 32 == all->generation && *find(all, watch)) {
        (void)inotify_rm_watch(all->inotify, watch);
        discard(all, find(all, watch));
    }
    (void)pthread_mutex_unlock(&all->lock);
}

void
fy_files_unwatch_all(struct fy_files_server *server)
{
    server->watches.lose = true;
    ring(&server->watches);
}

/* The folder's path, if it is beneath `from' or that. */
static void
move_path(struct fy_files_folder *folder, const struct fy_files_bytes *from,
          const struct fy_files_bytes *to)
{
    size_t n = folder->path_bytes;
    if (n >= from->n && memcmp(folder->path, from->at, from->n) == 0 &&
        (n == from->n || folder->path[from->n] == '/')) {
        char *moved = malloc(to->n + n - from->n + 1);
        if (moved) {
            memcpy(moved, to->at, to->n);
            memcpy(moved + to->n, folder->path + from->n, n - from->n);
            free(folder->path);
            folder->path = moved;
            folder->path_bytes = to->n + n - from->n;
        }
    }
}

void
fy_files_watch_move(struct fy_files_server *server)
{
    (void)pthread_mutex_lock(&server->watches.lock);
}

void
fy_files_watch_moved(struct fy_files_server *server,
                     const struct fy_files_bytes *from,
                     const struct fy_files_bytes *to)
{
    struct fy_files_watches *all = &server->watches;
    struct fy_files_folder *folder = from ? all->look : NULL;
    while (folder) {
        move_path(folder, from, to);
        folder = folder->round_next == all->look ? NULL : folder->round_next;
    }
    all->moves++;
    (void)pthread_mutex_unlock(&all->lock);
}

void
fy_files_tell_all(struct fy_files_server *server)
{
    struct fy_files_watches *all = &server->watches;
    (void)pthread_mutex_lock(&all->lock);
    uint64_t wanted = ++all->wanted;
    ring(all);
    while (all->runs && all->told < wanted) {
        (void)pthread_cond_wait(&all->said, &all->lock);
    }
    (void)pthread_mutex_unlock(&all->lock);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void
lose(struct fy_files_server *server, struct fy_files_out *out, int watch)
{
    struct fy_files_watches *all = &server->watches;
    const struct fy_files_message lost = {.type = FY_FILES_LOST,
                                          .number = (uint64_t)(unsigned)watch |
                                                    all->generation << 32};
    (void)pthread_mutex_lock(&all->lock);
    struct fy_files_folder **link = find(all, watch);
    bool known = *link != NULL;
    if (known) {
        (void)inotify_rm_watch(all->inotify, watch);
        discard(all, link);
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (known && fy_files_encode(&lost, out)) {
        fy_files_sending_break(
            server); /* no memory: it would be stale for ever */
    }
}

/* The folder's path, new; *out_ino: its number. NULL: it is not watched, or no memory. */
static char *
watched_path(struct fy_files_watches *all, int watch,
             struct fy_files_bytes *out, uint64_t *out_ino, unsigned *out_moves)
{
    char *copy = NULL;
    (void)pthread_mutex_lock(&all->lock);
    const struct fy_files_folder *folder = *find(all, watch);
    *out_moves = all->moves;
    if (folder && (copy = malloc(folder->path_bytes + 1))) {
        *out = (struct fy_files_bytes){copy, folder->path_bytes};
        memcpy(copy, folder->path, folder->path_bytes);
        *out_ino = folder->ino;
    }
    (void)pthread_mutex_unlock(&all->lock);
    return copy;
}

static bool
has_moved(struct fy_files_watches *all, unsigned moves)
{
    (void)pthread_mutex_lock(&all->lock);
    bool moved = all->moves != moves;
    (void)pthread_mutex_unlock(&all->lock);
    return moved;
}

/* The folder, opened and checked; -1: it is gone from there, or is not watched. */
static int
open_watched(struct fy_files_server *server, int watch, int flags,
             bool *out_known)
{
    struct fy_files_bytes path;
    uint64_t ino;
    unsigned moves;
    struct stat about;
    int fd;
    do {
        char *copy = watched_path(&server->watches, watch, &path, &ino, &moves);
        *out_known = copy != NULL;
        fd = copy ? fy_files_open(server, &path, flags | O_DIRECTORY) : -1;
        free(copy);
        if (fd >= 0 &&
            (fstat(fd, &about) != 0 ||
             fy_files_ino(server, about.st_dev, about.st_ino) != ino)) {
            (void)close(fd);
            fd = -1;
        }
    } while (fd < 0 && *out_known && has_moved(&server->watches, moves));
    return fd;
}

/* Tells the present file of the name; *out_seen is false if that cannot be seen, as in a
 * folder that this user may no longer search. FY_ERR_*. */
static int
tell(struct fy_files_server *server, struct row *row, int folder,
     struct fy_files_out *out, bool *out_seen)
{
    struct stat about;
    struct fy_files_message changed = {.type = FY_FILES_CHANGED,
                                       .number =
                                           (uint64_t)(unsigned)row->watch |
                                           server->watches.generation << 32,
                                       .offset = server->sending.changes,
                                       .name = {row->name, row->n}};
    bool found =
        row->n ? fstatat(folder, row->name, &about, AT_SYMLINK_NOFOLLOW) == 0
               : fstat(folder, &about) == 0;
    if (found) {
        changed.flags = FY_FILES_PRESENT;
        fy_files_attr_of(server, &about, &changed.attr);
        if (row->others || (row->own && row->own != changed.attr.ino)) {
            changed.flags |= FY_FILES_OTHERS;
        }
    }
    row->gone = !found;
    *out_seen = found || errno == ENOENT;
    if (!*out_seen) {
        return 0;
    }
    return fy_files_encode(&changed, out);
}

static int
by_watch(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    return (one->watch > other->watch) - (one->watch < other->watch);
}

static struct row *add_row(struct fy_files_server *server, struct round *round,
                           int watch, const char *name);

/* Empties the round. A file that others wrote may have been renamed since: the event of that
 * is in the queue. */
static void
end_round(struct fy_files_server *server, struct round *round)
{
    unsigned n = round->n;
    memset(round->index, 0, INDEX * sizeof round->index[0]);
    round->n = round->nagain = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct row row = round->rows[i];
        if (row.others && row.gone && !row.again) {
            struct row *kept = add_row(server, round, row.watch, row.name);
            kept->others = kept->again = true;
            round->nagain++;
        }
    }
}

/* All of them; each folder is opened once. */
static void
tell_round(struct fy_files_server *server, struct round *round)
{
    struct fy_files_out out = {.n = 0};
    int folder = -1, watch = -1;
    bool known = false;
    qsort(round->rows, round->n, sizeof round->rows[0], by_watch);
    for (unsigned i = 0; i < round->n; i++) {
        struct row *row = &round->rows[i];
        if (row->watch != watch) {
            if (folder >= 0) {
                (void)close(folder);
            }
            watch = row->watch;
            folder = open_watched(server, watch, O_PATH, &known);
            if (folder < 0 && known) {
                lose(server, &out, watch);
            }
        }
        bool seen = true;
        if (folder >= 0 && tell(server, row, folder, &out, &seen)) {
            fy_files_sending_break(server);
        }
        if (!seen) {
            (void)close(folder);
            folder = -1;
            lose(server, &out, watch);
        }
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    if (out.n) {
        fy_files_say(server, &out, 0);
    }
    fy_files_out_free(&out);
    end_round(server, round);
}

/* Nothing is watched any more, and nothing is known. */
static void
lose_all(struct fy_files_server *server, struct round *round)
{
    struct fy_files_watches *all = &server->watches;
    struct fy_files_message lost = {.type = FY_FILES_LOST};
    (void)pthread_mutex_lock(&all->own.lock);
    (void)pthread_mutex_lock(&all->lock);
    discard_all(all);
    (void)close(all->inotify);
    all->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    fy_files_own_watch(&all->own, all->inotify);
    lost.number = ++all->generation << 32;
    (void)pthread_mutex_unlock(&all->lock);
    (void)pthread_mutex_unlock(&all->own.lock);
    memset(round->index, 0, INDEX * sizeof round->index[0]);
    round->n = round->nagain = 0;
    round->all = false;
    (void)fy_files_say_message(server, &lost, 0, false);
}

/* ---- events ------------------------------------------------------------------------------------ */

static uint32_t
name_hash(int watch, const char *name, size_t n)
{
    uint32_t hash = 2166136261U ^ (uint32_t)watch;
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619U;
    }
    return hash;
}

/* Adds the name once. Full: the names in it are told first. NULL: no name. */
static struct row *
add_row(struct fy_files_server *server, struct round *round, int watch,
        const char *name)
{
    size_t n = strlen(name);
    uint32_t hash = name_hash(watch, name, n);
    if (n > FY_FILES_NAME_BYTES) {
        return NULL;
    }
    if (round->n == ROWS_MAX) {
        tell_round(server, round);
    }
    unsigned at = hash % INDEX;
    while (round->index[at]) {
        struct row *row = &round->rows[round->index[at] - 1];
        if (row->hash == hash && row->watch == watch && row->n == n &&
            memcmp(row->name, name, n) == 0) {
            return row;
        }
        at = (at + 1) % INDEX;
    }
    struct row *row = &round->rows[round->n++];
    round->index[at] = round->n;
    row->watch = watch;
    row->hash = hash;
    row->n = (uint16_t)n;
    row->others = row->gone = row->again = false;
    row->own = 0;
    memcpy(row->name, name, n + 1);
    return row;
}

/* The file's new name has that others wrote it. */
static void
move_others(struct round *round, struct row *row,
            const struct inotify_event *event)
{
    const unsigned most = sizeof round->moved / sizeof round->moved[0];
    if (event->mask & IN_MOVED_FROM && row->others) {
        round->moved[round->nmoved++ % most] = event->cookie;
        row->others = false;
    }
    for (unsigned i = 0; event->mask & IN_MOVED_TO && i < most; i++) {
        row->others |= round->moved[i] == event->cookie;
    }
}

static void
take_event(struct fy_files_server *server, struct round *round,
           const struct inotify_event *event, struct fy_files_out *out)
{
    struct fy_files_watches *all = &server->watches;
    if (event->mask & IN_Q_OVERFLOW) {
        round->all = true;
        return;
    }
    if (fy_files_own_read(&all->own, event->wd)) {
        return;
    }
    (void)pthread_mutex_lock(&all->lock);
    bool known = *find(all, event->wd) != NULL;
    (void)pthread_mutex_unlock(&all->lock);
    if (!known) {
        return;
    }
    if (event->mask & (IN_IGNORED | IN_DELETE_SELF | IN_UNMOUNT)) {
        lose(server, out, event->wd);
    } else if (!(event->mask & IN_MOVE_SELF)) {
        struct row *row =
            add_row(server, round, event->wd, event->len ? event->name : "");
        if (row && event->mask & IN_MODIFY) {
            uint64_t own = all->own.now;
            row->others |= own == 0 || (row->own && row->own != own);
            row->own = own;
        }
        if (row) {
            move_others(round, row, event);
        }
        if (event->mask & (IN_CREATE | IN_DELETE | IN_MOVE)) {
            (void)add_row(server, round, event->wd, "");
        }
    }
}

/* Reads the queue. Whether there was something. */
static bool
read_events(struct fy_files_server *server, struct round *round,
            struct fy_files_out *out)
{
    bool some = false;
    for (unsigned i = 0; i < 64; i++) {
        ssize_t n = read(server->watches.inotify, round->events, EVENT_BYTES);
        if (n <= 0) {
            break;
        }
        some = true;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event =
                (const struct inotify_event *)(const void *)(round->events +
                                                             at);
            take_event(server, round, event, out);
            at += (ssize_t)(sizeof *event + event->len);
        }
    }
    return some;
}

/* Tells the changes in the queue. Whether there was something. */
static bool
drain(struct fy_files_server *server, struct round *round)
{
    struct fy_files_out out = {.n = 0};
    bool some = false;
    unsigned times = 0;
    do { /* again for files that have lost their names */
        some |= read_events(server, round, &out);
        if (round->all || server->watches.lose) {
            server->watches.lose = false;
            lose_all(server, round);
        } else if (some) {
            tell_round(server, round);
        }
    } while (round->nagain > 0 && ++times < 4);
    if (out.n) {
        fy_files_say(server, &out, 0);
    }
    fy_files_out_free(&out);
    return some;
}

/* ---- changes without events ------------------------------------------------------------------------ */

static uint64_t
mix(uint64_t a, uint64_t b)
{
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15) ^ (a >> 29);
}

/* Tells the changes that came, and those who wait for them. Whether something had. */
static bool
serve_events(struct fy_files_server *server, struct round *round)
{
    struct fy_files_watches *all = &server->watches;
    (void)pthread_mutex_lock(&all->lock);
    uint64_t wanted = all->wanted;
    (void)pthread_mutex_unlock(&all->lock);
    bool some = drain(server, round);
    (void)pthread_mutex_lock(&all->lock);
    all->told = wanted;
    (void)pthread_cond_broadcast(&all->said);
    (void)pthread_mutex_unlock(&all->lock);
    return some;
}

static int
by_name(const void *a, const void *b)
{
    const struct seen *one = a, *other = b;
    return (one->name > other->name) - (one->name < other->name);
}

/* False: no memory. */
static bool
add_seen(struct round *round, uint32_t name, uint32_t about)
{
    if (round->nseen == round->seen_capacity) {
        size_t capacity = 2 * round->seen_capacity + 256;
        struct seen *larger = realloc(round->seen, capacity * sizeof *larger);
        if (!larger) {
            return false;
        }
        round->seen = larger;
        round->seen_capacity = capacity;
    }
    round->seen[round->nseen++] = (struct seen){name, about};
    return true;
}

/* A regular file, which is told if it is not as it was. False: no memory. */
static bool
look_at_file(struct fy_files_server *server, struct round *round,
             const struct fy_files_folder *was, const char *name,
             const struct stat *about)
{
    uint64_t sum =
        mix((uint64_t)about->st_mtim.tv_sec, (uint64_t)about->st_mtim.tv_nsec);
    sum = mix(mix(sum, (uint64_t)about->st_size), about->st_ino);
    const struct seen now = {name_hash(was->watch, name, strlen(name)),
                             (uint32_t)(sum >> 32)};
    const struct seen *before =
        was->seen ? bsearch(&now, was->seen, was->nseen, sizeof now, by_name)
                  : NULL;
    /* One that is new was told by its event, but may have changed since. */
    if (before ? before->about != now.about
               : about->st_mtim.tv_sec + 1 >= was->since) {
        (void)add_row(server, round, was->watch, name);
    }
    return add_seen(round, now.name, now.about);
}

/* All regular files of an open folder. Events are served meanwhile. False: no memory. */
static bool
look_through(struct fy_files_server *server, struct round *round,
             const struct fy_files_folder *was, int fd)
{
    bool good = true;
    struct fy_entries entries = {fd, round->entries, LOOK_BYTES, 0, 0};
    const struct dirent64 *entry;
    round->nseen = 0;
    while (good && (entry = fy_entries_next(&entries))) {
        struct stat about;
        if ((entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) &&
            fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(about.st_mode)) {
            good = look_at_file(server, round, was, entry->d_name, &about);
        }
        if (entries.at >= entries.n) { /* the block is read */
            (void)serve_events(server, round);
        }
    }
    if (round->n) {
        tell_round(server, round);
    }
    return good;
}

/* Allocates the state of the last look, of a size that fits; NULL: no memory. */
static struct seen *
copy_seen(struct round *round)
{
    size_t bytes = round->nseen * sizeof *round->seen;
    struct seen *copy = malloc(bytes + 1);
    if (copy && bytes) {
        qsort(round->seen, round->nseen, sizeof *round->seen, by_name);
        memcpy(copy, round->seen, bytes);
    }
    return copy;
}

/* The next folder. False: there is none. */
static bool
look_at_next(struct fy_files_server *server, struct round *round)
{
    struct fy_files_watches *all = &server->watches;
    struct fy_files_folder was = {.watch = -1}; /* for its time it has `seen' */
    bool known;
    (void)pthread_mutex_lock(&all->lock);
    struct fy_files_folder *folder = all->look;
    if (folder) {
        was = *folder;
        folder->seen = NULL;
        all->look = folder->round_next;
    }
    (void)pthread_mutex_unlock(&all->lock);
    if (was.watch < 0) {
        return false;
    }
    time_t now = time(NULL);
    int fd = open_watched(server, was.watch, O_RDONLY, &known);
    bool good = fd >= 0 && look_through(server, round, &was, fd);
    if (fd >= 0) {
        (void)close(fd);
    }
    free(was.seen);
    struct seen *seen = good ? copy_seen(round) : NULL;
    (void)pthread_mutex_lock(&all->lock);
    folder = *find(all, was.watch);
    if (folder && !folder->seen) {
        folder->seen = seen;
        folder->nseen = round->nseen;
        folder->since = now;
        seen = NULL;
    }
    (void)pthread_mutex_unlock(&all->lock);
    free(seen);
    return true;
}

/* ---- the thread -------------------------------------------------------------------------------------- */

static bool
has_folders(struct fy_files_watches *all)
{
    (void)pthread_mutex_lock(&all->lock);
    bool some = all->look != NULL;
    (void)pthread_mutex_unlock(&all->lock);
    return some;
}

/* Of this thread. */
static uint64_t
processor_ns(void)
{
    struct timespec time = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void *
run(void *argument)
{
    struct fy_files_server *server = argument;
    struct fy_files_watches *all = &server->watches;
    struct round round = {.rows = malloc(ROWS_MAX * sizeof(struct row)),
                          .index = calloc(INDEX, sizeof(unsigned)),
                          .events = malloc(EVENT_BYTES),
                          .entries = malloc(LOOK_BYTES)};
    bool good = round.rows && round.index && round.events && round.entries;
    uint64_t rested = 0; /* when the next look may begin */
    while (good && !all->ended) {
        struct pollfd rows[] = {{.fd = all->inotify, .events = POLLIN},
                                {.fd = all->bell, .events = POLLIN}};
        uint64_t count;
        int ready = poll(rows, 2, has_folders(all) ? LOOK_MS : -1);
        if (rows[1].revents) {
            (void)!read(all->bell, &count, sizeof count);
        }
        bool some = serve_events(server, &round);
        if (ready == 0 && fy_clock_ns() >= rested) {
            uint64_t begin = processor_ns();
            while (look_at_next(server, &round) &&
                   processor_ns() < begin + LOOK_NS) {
            }
            rested = fy_clock_ns() + LOOK_REST * (processor_ns() - begin);
        } else if (some) {
            /* More of the same may come: it is told together. */
            rows[1].revents = 0;
            (void)poll(rows + 1, 1, PAUSE_MS);
        }
    }
    free(round.rows);
    free(round.index);
    free(round.events);
    free(round.entries);
    free(round.seen);
    (void)pthread_mutex_lock(&all->lock);
    all->runs = false;
    (void)pthread_cond_broadcast(&all->said);
    (void)pthread_mutex_unlock(&all->lock);
    return NULL;
}

int
fy_files_watches_open(struct fy_files_server *server)
{
    struct fy_files_watches *all = &server->watches;
    all->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    all->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fy_files_own_open(&all->own);
    fy_files_own_watch(&all->own, all->inotify);
    if (pthread_mutex_init(&all->lock, NULL) ||
        pthread_cond_init(&all->said, NULL) || all->bell < 0) {
        return FY_ERR_NOMEM;
    }
    /* Without it nothing is watched. */
    all->runs = all->inotify >= 0;
    if (all->runs && pthread_create(&all->thread, NULL, run, server) != 0) {
        all->runs = false;
    }
    all->joins = all->runs;
    return 0;
}

void
fy_files_watches_close(struct fy_files_server *server)
{
    struct fy_files_watches *all = &server->watches;
    all->ended = true;
    ring(all);
    if (all->joins) {
        (void)pthread_join(all->thread, NULL);
    }
    discard_all(all);
    if (all->inotify >= 0) {
        (void)close(all->inotify);
    }
    (void)close(all->bell);
    fy_files_own_close(&all->own);
    (void)pthread_cond_destroy(&all->said);
    (void)pthread_mutex_destroy(&all->lock);
}
