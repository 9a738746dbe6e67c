/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two hosts have the same program. Refuses scripts that look up their
 * interpreter in PATH: nobody knows what would run.
 * The cache of identities is this process's; any thread. Long because all questions
 * about a program's file share that cache.
 */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/hash.h"
#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/storage/needs.h"
#include "proxy/storage/tools.h"

enum {
    PROGRAM_MAX_BYTES = 1 << 30,
    SCRIPT_DEPTH_MAX = 4,
    CACHED_MAX = 1024,
    NOTES_MAX_BYTES = 1 << 20,     /* of one segment of an ELF file */
    BLOCK_BYTES = 128 << 10,       /* read at a time */
    SETTINGS_MAX_BYTES = 64 << 20, /* of a program that names its settings */
};

/* What was found out about a file. The witnesses say whether it still holds. */
struct cached {
    dev_t device;
    ino_t inode;
    off_t bytes;
    struct timespec changed, status_changed;
    bool bare; /* without what it loads */
    char *
        library_path; /* that it was asked with; NULL: none; or settings; "": bytes */
    char *witnesses; /* paths, each with its NUL, then another one; or NULL */
    uint64_t stamp;  /* of them */
    char identity[240];
};

static struct cached cache[CACHED_MAX];
static unsigned ncached;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

/* Of the files as they are now. *out_young: one has just been changed, and may
 * be again within the same tick. */
static uint64_t
stamp_of(const char *witnesses, bool *out_young)
{
    uint64_t hash = FY_HASH_START;
    *out_young = false;
    for (const char *at = witnesses; at && *at; at += strlen(at) + 1) {
        struct stat about = {0};
        if (stat(at, &about) != 0) {
            hash = fy_hash_add(hash, (uint64_t)errno);
            continue;
        }
        hash = fy_hash_add(hash, about.st_dev);
        hash = fy_hash_add(hash, about.st_ino);
        hash = fy_hash_add(hash, (uint64_t)about.st_size);
        hash = fy_hash_add(hash, (uint64_t)about.st_mtim.tv_sec);
        hash = fy_hash_add(hash, (uint64_t)about.st_mtim.tv_nsec);
        hash = fy_hash_add(hash, (uint64_t)about.st_ctim.tv_sec);
        hash = fy_hash_add(hash, (uint64_t)about.st_ctim.tv_nsec);
        *out_young = *out_young || time(NULL) - about.st_ctim.tv_sec < 2;
    }
    return hash;
}

static bool
is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool
is_of(const struct cached *row, const struct stat *about, bool bare,
      const char *library_path)
{
    return row->inode == about->st_ino && row->device == about->st_dev &&
           row->bytes == about->st_size && row->bare == bare &&
           memcmp(&row->changed, &about->st_mtim, sizeof row->changed) == 0 &&
           memcmp(&row->status_changed, &about->st_ctim,
                  sizeof row->status_changed) == 0 &&
           is_same_text(row->library_path, library_path);
}

static size_t
size_of_list(const char *list)
{
    const char *at = list;
    while (*at) {
        at += strlen(at) + 1;
    }
    return (size_t)(at - list) + 1;
}

/* Adds what is known of the file. The lock is not held while other files are
 * looked at, which may be where nobody answers. */
static bool
find_cached(const struct stat *about, bool bare, const char *library_path,
            struct fy_buffer *out)
{
    char *witnesses = NULL, identity[sizeof cache[0].identity];
    uint64_t stamp = 0;
    bool found = false, young;
    (void)pthread_mutex_lock(&cache_lock);
    for (unsigned i = 0; !found && i < ncached; i++) {
        const struct cached *row = &cache[i];
        if (!is_of(row, about, bare, library_path)) {
            continue;
        }
        found = true;
        strcpy(identity, row->identity);
        stamp = row->stamp;
        if (row->witnesses) {
            size_t n = size_of_list(row->witnesses);
            witnesses = malloc(n);
            found = witnesses;
            if (found) {
                memcpy(witnesses, row->witnesses, n);
            }
        }
    }
    (void)pthread_mutex_unlock(&cache_lock);
    found = found && (!witnesses || stamp_of(witnesses, &young) == stamp);
    free(witnesses);
    if (found) {
        fy_buffer_add(out, identity);
    }
    return found;
}

/* Takes `witnesses', with the stamp of before the file was looked at. */
static void
keep(const struct stat *about, bool bare, const char *library_path,
     char *witnesses, uint64_t stamp, const char *identity)
{
    char *copy = library_path ? strdup(library_path) : NULL;
    /* Changed this moment: it may change again within the same tick. */
    if (strlen(identity) >= sizeof cache[0].identity ||
        time(NULL) - about->st_ctim.tv_sec < 2 || (library_path && !copy)) {
        free(copy);
        free(witnesses);
        return;
    }
    (void)pthread_mutex_lock(&cache_lock);
    unsigned at = 0;
    while (at < ncached && !is_of(&cache[at], about, bare, library_path)) {
        at++;
    }
    if (at == CACHED_MAX) {
        at = (unsigned)about->st_ino % CACHED_MAX;
    }
    ncached = at == ncached ? ncached + 1 : ncached;
    struct cached *row = &cache[at];
    free(row->library_path);
    free(row->witnesses);
    *row = (struct cached){.device = about->st_dev,
                           .inode = about->st_ino,
                           .bytes = about->st_size,
                           .changed = about->st_mtim,
                           .status_changed = about->st_ctim,
                           .bare = bare,
                           .library_path = copy,
                           .witnesses = witnesses,
                           .stamp = stamp};
    strcpy(row->identity, identity);
    (void)pthread_mutex_unlock(&cache_lock);
}

static void
add_hex(struct fy_buffer *out, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fy_buffer_add_char(out, "0123456789abcdef"[bytes[i] >> 4]);
        fy_buffer_add_char(out, "0123456789abcdef"[bytes[i] & 15]);
    }
}

enum {
    NOTE_MAX_BYTES = 64,
};

/* A note of GNU's: the build-id, or the oldest kernel. */
struct note {
    unsigned type;
    size_t least_bytes, bytes; /* bytes 0: not found */
    unsigned char text[NOTE_MAX_BYTES];
};

/* Looks for the note at [at, at + n). */
static void
find_note(const unsigned char *at, size_t n, struct note *out)
{
    while (n >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, at, sizeof note);
        uint64_t name = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
        uint64_t text = ((uint64_t)note.n_descsz + 3) & ~UINT64_C(3);
        uint64_t all = sizeof note + name + text;
        if (all > n) {
            return;
        }
        if (note.n_type == out->type && note.n_namesz == 4 &&
            memcmp(at + sizeof note, "GNU", 4) == 0 &&
            note.n_descsz >= out->least_bytes &&
            note.n_descsz <= NOTE_MAX_BYTES) {
            out->bytes = note.n_descsz;
            memcpy(out->text, at + sizeof note + name, out->bytes);
            return;
        }
        at += all;
        n -= all;
    }
}

/* Looks for the note in a segment. */
static int
read_notes(int fd, const Elf64_Phdr *part, struct note *out)
{
    unsigned char *notes = malloc(part->p_filesz);
    if (!notes) {
        return FY_ERR_NOMEM;
    }
    int status = fy_read_whole_at(fd, part->p_offset, notes, part->p_filesz);
    if (!status) {
        find_note(notes, part->p_filesz, out);
    }
    free(notes);
    return status;
}

/* Looks for the note in a file of n bytes, if that is ELF. */
static int
read_note(int fd, uint64_t n, struct note *out)
{
    Elf64_Ehdr head;
    if (n < sizeof head) {
        return 0;
    }
    int status = fy_read_whole_at(fd, 0, &head, sizeof head);
    if (status || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB ||
        head.e_phentsize != sizeof(Elf64_Phdr)) {
        return status;
    }
    for (unsigned i = 0; !status && !out->bytes && i < head.e_phnum; i++) {
        Elf64_Phdr part;
        uint64_t at = head.e_phoff + (uint64_t)i * sizeof part;
        if (at < head.e_phoff || at > n || n - at < sizeof part) {
            return 0;
        }
        status = fy_read_whole_at(fd, at, &part, sizeof part);
        if (!status && part.p_type == PT_NOTE && part.p_offset <= n &&
            part.p_filesz <= n - part.p_offset && part.p_filesz > 0 &&
            part.p_filesz <= NOTES_MAX_BYTES) {
            status = read_notes(fd, &part, out);
        }
    }
    return status;
}

uint32_t
fy_tool_kernel(int fd, const struct stat *about)
{
    struct note note = {.type = NT_GNU_ABI_TAG, .least_bytes = 16};
    uint32_t words[4];
    if (read_note(fd, (uint64_t)about->st_size, &note) || !note.bytes) {
        return 0;
    }
    memcpy(words, note.text, sizeof words);
    return words[0] != ELF_NOTE_OS_LINUX
               ? 0
               : (words[1] & 0xff) << 16 | (words[2] & 0xff) << 8 |
                     (words[3] & 0xff);
}

/* SHA-256 of the n bytes of a file. */
static int
hash_bytes_of(int fd, uint64_t n, unsigned char out[32])
{
    char *block = malloc(BLOCK_BYTES);
    struct fy_sha256 digest;
    int status = block ? 0 : FY_ERR_NOMEM;
    fy_sha256_start(&digest);
    for (uint64_t at = 0; !status && at < n;) {
        size_t bytes = n - at < BLOCK_BYTES ? (size_t)(n - at) : BLOCK_BYTES;
        status = fy_read_whole_at(fd, at, block, bytes);
        if (!status) {
            fy_sha256_add(&digest, block, bytes);
        }
        at += bytes;
    }
    if (!status) {
        fy_sha256_end(&digest, out);
    }
    free(block);
    return status;
}

/* How a file is to be identified. */
struct wish {
    bool bare;  /* a library, of which others are named beside it */
    bool whole; /* by all of its bytes */
    const char *library_path; /* NULL: none */
    bool loads_paths;         /* the program itself: see needs.h */
    unsigned depth;
};

static int identify(const char *path, const struct wish *wish,
                    struct fy_buffer *out);

/* The interpreter of a script, behind "#!". */
static int
identify_interpreter(char *line, const struct wish *wish, struct fy_buffer *out)
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
    struct wish deeper = *wish;
    deeper.depth++;
    fy_buffer_add_char(out, '+');
    return identify(interpreter, &deeper, out);
}

static int
identify_bytes(int fd, uint64_t n, const struct wish *wish,
               struct fy_buffer *out)
{
    struct note id = {.type = NT_GNU_BUILD_ID, .least_bytes = 8};
    int status = wish->whole ? 0 : read_note(fd, n, &id);
    bool found = id.bytes > 0;
    if (found) {
        fy_buffer_add(out, "build-id:");
        add_hex(out, id.text, id.bytes);
    }
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
    status = fy_read_whole_at(fd, 0, line, used);
    line[used] = '\0';
    if (!status && !wish->bare && n > 2 && memcmp(line, "#!", 2) == 0) {
        return identify_interpreter(line + 2, wish, out);
    }
    return status;
}

/* The folders of a search path may hold more that is looked into: what changes
 * there is not seen by looking at the folder. */
static bool
has_inner_folders(const char *folder, size_t n)
{
    static const char *const inner[] = {"glibc-hwcaps", "tls",      "haswell",
                                        "xeon_phi",     "avx512_1", "x86_64"};
    char path[PATH_MAX];
    struct stat about;
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        int length =
            snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, inner[i]);
        if (length < 0 || length >= PATH_MAX || stat(path, &about) == 0 ||
            errno != ENOENT) {
            return true;
        }
    }
    return false;
}

/* The files whose change may change what is loaded; NULL: not all are known, or
 * no memory. */
static char *
list_witnesses(const struct fy_needs *needs, const char *library_path)
{
    static const char system[] = "/etc/ld.so.cache\0/etc/ld.so.preload";
    size_t bytes = sizeof system + 1;
    bytes += library_path ? strlen(library_path) + 1 : 0;
    for (unsigned i = 0; i < needs->n; i++) {
        bytes += strlen(needs->rows[i].path) + 1;
    }
    char *list = malloc(bytes), *to = list;
    if (!list) {
        return NULL;
    }
    memcpy(to, system, sizeof system);
    to += sizeof system;
    for (const char *at = library_path; at && *at;) {
        size_t n = strcspn(at, ":");
        if (has_inner_folders(at, n)) {
            free(list);
            return NULL;
        }
        memcpy(to, at, n);
        to[n] = '\0';
        to += n + (n > 0);
        at += n + (at[n] == ':');
    }
    for (unsigned i = 0; i < needs->n; i++) {
        to = stpcpy(to, needs->rows[i].path) + 1;
    }
    *to = '\0';
    return list;
}

/* Of the system's files a build-id says all; of others' it may be a copy's that
 * was changed. */
static bool
is_of_system(const char *path)
{
    static const char *const folders[] = {"/lib", "/usr/lib", "/usr/local/lib",
                                          "/nix/store/", "/gnu/store/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (strncmp(path, folders[i], strlen(folders[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds a digest of what the program loads, in the linker's order. */
static int
add_needs(const struct fy_needs *needs, struct fy_buffer *out)
{
    unsigned char digest[32];
    struct fy_sha256 sum;
    int status = 0;
    fy_sha256_start(&sum);
    for (unsigned i = 0; !status && i < needs->n; i++) {
        char text[240];
        struct fy_buffer each;
        const struct fy_need *need = &needs->rows[i];
        const struct wish bare = {.bare = true,
                                  .whole = !is_of_system(need->path)};
        fy_buffer_start(&each, text, sizeof text);
        status = identify(need->path, &bare, &each);
        if (!status) {
            fy_sha256_add(&sum, need->name, strlen(need->name) + 1);
            fy_sha256_add(&sum, text, each.used + 1);
        }
    }
    if (!status) {
        fy_sha256_end(&sum, digest);
        fy_buffer_add(out, "/libraries:");
        add_hex(out, digest, sizeof digest / 2);
    }
    return status;
}

/* Adds all of an open file's identity, and keeps it. */
static int
identify_open(int fd, const struct stat *about, const struct wish *wish,
              struct fy_buffer *out)
{
    char link[40], path[PATH_MAX];
    struct fy_needs needs = {.known = true};
    char *witnesses = NULL;
    uint64_t stamp = 0;
    bool young = false;
    size_t before = out->used;
    int status = identify_bytes(fd, (uint64_t)about->st_size, wish, out);
    if (status || out->overflowed) {
        return status;
    }
    if (!wish->bare) {
        /* The linker knows the program by its true path, too. */
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        status = fy_needs_find(path, fd, wish->library_path, wish->loads_paths,
                               &needs);
        if (status) {
            return status;
        }
        if (needs.n > 0) {
            witnesses = list_witnesses(&needs, wish->library_path);
            stamp = stamp_of(witnesses, &young);
            status = add_needs(&needs, out);
        } else if (!needs.known) {
            fy_buffer_add(out, "/libraries:unknown");
        }
    }
    bool lasts = witnesses || needs.n == 0;
    fy_needs_clear(&needs);
    /* A script's also depends on another file. */
    if (!status && !wish->whole && !out->overflowed && lasts && !young &&
        !strchr(out->text + before, '+')) {
        keep(about, wish->bare, wish->library_path, witnesses, stamp,
             out->text + before);
    } else {
        free(witnesses);
    }
    return status;
}

static int
identify(const char *path, const struct wish *wish, struct fy_buffer *out)
{
    struct stat about;
    if (wish->depth > SCRIPT_DEPTH_MAX) {
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
    status =
        !wish->whole && find_cached(&about, wish->bare, wish->library_path, out)
            ? 0
            : identify_open(fd, &about, wish, out);
close_fd:
    close(fd);
    return status;
}

int
fy_tool_identity_with(const char *path, const char *library_path,
                      bool loads_paths, char *out, size_t capacity)
{
    char text[512];
    struct fy_buffer buffer;
    const struct wish wish = {.library_path = library_path,
                              .loads_paths = loads_paths};
    fy_buffer_start(&buffer, text, sizeof text);
    int status = identify(path, &wish, &buffer);
    if (status) {
        return status;
    }
    if (buffer.overflowed || buffer.used >= capacity) {
        return FY_ERR_OVERFLOW;
    }
    memcpy(out, text, buffer.used + 1);
    return 0;
}

int
fy_tool_identity(const char *path, char *out, size_t capacity)
{
    return fy_tool_identity_with(path, NULL, false, out, capacity);
}

int
fy_tool_hash(int fd, const struct stat *about, unsigned char out[32])
{
    char text[80] = "";
    struct fy_buffer known;
    fy_buffer_start(&known, text, sizeof text);
    if (find_cached(about, true, "", &known)) {
        for (size_t i = 0; i < 32; i++) {
            (void)sscanf(text + 2 * i, "%2hhx", &out[i]);
        }
        return 0;
    }
    int status = hash_bytes_of(fd, (uint64_t)about->st_size, out);
    if (!status) {
        add_hex(&known, out, 32);
        keep(about, true, "", NULL, 0, text);
    }
    return status;
}

bool
fy_tool_own_settings(const char *program, const char *path, char out[PATH_MAX])
{
    char real[PATH_MAX];
    if (strncmp(path, "/etc/", 5) != 0 || !realpath(program, real)) {
        return false;
    }
    for (int i = 0; i < 2; i++) { /* its name, and its folder's */
        char *slash = strrchr(real, '/');
        if (!slash ||
            (i && strcmp(slash, "/bin") != 0 && strcmp(slash, "/sbin") != 0)) {
            return false;
        }
        *slash = '\0';
    }
    int n = snprintf(out, PATH_MAX, "%s%s", real, path);
    return *real && strcmp(real, "/usr") != 0 && n > 0 && n < PATH_MAX;
}

/* Whether a string constant is among the bytes of a program. */
static bool
holds(const char *bytes, size_t n, const char *text)
{
    size_t length = strlen(text) + 1;
    for (const char *at = bytes;
         (at = memmem(at, n - (size_t)(at - bytes), text, length)); at++) {
        if (at > bytes && at[-1] == '\0') {
            return true;
        }
    }
    return false;
}

bool
fy_tool_names_settings(const char *program, const char *path)
{
    char own[PATH_MAX], answer[2] = "";
    struct stat about;
    struct fy_buffer known;
    int fd = open(program, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    fy_buffer_start(&known, answer, sizeof answer);
    if (find_cached(&about, true, path, &known)) {
        close(fd);
        return *answer == 'y';
    }
    size_t n = 0;
    char *bytes = fy_read_open(fd, SETTINGS_MAX_BYTES, &n);
    bool named = bytes && holds(bytes, n, path);
    if (bytes && !named && fy_tool_own_settings(program, path, own)) {
        own[strlen(own) - strlen(path)] = '\0';
        named = holds(bytes, n, own) && holds(bytes, n, path + 1);
    }
    free(bytes);
    keep(&about, true, path, NULL, 0, named ? "y" : "n");
    return named;
}
