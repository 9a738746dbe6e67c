/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says of a process (proxy/wire/process.h): its name, which may be anything,
 * stands in the middle of stat. The input is stat, then, behind a NUL, io. What is
 * read of a row that the kernel could have written is what stands in it.
 */
#include "config.h"

#include "proxy/wire/process.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] =
    "a process is read as the kernel tells of it, or gone";
const char *const fuzz_words[] = {
    ") ", "(", " -1", "99999999999999999999", "rchar: ", "syscw: ", "\n", NULL};

/* A name chosen by the input changes nothing of what is read behind it. */
static void
judge_name(int proc, const char *name)
{
    char row[400];
    struct fy_process process;
    int n = snprintf(row, sizeof row,
                     "7 (%.60s) S 3 7 5 34816 7 64 1 2 3 4 10 20 0 0 20 0 1 0 "
                     "4242 1000 99 18446744073709551615\n",
                     name);
    (void)fuzz_file("proc/7/stat", row, (size_t)n);
    MUST(fy_process_read(proc, "7", &process));
    MUST(process.pid == 7 && process.parent == 3 && process.session == 5);
    MUST(process.state == 'S' && process.forked && !process.exiting);
    MUST(process.start == 4242);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *parts[2], path[600];
    struct fy_process process;
    struct fy_process_io io;
    fuzz_cut(bytes, n, parts, 2);
    (void)fuzz_file("proc/9/stat", parts[0], strlen(parts[0]));
    (void)snprintf(path, sizeof path, "%s/proc", fuzz_folder());
    int proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    MUST(proc >= 0);
    if (fy_process_read(proc, "9", &process)) {
        fuzz_taken++;
        MUST(process.pid == 9 && process.state);
    }
    judge_name(proc, parts[0]);
    int file = open(fuzz_file("proc/9/io", parts[1], strlen(parts[1])),
                    O_RDONLY | O_CLOEXEC);
    MUST(fy_process_io(file, &io) == (*parts[1] != '\0'));
    close(file);
    close(proc);
    free(parts[0]);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("9 (a) b (c) S 1 9 9 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 555 "
              "4096 77 18446744073709551615 1 1\n\0rchar: 10\nwchar: 20\n"
              "syscr: 1\nsyscw: 2\nread_bytes: 0\n");
    FUZZ_SEED("9 () Z 0 0 0 0 0 4 0 0 0 0 0 0 0 0 0 0 0 0 -5 0 -1\0\n");
}
