/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the dynamic linker tells that it would load (proxy/storage/needs.c), and whether a
 * file asks for dlopen(). The names of libraries are the program's own words. Rows
 * borrow strings from the text, and every path is absolute.
 */
#include "config.h"

#include "proxy/storage/needs.c" /* for read_lines, loads_more */
#include "tests/fuzz/target.h"

const char fuzz_shows[] =
    "every row of the linker's is a name and a path, or none";
const char *const fuzz_words[] = {" => ", "not found",       " (0x", "\n\t",
                                  "/",    "linux-vdso.so.1", NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fy_needs needs = {.known = true, .text = fuzz_text(bytes, n)};
    const char *end = needs.text + n;
    int status = read_lines(&needs);
    MUST(status == 0 || status == FY_ERR_UNSUPPORTED ||
         status == FY_ERR_OVERFLOW);
    MUST(needs.n <= FY_NEEDS_MAX);
    for (unsigned i = 0; i < needs.n; i++) {
        const struct fy_need *need = &needs.rows[i];
        MUST(need->path[0] == '/' && !strchr(need->name, '/'));
        MUST(need->path > needs.text - 1 && need->path < end);
        MUST(need->name > needs.text - 1 && need->name < end);
        fuzz_taken += status == 0;
    }
    fy_needs_clear(&needs);
    int fd = open(fuzz_file("object", bytes, n), O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0);
    bool more = loads_more(fd);
    MUST(more || n > sizeof(Elf64_Ehdr)); /* what is no program may load all */
    close(fd);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("\tlinux-vdso.so.1 (0x00007ffc0a5f2000)\n"
              "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f0000)\n"
              "\t/lib64/ld-linux-x86-64.so.2 (0x00007f2c1f0f5000)\n");
    FUZZ_SEED("\tlibx.so => not found\n");
    FUZZ_SEED("\ta (b) => /c (d) (0x1)\n/x/y => /z (1)\n");
}
