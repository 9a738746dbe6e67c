/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the input text? The behaviour of text tools at a byte that is none (grep stops
 * printing lines, from somewhere before it) depends on all of their input, so a file with
 * such bytes is never split. One pass at the speed of memory, by as many processes as
 * there will be copies.
 */
#include "config.h"

#include "proxy/server/split_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WINDOW_BYTES = 64 << 20, /* mapped at a time */
    MOST_PROCESSES = 64,
    OVERLAP_BYTES = 4, /* a character may begin in one range, end in the next */
};

/* Bytes of the character at `at' (`left' are there); 0: not one of UTF-8. */
static size_t
character(const unsigned char *at, size_t left)
{
    unsigned char first = at[0];
    size_t n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first == 0 || (first >= 0x80 && first < 0xc2) || first > 0xf4 ||
        n > left) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Too long, surrogates, beyond the last plane. */
    bool bad =
        (first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] >= 0xa0) ||
        (first == 0xf0 && at[1] < 0x90) || (first == 0xf4 && at[1] >= 0x90);
    return bad ? 0 : n;
}

/* Offset of the first character that is not whole text, or n. */
static size_t
text_bytes(const unsigned char *text, size_t n)
{
    static const uint64_t low = UINT64_C(0x0101010101010101);
    static const uint64_t high = UINT64_C(0x8080808080808080);
    size_t i = 0;
    while (i < n) {
        uint64_t word;
        while (n - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            /* A zero byte borrows; a byte of 0x80 and more has its own bit. */
            if (((word - low) | word) & high) {
                break;
            }
            i += sizeof word;
        }
        for (size_t end = i + sizeof word; i < n && i < end;) {
            size_t bytes = character(text + i, n - i);
            if (!bytes) {
                return i;
            }
            i += bytes;
        }
    }
    return n;
}

/* [begin, end) begins behind a newline and ends with one or the file. */
static bool
range_is_text(int file, uint64_t begin, uint64_t end)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    while (begin < end) {
        uint64_t from = begin / page * page;
        size_t bytes = end - from < WINDOW_BYTES ? (size_t)(end - from)
                                                 : (size_t)WINDOW_BYTES;
        unsigned char *map =
            mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, (off_t)from);
        if (map == MAP_FAILED) {
            return false;
        }
        (void)madvise(map, bytes, MADV_SEQUENTIAL);
        size_t skip = (size_t)(begin - from);
        size_t good = text_bytes(map + skip, bytes - skip);
        munmap(map, bytes);
        bool cut_off =
            from + bytes < end && bytes - skip - good < OVERLAP_BYTES;
        if (good == 0 || (good < bytes - skip && !cut_off)) {
            return false;
        }
        begin += good;
    }
    return true;
}

bool
fy_split_is_text(const struct fy_split_state *split)
{
    pid_t pids[MOST_PROCESSES];
    uint32_t n = split->job->copies < MOST_PROCESSES ? split->job->copies
                                                     : MOST_PROCESSES;
    uint32_t started = 0;
    bool good = true;
    n = n < split->nparts ? n : split->nparts;
    for (uint32_t i = 0; i < n && good; i++) {
        uint32_t first = (uint32_t)((uint64_t)split->nparts * i / n);
        uint32_t last = (uint32_t)((uint64_t)split->nparts * (i + 1) / n) - 1;
        pid_t pid = fork();
        if (pid == 0) {
            /* The file may be cut off under us: that is SIGBUS, and no text. */
            _exit(!range_is_text(split->file, split->parts[first].begin,
                                 split->parts[last].end));
        }
        good = pid > 0;
        pids[started] = pid;
        started += good;
    }
    for (uint32_t i = 0; i < started; i++) {
        int status = -1;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
        }
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return good;
}
