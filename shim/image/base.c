/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads libferry.so for the generator of the preload object. The file is our
 * own, but a damaged or foreign one must end in a message: offsets are checked.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/whole.h"
#include "shim/image/build.h"

enum {
    MAX_FILE_BYTES = 64 << 20
};

static int
read_file(struct fy_build *job, const char *path)
{
    struct fy_build_base *base = &job->base;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0) {
        return fy_build_fail(job, FY_ERR_IO, "cannot open libferry.so");
    }
    int result = 0;
    if (fstat(file, &status) || status.st_size < (off_t)sizeof(Elf64_Ehdr) ||
        status.st_size > MAX_FILE_BYTES) {
        result = fy_build_fail(job, FY_ERR_INVALID,
                               "libferry.so has no usable size");
    }
    if (!result) {
        base->bytes = (size_t)status.st_size;
        base->file = malloc(base->bytes);
        if (!base->file) {
            result = FY_ERR_NOMEM;
        }
    }
    if (!result && fy_read_whole(file, base->file, base->bytes)) {
        result = fy_build_fail(job, FY_ERR_IO, "cannot read libferry.so");
    }
    int saved = errno;
    close(file);
    errno = saved;
    return result;
}

void *
fy_build_at(const struct fy_build_base *base, uint64_t address, uint64_t bytes,
            unsigned align)
{
    for (unsigned i = 0; i < base->header->e_phnum; i++) {
        const Elf64_Phdr *segment = &base->segments[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr > segment->p_filesz ||
            bytes > segment->p_filesz - (address - segment->p_vaddr)) {
            continue;
        }
        uint64_t offset = segment->p_offset + (address - segment->p_vaddr);
        if (offset > base->bytes || bytes > base->bytes - offset ||
            offset % align) {
            return NULL;
        }
        return base->file + offset;
    }
    return NULL;
}

Elf64_Dyn *
fy_build_dynamic(const struct fy_build_base *base, Elf64_Sxword tag)
{
    for (size_t i = 0; i < base->ndynamic; i++) {
        if (base->dynamic[i].d_tag == tag) {
            return &base->dynamic[i];
        }
    }
    return NULL;
}

static int
parse_segments(struct fy_build *job)
{
    struct fy_build_base *base = &job->base;
    Elf64_Ehdr *header = base->header = (Elf64_Ehdr *)base->file;
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_machine != EM_X86_64 || header->e_type != ET_DYN ||
        header->e_phentsize != sizeof(Elf64_Phdr) ||
        header->e_phoff > base->bytes || header->e_phoff % 8 ||
        header->e_phnum >
            (base->bytes - header->e_phoff) / sizeof(Elf64_Phdr)) {
        return fy_build_fail(job, FY_ERR_INVALID,
                             "libferry.so is not an x86-64 library");
    }
    base->segments = (Elf64_Phdr *)(base->file + header->e_phoff);
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr *segment = &base->segments[i];
        if (segment->p_type == PT_LOAD) {
            base->last = segment;
        }
        if (segment->p_type == PT_NOTE && base->last) {
            base->note = segment;
        }
        if (segment->p_type == PT_GNU_EH_FRAME) {
            base->unwind = segment;
        }
        if (segment->p_type == PT_DYNAMIC) {
            base->dynamic =
                fy_build_at(base, segment->p_vaddr, segment->p_filesz, 8);
            base->ndynamic = segment->p_filesz / sizeof(Elf64_Dyn);
        }
    }
    if (!base->dynamic || !base->note || !base->last || !base->unwind ||
        !(base->last->p_flags & PF_W)) {
        return fy_build_fail(job, FY_ERR_INVALID,
                             "libferry.so was linked in another way");
    }
    const Elf64_Phdr *last = base->last;
    if (last->p_filesz > last->p_memsz || last->p_memsz > MAX_FILE_BYTES ||
        last->p_vaddr > MAX_FILE_BYTES ||
        !fy_build_at(base, last->p_vaddr, last->p_filesz, 1)) {
        return fy_build_fail(job, FY_ERR_INVALID, "libferry.so is damaged");
    }
    return 0;
}

/* The number of symbols: the hash table covers the last one. */
static int
count_symbols(struct fy_build *job, const Elf64_Dyn *hash)
{
    struct fy_build_base *base = &job->base;
    const uint32_t *table = fy_build_at(base, hash->d_un.d_ptr, 16, 8);
    if (!table) {
        return FY_ERR_INVALID;
    }
    uint64_t words = 4 + (uint64_t)table[2] * 2 + table[0];
    table = fy_build_at(base, hash->d_un.d_ptr, words * 4, 8);
    if (!table) {
        return FY_ERR_INVALID;
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < table[0]; i++) {
        uint32_t bucket = table[4 + table[2] * 2 + i];
        if (bucket > last) {
            last = bucket;
        }
    }
    for (; last >= table[1]; last++) {
        const uint32_t *chain = fy_build_at(
            base, hash->d_un.d_ptr + (words + last - table[1]) * 4, 4, 4);
        if (!chain) {
            return FY_ERR_INVALID;
        }
        if (*chain & 1) {
            break;
        }
    }
    base->nsymbols = last + 1;
    return 0;
}

static int
parse_symbols(struct fy_build *job)
{
    struct fy_build_base *base = &job->base;
    const Elf64_Dyn *symbols = fy_build_dynamic(base, DT_SYMTAB),
                    *strings = fy_build_dynamic(base, DT_STRTAB),
                    *bytes = fy_build_dynamic(base, DT_STRSZ),
                    *hash = fy_build_dynamic(base, DT_GNU_HASH),
                    *versions = fy_build_dynamic(base, DT_VERSYM);
    if (!symbols || !strings || !bytes || !hash || count_symbols(job, hash)) {
        return fy_build_fail(job, FY_ERR_INVALID,
                             "libferry.so has no GNU hash table");
    }
    base->symbols =
        fy_build_at(base, symbols->d_un.d_ptr,
                    (uint64_t)base->nsymbols * sizeof(Elf64_Sym), 8);
    base->strings_bytes = bytes->d_un.d_val;
    base->strings =
        fy_build_at(base, strings->d_un.d_ptr, base->strings_bytes, 1);
    if (versions) {
        base->versions = fy_build_at(base, versions->d_un.d_ptr,
                                     (uint64_t)base->nsymbols * 2, 2);
    }
    if (!base->symbols || !base->strings || base->strings_bytes == 0 ||
        base->strings[base->strings_bytes - 1] != '\0') {
        return fy_build_fail(job, FY_ERR_INVALID,
                             "libferry.so has no symbol table");
    }
    base->exports = calloc(base->nsymbols, sizeof *base->exports);
    if (!base->exports) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < base->nsymbols; i++) {
        const Elf64_Sym *symbol = &base->symbols[i];
        if (symbol->st_name >= base->strings_bytes) {
            return fy_build_fail(job, FY_ERR_INVALID, "libferry.so is damaged");
        }
        if (symbol->st_shndx == SHN_UNDEF) {
            continue;
        }
        base->exports[base->nexports++] = i;
        if (strcmp(base->strings + symbol->st_name, FY_IMAGE_SYMBOL) == 0) {
            base->image_address = symbol->st_value;
            base->image =
                fy_build_at(base, symbol->st_value, sizeof *base->image, 8);
        }
    }
    if (!base->image || memcmp(base->image->magic, FY_IMAGE_MAGIC, 8) != 0 ||
        base->image->version != FY_IMAGE_VERSION || base->image->model) {
        return fy_build_fail(job, FY_ERR_INVALID,
                             "libferry.so is not of this version of ferry");
    }
    return 0;
}

int
fy_build_read(struct fy_build *job, const char *path)
{
    int status = read_file(job, path);
    if (!status) {
        status = parse_segments(job);
    }
    return status ? status : parse_symbols(job);
}
