/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of writes that mounts have not delivered, see the header. A record is read only
 * after its lock could be had: no process writes to it then.
 */
#include "config.h"

#include "proxy/files/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/path.h"
#include "common/whole.h"

static const char magic[8] = "ferryrec";

static void
copy_cut(char *to, size_t capacity, const char *text)
{
    size_t n = strnlen(text, capacity - 1);
    memcpy(to, text, n);
    to[n] = '\0';
}

struct fy_files_record *
fy_files_record_new(const char *path, const char *place, const char *folder)
{
    struct fy_files_record *record;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  S_IRUSR | S_IWUSR);
    if (fd < 0) {
        return NULL;
    }
    /* Blocks are had now: a full disk would else be a signal at some store. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 ||
        posix_fallocate(fd, 0, sizeof *record) != 0) {
        goto failed;
    }
    record =
        mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (record == MAP_FAILED) {
        goto failed;
    }
    record->pid = (uint32_t)getpid();
    copy_cut(record->place, sizeof record->place, place);
    copy_cut(record->folder, sizeof record->folder, folder);
    memcpy(record->magic, magic, sizeof magic);
    return record; /* the descriptor holds the lock until the process ends */
failed:
    (void)unlink(path);
    close(fd);
    return NULL;
}

static void
take(int folder, const char *name,
     void (*lost)(const struct fy_files_record *record, void *context),
     void *context)
{
    struct fy_files_record record;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fy_read_whole(fd, &record, sizeof record) == 0 &&
        memcmp(record.magic, magic, sizeof magic) == 0 &&
        unlinkat(folder, name, 0) == 0 && (record.bytes || record.changes)) {
        record.place[sizeof record.place - 1] = '\0';
        record.folder[sizeof record.folder - 1] = '\0';
        lost(&record, context);
    }
    close(fd);
}

void
fy_files_records_take(const char *folder,
                      void (*lost)(const struct fy_files_record *record,
                                   void *context),
                      void *context)
{
    static const char ending[] = ".record";
    DIR *all = fy_folder_open(AT_FDCWD, folder);
    const struct dirent *entry;
    while (all && (entry = readdir(all))) {
        size_t n = strlen(entry->d_name);
        if (n >= sizeof ending &&
            strcmp(entry->d_name + n - (sizeof ending - 1), ending) == 0) {
            take(dirfd(all), entry->d_name, lost, context);
        }
    }
    if (all) {
        closedir(all);
    }
}
