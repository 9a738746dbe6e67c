/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of /proc/PID/maps (pager/device/cuda/watch.c) where the kernel has no better question:
 * the name at the end is a file's, and may be anything. A row reads as it was
 * written.
 */
#include "config.h"

#include "pager/device/cuda/watch.c" /* for parse_mapping */
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "a mapping reads as the kernel writes it";
const char *const fuzz_words[] = {
    "-",      " rwxp ",           " rw-s ",     "  ", "[anon:",
    "[heap]", "ffffffffffffffff", " (deleted)", NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct mapping mapping;
    char *line = fuzz_text(bytes, n), row[1024];
    line[strcspn(line, "\n")] = '\0';
    parse_mapping(line, &mapping);
    MUST(strlen(mapping.name) < sizeof mapping.name);
    fuzz_taken += mapping.end > mapping.start;
    if (n >= 12) {
        uint64_t start, end;
        memcpy(&start, bytes, 8);
        end = start + bytes[8];
        const char *name = line + strcspn(line, "/");
        (void)snprintf(
            row, sizeof row, "%lx-%lx %c%c%c%c 00001000 fe:01 %u    %s",
            (unsigned long)start, (unsigned long)end, bytes[9] & 1 ? 'r' : '-',
            bytes[9] & 2 ? 'w' : '-', bytes[9] & 4 ? 'x' : '-',
            bytes[9] & 8 ? 's' : 'p', bytes[10], name);
        parse_mapping(row, &mapping);
        MUST(mapping.start == start && mapping.end == end);
        MUST(mapping.readable == (bytes[9] & 1) &&
             mapping.writable == ((bytes[9] & 2) != 0) &&
             mapping.executable == ((bytes[9] & 4) != 0) &&
             mapping.shared == ((bytes[9] & 8) != 0));
        MUST(mapping.inode == bytes[10]);
        MUST(!strncmp(mapping.name, name, sizeof mapping.name - 1));
    }
    free(line);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ");
    FUZZ_SEED(
        "55d0c0000000-55d0c0002000 r-xp 00002000 fe:01 1234      /bin/a b");
    FUZZ_SEED("7ffe0000000-7ffe0021000 rw-p 00000000 00:00 0    [stack]");
}
