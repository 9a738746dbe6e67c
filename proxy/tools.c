/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two hosts have the same program, configuration and locale. Refuses
 * scripts that look up their interpreter in PATH: nobody knows what would run.
 * The cache of identities is this process's; one thread.
 */
#include "config.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proxy/confine.h"

enum {
    CONFIG_MAX_BYTES = 1 << 20,
    PROGRAM_MAX_BYTES = 1 << 30,
    SCRIPT_DEPTH_MAX = 4,
    CACHED_MAX = 256,
    NAMES_MAX = 1 << 16,       /* of a folder that is hashed */
    NOTES_MAX_BYTES = 1 << 20, /* of one segment of an ELF file */
    BLOCK_BYTES = 128 << 10,   /* read at a time */
};

struct cached {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed, status_changed;
    char identity[160];
};

static struct cached cache[CACHED_MAX];
static unsigned ncached;

static const struct cached *
find_cached(const struct stat *about)
{
    for (unsigned i = 0; i < ncached; i++) {
        const struct cached *row = &cache[i];
        if (row->inode == about->st_ino && row->device == about->st_dev &&
            row->bytes == about->st_size &&
            memcmp(&row->changed, &about->st_mtim, sizeof row->changed) == 0 &&
            memcmp(&row->status_changed, &about->st_ctim,
                   sizeof row->status_changed) == 0) {
            return row;
        }
    }
    return NULL;
}

static void
keep(const struct stat *about, const char *identity)
{
    /* Changed this moment: it may change again within the same tick. */
    if (strlen(identity) >= sizeof cache[0].identity ||
        time(NULL) - about->st_ctim.tv_sec < 2) {
        return;
    }
    struct cached *row =
        &cache[ncached < CACHED_MAX ? ncached++
                                    : (unsigned)about->st_ino % CACHED_MAX];
    row->device = about->st_dev;
    row->inode = about->st_ino;
    row->bytes = about->st_size;
    row->changed = about->st_mtim;
    row->status_changed = about->st_ctim;
    strcpy(row->identity, identity);
}

static void
add_hex(struct fy_buffer *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fy_buffer_add_char(out, "0123456789abcdef"[bytes[i] >> 4]);
        fy_buffer_add_char(out, "0123456789abcdef"[bytes[i] & 15]);
    }
}

static int
hash(const void *bytes, size_t n, unsigned char out[32])
{
    return EVP_Digest(bytes, n, out, NULL, EVP_sha256(), NULL) == 1
               ? 0
               : FY_ERR_NOMEM;
}

/* The GNU build-id among the notes at [at, at + n); 0 bytes: none. */
static const unsigned char *
find_build_id(const unsigned char *at, size_t n, size_t *out_bytes)
{
    while (n >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, at, sizeof note);
        uint64_t name = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
        uint64_t text = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
        uint64_t all = sizeof note + name + text;
        if (all > n) {
            return NULL;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(at + sizeof note, "GNU", 4) == 0 && note.n_descsz >= 8 &&
            note.n_descsz <= 64) {
            *out_bytes = note.n_descsz;
            return at + sizeof note + name;
        }
        at += all;
        n -= all;
    }
    return NULL;
}

/* All of [at, at + n). FY_ERR_IO too when there is less: it was cut meanwhile.
 * A file is read, never mapped: it may be the client's to cut. */
static int
read_all(int fd, uint64_t at, void *out, size_t n)
{
    char *to = out;
    while (n) {
        ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return FY_ERR_IO;
        }
        to += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return 0;
}

/* Adds the build-id among the notes of a segment, if there is one. */
static int
add_noted_id(int fd, const Elf64_Phdr *part, struct fy_buffer *out,
             bool *out_found)
{
    unsigned char *notes = malloc(part->p_filesz);
    if (!notes) {
        return FY_ERR_NOMEM;
    }
    size_t id_bytes;
    int status = read_all(fd, part->p_offset, notes, part->p_filesz);
    const unsigned char *id =
        status ? NULL : find_build_id(notes, part->p_filesz, &id_bytes);
    if (id) {
        fy_buffer_add(out, "build-id:");
        add_hex(out, id, id_bytes);
        *out_found = true;
    }
    free(notes);
    return status;
}

/* Adds the build-id of a file of n bytes, if it is ELF and has one. */
static int
add_build_id(int fd, uint64_t n, struct fy_buffer *out, bool *out_found)
{
    Elf64_Ehdr head;
    if (n < sizeof head) {
        return 0;
    }
    int status = read_all(fd, 0, &head, sizeof head);
    if (status || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB ||
        head.e_phentsize != sizeof(Elf64_Phdr)) {
        return status;
    }
    for (unsigned i = 0; !status && !*out_found && i < head.e_phnum; i++) {
        Elf64_Phdr part;
        uint64_t at = head.e_phoff + (uint64_t)i * sizeof part;
        if (at < head.e_phoff || at > n || n - at < sizeof part) {
            return 0;
        }
        status = read_all(fd, at, &part, sizeof part);
        if (!status && part.p_type == PT_NOTE && part.p_offset <= n &&
            part.p_filesz <= n - part.p_offset && part.p_filesz > 0 &&
            part.p_filesz <= NOTES_MAX_BYTES) {
            status = add_noted_id(fd, &part, out, out_found);
        }
    }
    return status;
}

/* SHA-256 of the n bytes of a file. */
static int
hash_bytes_of(int fd, uint64_t n, unsigned char out[32])
{
    char *block = malloc(BLOCK_BYTES);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    int status =
        block && digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1
            ? 0
            : FY_ERR_NOMEM;
    for (uint64_t at = 0; !status && at < n;) {
        size_t bytes = n - at < BLOCK_BYTES ? (size_t)(n - at) : BLOCK_BYTES;
        status = read_all(fd, at, block, bytes);
        if (!status && EVP_DigestUpdate(digest, block, bytes) != 1) {
            status = FY_ERR_NOMEM;
        }
        at += bytes;
    }
    if (!status && EVP_DigestFinal_ex(digest, out, NULL) != 1) {
        status = FY_ERR_NOMEM;
    }
    EVP_MD_CTX_free(digest);
    free(block);
    return status;
}

static int identify(const char *path, unsigned depth, struct fy_buffer *out);

/* The interpreter of a script, behind "#!". */
static int
identify_interpreter(char *line, unsigned depth, struct fy_buffer *out)
{
    char *end = strchr(line, '\n');
    if (!end) {
        return FY_ERR_UNSUPPORTED;
    }
    *end = '\0';
    char *rest = NULL;
    const char *interpreter = strtok_r(line, " \t\r", &rest);
    const char *base = interpreter ? strrchr(interpreter, '/') : NULL;
    if (!base || interpreter[0] != '/' || strcmp(base, "/env") == 0) {
        return FY_ERR_UNSUPPORTED;
    }
    fy_buffer_add_char(out, '+');
    return identify(interpreter, depth + 1, out);
}

static int
identify_bytes(int fd, uint64_t n, unsigned depth, struct fy_buffer *out)
{
    bool found = false;
    int status = add_build_id(fd, n, out, &found);
    if (status || found) {
        return status;
    }
    unsigned char digest[32];
    status = hash_bytes_of(fd, n, digest);
    if (status) {
        return status;
    }
    fy_buffer_add(out, "sha256:");
    add_hex(out, digest, sizeof digest);
    char line[258];
    size_t used = n < sizeof line - 1 ? (size_t)n : sizeof line - 1;
    status = read_all(fd, 0, line, used);
    line[used] = '\0';
    if (!status && n > 2 && memcmp(line, "#!", 2) == 0) {
        return identify_interpreter(line + 2, depth, out);
    }
    return status;
}

static int
identify(const char *path, unsigned depth, struct fy_buffer *out)
{
    struct stat about;
    if (depth > SCRIPT_DEPTH_MAX) {
        return FY_ERR_UNSUPPORTED;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return FY_ERR_IO;
    }
    int status = FY_ERR_IO;
    if (fstat(fd, &about) != 0) {
        goto close_fd;
    }
    if (!S_ISREG(about.st_mode) || about.st_size <= 0 ||
        about.st_size > PROGRAM_MAX_BYTES) {
        status = FY_ERR_UNSUPPORTED;
        goto close_fd;
    }
    const struct cached *row = find_cached(&about);
    if (row) {
        fy_buffer_add(out, row->identity);
        status = 0;
        goto close_fd;
    }
    size_t before = out->used;
    status = identify_bytes(fd, (uint64_t)about.st_size, depth, out);
    /* A script's also depends on another file. */
    if (!status && !out->overflowed && !strchr(out->text + before, '+')) {
        keep(&about, out->text + before);
    }
close_fd:
    close(fd);
    return status;
}

int
fy_tool_identity(const char *path, char *out, size_t capacity)
{
    char text[512];
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, text, sizeof text);
    int status = identify(path, 0, &buffer);
    if (status) {
        return status;
    }
    if (buffer.overflowed || buffer.used >= capacity) {
        return FY_ERR_OVERFLOW;
    }
    memcpy(out, text, buffer.used + 1);
    return 0;
}

struct names {
    char **at;
    size_t n;
};

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names, each with a letter of its type in front. */
static int
read_names(int fd, struct names *names)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return FY_ERR_IO;
    }
    int status = 0;
    struct dirent *entry;
    while (!status && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        struct stat about;
        unsigned type = entry->d_type;
        if (type == DT_UNKNOWN && fstatat(dirfd(dir), entry->d_name, &about,
                                          AT_SYMLINK_NOFOLLOW) == 0) {
            type = IFTODT(about.st_mode);
        }
        char *name = malloc(strlen(entry->d_name) + 2);
        if (!name || names->n == NAMES_MAX) {
            free(name);
            status = name ? FY_ERR_OVERFLOW : FY_ERR_NOMEM;
            break;
        }
        name[0] = (char)('0' + type);
        strcpy(name + 1, entry->d_name);
        names->at[names->n++] = name;
    }
    closedir(dir);
    return status;
}

static int
hash_folder(int fd, const struct stat *about, unsigned char out[32])
{
    struct names names = {.at = malloc(NAMES_MAX * sizeof *names.at)};
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = FY_ERR_NOMEM;
    if (copy < 0) {
        status = FY_ERR_IO;
    } else if (names.at && digest) {
        status = read_names(copy, &names);
    } else {
        close(copy);
    }
    if (!status) {
        qsort(names.at, names.n, sizeof *names.at, compare);
        int64_t seconds = about->st_mtim.tv_sec;
        bool good = EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 &&
                    EVP_DigestUpdate(digest, "folder", 7) == 1 &&
                    EVP_DigestUpdate(digest, &seconds, sizeof seconds) == 1;
        for (size_t i = 0; good && i < names.n; i++) {
            good = EVP_DigestUpdate(digest, names.at[i],
                                    strlen(names.at[i]) + 1) == 1;
        }
        good = good && EVP_DigestFinal_ex(digest, out, NULL) == 1;
        status = good ? 0 : FY_ERR_NOMEM;
    }
    for (size_t i = 0; i < names.n; i++) {
        free(names.at[i]);
    }
    free(names.at);
    EVP_MD_CTX_free(digest);
    return status;
}

static int
hash_file(int fd, unsigned char out[32])
{
    unsigned char *bytes = malloc(CONFIG_MAX_BYTES + 1);
    int status = FY_ERR_NOMEM;
    if (bytes) {
        size_t used = 0;
        ssize_t n = 1;
        while (used <= CONFIG_MAX_BYTES && n > 0) {
            n = read(fd, bytes + used, CONFIG_MAX_BYTES + 1 - used);
            used += n > 0 ? (size_t)n : 0;
        }
        status = n < 0                     ? FY_ERR_IO
                 : used > CONFIG_MAX_BYTES ? FY_ERR_OVERFLOW
                                           : hash(bytes, used, out);
    }
    free(bytes);
    return status;
}

/* A program that another one starts: its identity, which is remembered. */
static int
hash_program(const char *path, unsigned char out[32])
{
    char identity[256];
    int status = fy_tool_identity(path, identity, sizeof identity);
    return status ? status : hash(identity, strlen(identity), out);
}

int
fy_config_hash(const char *path, unsigned char out[32])
{
    unsigned char digest[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            memset(out, 0, 32);
            return 0;
        }
        return FY_ERR_IO;
    }
    struct stat about;
    int status = FY_ERR_IO;
    if (fstat(fd, &about) != 0) {
        status = FY_ERR_IO;
    } else if (S_ISDIR(about.st_mode)) {
        status = hash_folder(fd, &about, digest);
    } else if (S_ISREG(about.st_mode) && (about.st_mode & 0111)) {
        status = hash_program(path, digest);
    } else if (S_ISREG(about.st_mode)) {
        status = hash_file(fd, digest);
    }
    close(fd);
    if (!status) {
        memcpy(out, digest, sizeof digest);
    }
    return status;
}

static const char *
look_up(const char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; *environment; environment++) {
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') {
            return *environment + n + 1;
        }
    }
    return "";
}

bool
fy_locales_exist(const char *const *environment, struct fy_buffer *why)
{
    static const struct {
        const char *name;
        int mask;
    } categories[] = {
        {"LC_CTYPE", LC_CTYPE_MASK},       {"LC_NUMERIC", LC_NUMERIC_MASK},
        {"LC_TIME", LC_TIME_MASK},         {"LC_COLLATE", LC_COLLATE_MASK},
        {"LC_MONETARY", LC_MONETARY_MASK}, {"LC_MESSAGES", LC_MESSAGES_MASK},
    };
    if (*look_up(environment, "LOCPATH")) {
        fy_buffer_add(why, "LOCPATH is set");
        return false;
    }
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        const char *name = look_up(environment, "LC_ALL");
        name = *name ? name : look_up(environment, categories[i].name);
        name = *name ? name : look_up(environment, "LANG");
        if (!*name || strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0) {
            continue;
        }
        locale_t locale = newlocale(categories[i].mask, name, (locale_t)0);
        if (!locale) {
            fy_buffer_add(why, "no locale ");
            fy_buffer_add(why, name);
            return false;
        }
        freelocale(locale);
    }
    return true;
}
