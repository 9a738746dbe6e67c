/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of kernels on disk: one file each, named by a hash of its source. A
 * file is believed only when it is ours and says by its hash that it is whole;
 * it gets its name when it is complete. Whatever goes wrong, the kernel is just
 * compiled again. A process that adds an image drops those that were not used for
 * long, and the oldest ones of too many. Runs in host programs: no signal, no output, no
 * errno.
 */
#include "config.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/room.h"
#include "common/sha256.h"
#include "common/whole.h"
#include "pager/device/cuda/kernel_compile.h"

enum {
    MAX_IMAGE_BYTES = 64 << 20,
    MAX_FOLDER_BYTES = 64 << 20, /* of all images; the newest one may be more */
    MAX_FILES = 4096,            /* looked at; further ones go */
    UNUSED_SECONDS = 30 * 24 * 3600,
    USED_SECONDS = 24 * 3600 /* how exactly it is noted when one was used */
};

struct head {
    char magic[8];
    uint64_t bytes;
    unsigned char key[FY_KERNEL_KEY_BYTES];
    unsigned char hash[FY_KERNEL_KEY_BYTES]; /* of the image */
};

static const char magic[8] = {'f', 'e', 'r', 'r', 'y', 'K', 'R', '1'};

static char folder[PATH_MAX]; /* set before the first kernel */

void
fy_kernel_cache_to(const char *to)
{
    size_t bytes = to ? strlen(to) + 1 : 0;
    folder[0] = '\0';
    if (bytes > 1 && bytes <= sizeof folder) {
        memcpy(folder, to, bytes);
    }
}

/* "FOLDER/KEY", with `suffix' behind; false: there is no such path. */
static bool
path_of(const struct fy_kernel_key *key, const char *suffix, char out[PATH_MAX])
{
    char digits[2 * FY_KERNEL_KEY_BYTES + 1];
    for (int i = 0; i < FY_KERNEL_KEY_BYTES; i++) {
        (void)snprintf(digits + (size_t)2 * (size_t)i, 3, "%02x",
                       key->bytes[i]);
    }
    int n = snprintf(out, PATH_MAX, "%s/%s%s", folder, digits, suffix);
    return folder[0] != '\0' && n > 0 && n < PATH_MAX;
}

static void
hash_image(const void *image, size_t bytes, unsigned char *out)
{
    struct fy_sha256 hash;
    fy_sha256_start(&hash);
    fy_sha256_add(&hash, image, bytes);
    fy_sha256_end(&hash, out);
}

/* ---- unused images ---- */

struct old_file {
    char name[2 * FY_KERNEL_KEY_BYTES + 1];
    time_t used;
    off_t bytes;
};

static int
newest_first(const void *a, const void *b)
{
    const struct old_file *x = a, *y = b;
    return (x->used < y->used) - (x->used > y->used);
}

/* Whether a name is one of ours: a key, or a key and who is writing it. */
static bool
is_key(const char *name, bool *complete)
{
    for (int i = 0; i < 2 * FY_KERNEL_KEY_BYTES; i++) {
        if (!isxdigit((unsigned char)name[i])) {
            return false;
        }
    }
    const char end = name[UINT64_C(2) * FY_KERNEL_KEY_BYTES];
    *complete = end == '\0';
    return *complete || end == '.';
}

/* Files that are in use are only made again: nobody holds their names. */
static void
prune(void)
{
    struct old_file *files = calloc(MAX_FILES, sizeof *files);
    DIR *listing = files ? opendir(folder) : NULL;
    const time_t now = time(NULL);
    off_t sum = 0;
    size_t n = 0;
    if (!listing) {
        free(files);
        return;
    }
    const int at = dirfd(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat status;
        bool complete;
        if (!is_key(entry->d_name, &complete) ||
            fstatat(at, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            S_ISDIR(status.st_mode)) {
            continue;
        }
        if (now - status.st_mtime > UNUSED_SECONDS || n == MAX_FILES) {
            (void)unlinkat(at, entry->d_name, 0);
        } else if (complete) {
            memcpy(files[n].name, entry->d_name, sizeof files[n].name);
            files[n].used = status.st_mtime;
            files[n++].bytes = status.st_size;
        }
    }
    qsort(files, n, sizeof *files, newest_first);
    for (size_t i = 0; i < n; i++) {
        sum = files[i].bytes > MAX_FOLDER_BYTES ? MAX_FOLDER_BYTES + 1
                                                : sum + files[i].bytes;
        if (i > 0 && sum > MAX_FOLDER_BYTES) {
            (void)unlinkat(at, files[i].name, 0);
            sum = MAX_FOLDER_BYTES + 1; /* and all that are older */
        }
    }
    (void)closedir(listing);
    free(files);
}

static int
read_image(int fd, const struct fy_kernel_key *key, void **image, size_t *bytes)
{
    unsigned char hash[FY_KERNEL_KEY_BYTES];
    struct head head;
    struct stat status;
    /* A file that others can write is not run. */
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid() || (status.st_mode & 022) != 0 ||
        fy_read_whole(fd, &head, sizeof head) ||
        memcmp(head.magic, magic, sizeof magic) != 0 ||
        memcmp(head.key, key->bytes, sizeof head.key) != 0 || head.bytes == 0 ||
        head.bytes > MAX_IMAGE_BYTES ||
        (uint64_t)status.st_size != sizeof head + head.bytes) {
        return FY_ERR_NOENT;
    }
    void *content = calloc(1, head.bytes + 1);
    if (!content) {
        return FY_ERR_NOENT;
    }
    if (!fy_read_whole(fd, content, head.bytes)) {
        hash_image(content, head.bytes, hash);
        if (memcmp(hash, head.hash, sizeof hash) == 0) {
            if (time(NULL) - status.st_mtime > USED_SECONDS) {
                (void)futimens(fd, NULL); /* for prune() */
            }
            *image = content;
            *bytes = head.bytes;
            return FY_OK;
        }
    }
    free(content);
    return FY_ERR_NOENT;
}

int
fy_kernel_cache_get(const struct fy_kernel_key *key, void **image,
                    size_t *bytes)
{
    char path[PATH_MAX];
    int saved = errno, status = FY_ERR_NOENT;
    if (path_of(key, "", path)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0) {
            status = read_image(fd, key, image, bytes);
            (void)close(fd);
        }
    }
    errno = saved;
    return status;
}

void
fy_kernel_cache_put(const struct fy_kernel_key *key, const void *image,
                    size_t bytes)
{
    char path[PATH_MAX], temporary[PATH_MAX], suffix[32];
    int saved = errno;
    struct head head = {.bytes = bytes};
    memcpy(head.magic, magic, sizeof magic);
    memcpy(head.key, key->bytes, sizeof head.key);
    hash_image(image, bytes, head.hash);
    (void)snprintf(suffix, sizeof suffix, ".%ld", (long)getpid());
    if (fy_may_write(sizeof head + bytes) && path_of(key, "", path) &&
        path_of(key, suffix, temporary)) {
        int fd =
            open(temporary,
                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == ENOENT && mkdir(folder, 0700) == 0) {
            fd = open(temporary,
                      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                      0600);
        }
        if (fd < 0 && errno == EEXIST) { /* of a process that has died */
            (void)unlink(temporary);
        }
        if (fd >= 0) {
            bool good = !fy_write_whole(fd, &head, sizeof head) &&
                        !fy_write_whole(fd, image, bytes);
            good = close(fd) == 0 && good;
            if (!good || rename(temporary, path) != 0) {
                (void)unlink(temporary);
            } else {
                prune();
            }
        }
    }
    errno = saved;
}
