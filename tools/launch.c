/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files and the environment of one run, see the header.
 */
#include "config.h"

#include "tools/launch.h"

#include "common/path.h"
#include "common/plain.h"
#include "common/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A name other than the ferry-run- of before these folders were locked. */
#define SCRATCH "ferry-held-"

#define LUSTRE_MAGIC 0x0bd00bd0UL

enum {
    LOOKED_AT_MAX = 4096, /* names in the folder of temporary files */
};

void
fy_launch_trouble(struct fy_launch_state *state, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(state->trouble, sizeof state->trouble, format, arguments);
    va_end(arguments);
    fy_plain(state->trouble, "");
}

/* Returns true if a folder is kept by another host or by a process: no
 * socket may lie there (sshfs), and a mapped file would cost a round trip a
 * page. */
static bool
is_remote(const char *folder)
{
    static const unsigned long types[] = {
        FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC,  SMB_SUPER_MAGIC, SMB2_SUPER_MAGIC,
        CIFS_SUPER_MAGIC, CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, AFS_FS_MAGIC,
        CODA_SUPER_MAGIC, V9FS_MAGIC,       LUSTRE_MAGIC};
    struct statfs about;
    size_t i = 0;
    if (statfs(folder, &about) != 0) {
        return false; /* users of the folder report the error */
    }
    while (i < sizeof types / sizeof *types &&
           (unsigned long)about.f_type != types[i]) {
        i++;
    }
    return i < sizeof types / sizeof *types;
}

/* TMPDIR, or /tmp where it is remote or another user could exchange files in
 * it. */
static int
find_temporary(char out[PATH_MAX])
{
    const char *folder = getenv("TMPDIR");
    if (!folder || folder[0] != '/' || is_remote(folder)) {
        return fy_trusted_folder("/tmp", false, out);
    }
    int status = fy_trusted_folder(folder, false, out);
    return status == FY_ERR_INVALID ? fy_trusted_folder("/tmp", false, out)
                                    : status;
}

/* A file of `bytes' zeroes whose blocks exist, mapped shared; or NULL. */
static void *
map_new_file(const char *path, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return NULL;
    }
    int status = posix_fallocate(fd, 0, (off_t)bytes);
    void *map = MAP_FAILED;
    if (status == 0) {
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    } else {
        errno = status;
    }
    int cause = errno;
    close(fd);
    errno = cause;
    return map == MAP_FAILED ? NULL : map;
}

/* Removes the files of an open folder, not those of folders in it. */
static void
empty_folder(int fd)
{
    DIR *folder = fy_folder_open(fd, ".");
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        (void)unlinkat(fd, entry->d_name, 0);
    }
    if (folder) {
        (void)closedir(folder);
    }
}

/*
 * Folders of runs of ours that were killed: nobody locks them any more. Programs
 * of such a run that go on do without. A folder is held open while it is looked
 * at and emptied, and the folder that is removed by name in the end is empty.
 */
static void
remove_abandoned(const char *place)
{
    struct stat about;
    DIR *folder = opendir(place);
    const struct dirent *entry;
    for (int i = 0; folder && i < LOOKED_AT_MAX && (entry = readdir(folder));
         i++) {
        if (strncmp(entry->d_name, SCRATCH, sizeof SCRATCH - 1) != 0) {
            continue;
        }
        int fd = openat(dirfd(folder), entry->d_name,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &about) == 0 && about.st_uid == geteuid() &&
            (about.st_mode & 0077) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
            empty_folder(fd);
            (void)unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
        }
        if (fd >= 0) {
            (void)close(fd);
        }
    }
    if (folder) {
        (void)closedir(folder);
    }
}

/* Locked while this process lives, where it can be locked. 0, or FY_ERR_BUSY:
 * another run has taken it for abandoned before that, and removes it. */
static int
lock_scratch(struct fy_launch_state *state)
{
    struct stat held, named;
    int fd = open(state->scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = fd < 0 && errno == ENOENT ? FY_ERR_BUSY : 0;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        status = FY_ERR_BUSY;
    } else if (fd >= 0 && lstat(state->scratch, &named) != 0) {
        status = errno == ENOENT ? FY_ERR_BUSY : 0;
    } else if (fd >= 0 && fstat(fd, &held) == 0 &&
               (held.st_ino != named.st_ino || held.st_dev != named.st_dev)) {
        status = FY_ERR_BUSY;
    }
    if (status && fd >= 0) {
        (void)close(fd);
    }
    state->scratch_fd = fd; /* -1: a later run may remove it too early */
    return status;
}

int
fy_launch_scratch(struct fy_launch_state *state)
{
    if (state->scratch[0]) {
        return 0;
    }
    char folder[PATH_MAX];
    int status = find_temporary(folder);
    if (status) {
        const char *named = getenv("TMPDIR");
        fy_launch_trouble(state, "cannot make a folder in %s: %s",
                          folder[0] ? folder
                          : named   ? named
                                    : "/tmp",
                          status == FY_ERR_INVALID
                              ? "another user can exchange it"
                              : strerror(errno));
        return FY_ERR_IO;
    }
    remove_abandoned(folder);
    do {
        int n = snprintf(state->scratch, sizeof state->scratch,
                         "%s/" SCRATCH "XXXXXX", folder);
        if (n < 0 || n > FY_SETTINGS_PATH_BYTES - 16 ||
            !mkdtemp(state->scratch)) {
            fy_launch_trouble(state, "cannot make a folder in %s: %s", folder,
                              strerror(errno));
            state->scratch[0] = '\0';
            return FY_ERR_IO;
        }
    } while (lock_scratch(state));
    return 0;
}

int
fy_launch_record(struct fy_launch_state *state, struct fy_settings *settings)
{
    int status = fy_launch_scratch(state);
    if (status) {
        return status;
    }
    uint32_t rows = state->model->functions.count;
    state->record_bytes =
        sizeof *state->record + rows * sizeof state->record->rows[0];
    size_t n = strlen(state->scratch);
    memcpy(settings->record, state->scratch, n);
    memcpy(settings->record + n, "/record", sizeof "/record");
    state->record = map_new_file(settings->record, state->record_bytes);
    if (!state->record) {
        fy_launch_trouble(state, "cannot make the file of counters %s: %s",
                          settings->record, strerror(errno));
        settings->record[0] = '\0';
        return FY_ERR_IO;
    }
    memcpy(state->record->magic, FY_RECORD_MAGIC, sizeof state->record->magic);
    state->record->version = FY_RECORD_VERSION;
    state->record->nrows = rows;
    return 0;
}

void
fy_launch_end(struct fy_launch_state *state)
{
    static const char *const files[] = {"record",         "explain", "findings",
                                        "findings.tally", "checked", "snapshot",
                                        "session",        "debug"};
    if (state->record) {
        munmap(state->record, state->record_bytes);
    }
    for (size_t i = 0; state->scratch[0] && i < sizeof files / sizeof *files;
         i++) {
        char path[PATH_MAX + 32];
        (void)snprintf(path, sizeof path, "%s/%s", state->scratch, files[i]);
        unlink(path);
    }
    if (state->scratch[0]) {
        rmdir(state->scratch);
        if (state->scratch_fd >= 0) {
            close(state->scratch_fd);
        }
    }
    free(state->model);
    fy_pipeline_free(&state->pipeline);
    memset(state, 0, sizeof *state);
}

bool
fy_launch_gains_rights(const char *name)
{
    char path[PATH_MAX];
    struct stat about;
    return fy_path_search(name, path) && stat(path, &about) == 0 &&
           S_ISREG(about.st_mode) &&
           ((about.st_mode & (S_ISUID | S_ISGID)) ||
            getxattr(path, "security.capability", NULL, 0) > 0);
}

/* Returns true if an entry of LD_PRELOAD is one that an outer ferry run
 * made. */
static bool
is_ours(const char *entry, size_t bytes)
{
    size_t start = bytes;
    while (start && entry[start - 1] != '/') {
        start--;
    }
    size_t prefix = strlen(FY_PRELOAD_PREFIX), n = bytes - start;
    return (n > prefix &&
            memcmp(entry + start, FY_PRELOAD_PREFIX, prefix) == 0) ||
           (n == strlen(FY_PRELOAD_PLAIN) &&
            memcmp(entry + start, FY_PRELOAD_PLAIN, n) == 0);
}

struct variable {
    const char *name, *value; /* no value: it is taken out */
    char *entry;              /* "NAME=VALUE" */
};

static struct variable *
find_variable(struct variable *variables, size_t count, const char *entry)
{
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(variables[i].name);
        if (strncmp(entry, variables[i].name, n) == 0 && entry[n] == '=') {
            return &variables[i];
        }
    }
    return NULL;
}

/*
 * As setenv(3) and unsetenv(3) would. Those free the array that a thread of the
 * session, in getenv(3) of a library, may be reading; here all of a new array is
 * there before its address is stored, and none is freed.
 */
static int
change_environment(struct variable *variables, size_t count)
{
    size_t n = 0, used = 0, bytes = 0;
    while (environ[n]) {
        n++;
    }
    for (size_t i = 0; i < count; i++) {
        const char *value = variables[i].value;
        bytes += value ? strlen(variables[i].name) + strlen(value) + 2 : 0;
    }
    char **entries = malloc((n + count + 1) * sizeof *entries + bytes);
    if (!entries) {
        return FY_ERR_NOMEM;
    }
    char *text = (char *)(entries + n + count + 1);
    for (size_t i = 0; i < count; i++) {
        struct variable *each = &variables[i];
        if (each->value) {
            each->entry = text;
            text = stpcpy(stpcpy(text, each->name), "=");
            text = stpcpy(text, each->value) + 1;
        }
    }
    for (char **from = environ; *from; from++) {
        struct variable *each = find_variable(variables, count, *from);
        if (!each || each->entry) {
            entries[used++] = each ? each->entry : *from;
        }
        if (each) {
            each->entry = NULL; /* a second one of the name goes */
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (variables[i].entry) {
            entries[used++] = variables[i].entry;
        }
    }
    entries[used] = NULL;
    __atomic_store_n(&environ, entries, __ATOMIC_RELEASE);
    return 0;
}

int
fy_launch_environment(const char *preload, const struct fy_settings *settings)
{
    const char *before = getenv("LD_PRELOAD");
    size_t room = strlen(preload) + (before ? strlen(before) : 0) + 2;
    char *list = malloc(room);
    char *text = malloc(FY_SETTINGS_TEXT_BYTES);
    int status = FY_ERR_NOMEM;
    if (!list || !text) {
        goto free_both;
    }
    struct fy_buffer to;
    fy_buffer_start(&to, list, room);
    fy_buffer_add(&to, preload);
    if (*preload && before) {
        fy_buffer_add_char(&to, ':');
    }
    bool kept = before && !*before;
    for (const char *entry = before; entry && *entry;) {
        size_t n = strcspn(entry, ": "), whole = n + (entry[n] != '\0');
        if (!n || !is_ours(entry, n)) {
            fy_buffer_add_bytes(&to, entry, whole);
            kept = true;
        }
        entry += whole;
    }
    text[0] = '\0';
    status = *preload
                 ? fy_settings_encode(settings, text, FY_SETTINGS_TEXT_BYTES)
                 : 0;
    struct variable variables[] = {
        {"LD_PRELOAD", *preload || kept ? list : NULL, NULL},
        {FY_SETTINGS_ENV, *preload ? text : NULL, NULL},
    };
    status = status ? status : change_environment(variables, 2);
free_both:
    free(list);
    free(text);
    return status;
}
