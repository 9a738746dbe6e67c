/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and libraries as files (shim/image/head.c, shim/image/reach.c, proxy/storage/needs.c), which
 * anybody may have made. The input is such a file, behind a byte.
 */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "common/buffer.h"
#include "proxy/storage/needs.h"
#include "shim/image/head.h"
#include "shim/image/reach.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "files that lie about what is in them harm no reader";
const char *const fuzz_words[] = {"\x7f"
                                  "ELF",
                                  "\x02\x01\x01",
                                  "#!/",
                                  "\xff\xff\xff\xff",
                                  "/lib64/ld-linux-x86-64.so.9",
                                  "dlopen",
                                  "f_",
                                  "\x06\x00",
                                  "\x10\x00\x00",
                                  NULL};

static const char annotation[] =
    "function int f_(int n, const double *x) { in x[n]; }\n";
static struct fy_model *model;

static void
use(void *closure, const struct fy_reach_finding *finding)
{
    char text[256];
    struct fy_buffer buffer;
    (void)closure;
    fy_buffer_start(&buffer, text, sizeof text);
    fy_reach_describe(finding, &buffer);
    MUST(*text && strlen(finding->text) < 1 << 16);
}

static void
make_model(void)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    MUST(diagnostics &&
         fy_compile_text("fuzz", annotation, sizeof annotation - 1, NULL,
                         diagnostics, &model) == 0);
    fy_diagnostics_free(diagnostics);
}

static void
try_file(const uint8_t *bytes, size_t n)
{
    char why[256], linker[PATH_MAX];
    struct fy_buffer buffer;
    struct fy_head head;
    fy_buffer_start(&buffer, why, sizeof why);
    const char *path = fuzz_file("program", bytes, n);
    fy_head_read(AT_FDCWD, path, &head);
    MUST(head.bytes >= 0 && head.bytes < FY_HEAD_BYTES);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    MUST(fd >= 0);
    int status = fy_needs_linker(fd, linker);
    close(fd);
    MUST(status == 0 || status == FY_ERR_IO || status == FY_ERR_OVERFLOW);
    fuzz_taken += fy_reach_scan(path, model, use, NULL, &buffer) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!model) {
        make_model();
    }
    if (n > 1) {
        try_file(bytes + 1, n - 1);
    }
    return 0;
}

/* ---- a small library, as the linkers make them ---------------------------------- */

enum {
    BASE = 0x10000
};

static struct {
    Elf64_Ehdr head;
    Elf64_Phdr segments[3];
    Elf64_Dyn dynamic[12];
    Elf64_Sym symbols[4];
    Elf64_Rela relocations[1];
    uint32_t hash[9], old[2];
    char strings[32], linker[32];
    Elf64_Shdr sections[3];
} object;

#define OFFSET(field) ((uint64_t)(offsetof(__typeof__(object), field)))

static void
make_object(uint16_t type)
{
    static const char strings[] = "\0f_\0dlopen\0dlmopen";
    memset(&object, 0, sizeof object);
    Elf64_Ehdr *head = &object.head;
    memcpy(head->e_ident, ELFMAG, SELFMAG);
    head->e_ident[EI_CLASS] = ELFCLASS64;
    head->e_ident[EI_DATA] = ELFDATA2LSB;
    head->e_ident[EI_VERSION] = head->e_version = EV_CURRENT;
    head->e_ehsize = sizeof *head;
    head->e_type = type;
    head->e_machine = EM_X86_64;
    head->e_phoff = OFFSET(segments);
    head->e_phentsize = sizeof(Elf64_Phdr);
    head->e_phnum = 3;
    head->e_shoff = OFFSET(sections);
    head->e_shentsize = sizeof(Elf64_Shdr);
    head->e_shnum = 3;
    object.sections[1] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                                      .sh_link = 2,
                                      .sh_offset = OFFSET(symbols),
                                      .sh_size = sizeof object.symbols,
                                      .sh_addralign = 8,
                                      .sh_entsize = sizeof(Elf64_Sym)};
    object.sections[2] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                      .sh_offset = OFFSET(strings),
                                      .sh_size = sizeof object.strings,
                                      .sh_addralign = 1};
    const Elf64_Phdr segments[3] = {
        {.p_type = PT_LOAD, .p_vaddr = BASE, .p_filesz = sizeof object},
        {.p_type = PT_INTERP, .p_offset = OFFSET(linker), .p_filesz = 28},
        {.p_type = PT_DYNAMIC,
         .p_offset = OFFSET(dynamic),
         .p_filesz = sizeof object.dynamic}};
    memcpy(object.segments, segments, sizeof segments);
    const Elf64_Dyn dynamic[12] = {
        {DT_SYMTAB, {BASE + OFFSET(symbols)}},
        {DT_STRTAB, {BASE + OFFSET(strings)}},
        {DT_STRSZ, {sizeof strings}},
        {type == ET_DYN ? DT_GNU_HASH : DT_DEBUG, {BASE + OFFSET(hash)}},
        {type == ET_DYN ? DT_DEBUG : DT_HASH, {BASE + OFFSET(old)}},
        {DT_RELA, {BASE + OFFSET(relocations)}},
        {DT_RELASZ, {sizeof object.relocations}},
        {DT_FLAGS, {DF_SYMBOLIC}},
        {DT_JMPREL, {BASE + OFFSET(relocations)}},
        {DT_PLTRELSZ, {sizeof object.relocations}},
        {DT_NULL, {0}}};
    memcpy(object.dynamic, dynamic, sizeof dynamic);
    const uint8_t info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    object.symbols[1] = (Elf64_Sym){.st_name = 4, .st_info = info};
    object.symbols[2] = (Elf64_Sym){.st_name = 1, .st_info = info};
    object.symbols[3] = (Elf64_Sym){.st_name = 11, .st_info = info};
    object.relocations[0].r_info = ELF64_R_INFO(3, 7);
    /* One bucket, symbols from 2 on, one word of the filter; the chain's end. */
    const uint32_t hash[9] = {1, 2, 1, 6, 0, 0, 2, 0, 1};
    memcpy(object.hash, hash, sizeof hash);
    object.old[1] = 4;
    memcpy(object.strings, strings, sizeof strings);
    strcpy(object.linker, "/lib64/ld-linux-x86-64.so.9");
}

void
fuzz_make_seeds(void)
{
    char seed[1 + sizeof object] = "";
    const uint16_t types[] = {ET_DYN, ET_EXEC};
    for (unsigned i = 0; i < 2; i++) {
        make_object(types[i]);
        memcpy(seed + 1, &object, sizeof object);
        fuzz_seed(seed, sizeof seed);
    }
    FUZZ_SEED("\0#! /nonexistent/env interpreter\n");
}
