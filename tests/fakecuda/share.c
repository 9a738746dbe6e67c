/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of each device is taken. With FAKECUDA_SHARED=FILE processes share
 * the devices: each keeps its numbers in a row of the file that it holds a lock
 * on, so that what a process had is free when it is gone, however it went.
 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakecuda/machine.h"

#define ROWS_MAX 64

struct row {
    uint64_t used_bytes[FAKE_DEVICES_MAX];
};

static struct {
    bool asked;
    int file; /* < 0: nothing is shared */
    int mine;
    struct row *rows;
} share = {.file = -1};

/* Row i, whose owner holds it as long as he lives. */
static struct flock
lock_of(int i, short type)
{
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start =
                              (off_t)ROWS_MAX * (off_t)sizeof(struct row) + i,
                          .l_len = 1};
}

/* Of all processes; another open file, for locks of one are no bar to it. */
static int
lock_all(void)
{
    const char *name = getenv("FAKECUDA_SHARED");
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): set where a file is */
    int file = open(name, O_RDWR | O_CLOEXEC);

    if (file >= 0 && flock(file, LOCK_EX) != 0) {
        (void)close(file);
        return -1;
    }
    return file;
}

static void
open_share(void)
{
    const char *name = getenv("FAKECUDA_SHARED");

    if (share.asked || name == NULL || *name == '\0') {
        return;
    }
    share.asked = true;
    share.file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int all = lock_all();
    if (share.file < 0 || all < 0 ||
        ftruncate(share.file, ROWS_MAX * (off_t)sizeof(struct row)) != 0) {
        abort();
    }
    share.rows = mmap(NULL, ROWS_MAX * sizeof(struct row),
                      PROT_READ | PROT_WRITE, MAP_SHARED, share.file, 0);
    if (share.rows == MAP_FAILED) {
        abort();
    }
    for (share.mine = 0; share.mine < ROWS_MAX; share.mine++) {
        struct flock lock = lock_of(share.mine, F_WRLCK);
        if (fcntl(share.file, F_OFD_SETLK, &lock) == 0) {
            memset(&share.rows[share.mine], 0, sizeof(struct row));
            break;
        }
    }
    if (share.mine == ROWS_MAX) {
        abort();
    }
    (void)close(all);
}

/* What the others have. All processes' lock is held. */
static size_t
used_by_others(int device)
{
    size_t used = 0;

    for (int i = 0; i < ROWS_MAX; i++) {
        struct flock lock = lock_of(i, F_WRLCK);
        if (i != share.mine && share.rows[i].used_bytes[device] != 0 &&
            fcntl(share.file, F_OFD_GETLK, &lock) == 0 &&
            lock.l_type != F_UNLCK) {
            used += share.rows[i].used_bytes[device];
        }
    }
    return used;
}

/* Callers hold machine.lock. */
static size_t
change(int device, size_t more, size_t less)
{
    size_t *used = &machine.used_bytes[device];
    int ordinal = machine.ordinal[device], all = -1;
    size_t others = 0;

    open_share();
    if (share.file >= 0) {
        all = lock_all();
        others = used_by_others(ordinal);
    }
    *used -= less;
    size_t taken = *used + others;
    size_t room = machine.limit_bytes -
                  (taken < machine.limit_bytes ? taken : machine.limit_bytes);
    if (more <= room) {
        *used += more;
    }
    if (share.file >= 0) {
        share.rows[share.mine].used_bytes[ordinal] = *used;
        (void)close(all);
    }
    return room;
}

bool
fake_bytes_take(int device, size_t bytes)
{
    return change(device, bytes, 0) >= bytes;
}

void
fake_bytes_give(int device, size_t bytes)
{
    (void)change(device, 0, bytes);
}

size_t
fake_bytes_free(int device)
{
    return change(device, 0, 0);
}
