/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closures, see the header.
 */
#include "config.h"

#include "proxy/storage/closure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/storage/needs.h"
#include "proxy/storage/tools.h"

enum {
    FOLDERS_MAX = 16, /* deep */
};

static bool
has(const struct fy_closure *closure, const char *path)
{
    for (unsigned i = 0; i < closure->n; i++) {
        if (strcmp(closure->files[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the file open as `fd'. */
static int
add(struct fy_closure *closure, const char *path, int fd,
    const struct stat *about)
{
    if (closure->n == FY_CLOSURE_MAX ||
        (uint64_t)about->st_size > FY_CLOSURE_MAX_BYTES - closure->bytes) {
        return FY_ERR_OVERFLOW;
    }
    struct fy_closure_file *file = &closure->files[closure->n];
    int status = fy_tool_hash(fd, about, file->sha256);
    if (status) {
        return status;
    }
    file->path = strdup(path);
    if (!file->path) {
        return FY_ERR_NOMEM;
    }
    file->bytes = (uint64_t)about->st_size;
    file->executes = (about->st_mode & 0111) != 0;
    uint32_t kernel = fy_tool_kernel(fd, about);
    closure->kernel = kernel > closure->kernel ? kernel : closure->kernel;
    closure->bytes += file->bytes;
    closure->n++;
    return 0;
}

/* Opens a regular file; -1 with errno. */
static int
open_regular(const char *path, struct stat *about)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, about) != 0 || !S_ISREG(about->st_mode))) {
        (void)close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

/* Adds the files below the folder, whose path ends in a slash. */
static int
add_folder(struct fy_closure *closure, const char *path, unsigned depth)
{
    char below[4096];
    struct stat about;
    struct dirent *entry;
    int status = 0;
    DIR *dir = opendir(path);
    while (dir && !status && (entry = readdir(dir))) {
        int n = snprintf(below, sizeof below - 1, "%s%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (n >= (int)sizeof below - 1 || depth == FOLDERS_MAX) {
            status = FY_ERR_OVERFLOW;
        } else if (stat(below, &about) == 0 && S_ISDIR(about.st_mode)) {
            strcpy(below + n, "/");
            status = add_folder(closure, below, depth + 1);
        } else {
            status = fy_closure_add_file(closure, below);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return status;
}

int
fy_closure_add_file(struct fy_closure *closure, const char *path)
{
    struct stat about;
    if (path[strlen(path) - 1] == '/') {
        return add_folder(closure, path, 0);
    }
    if (has(closure, path)) {
        return 0;
    }
    int fd = open_regular(path, &about);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? 0 : FY_ERR_IO;
    }
    int status = add(closure, path, fd, &about);
    (void)close(fd);
    return status;
}

/* Returns true if every linker finds the library without /etc/ld.so.cache. */
static bool
is_found_by_default(const char *path)
{
    static const char *const folders[] = {"/lib/x86_64-linux-gnu",
                                          "/usr/lib/x86_64-linux-gnu",
                                          "/lib",
                                          "/usr/lib",
                                          "/lib64",
                                          "/usr/lib64"};
    size_t n = (size_t)(strrchr(path, '/') - path);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (strlen(folders[i]) == n && strncmp(path, folders[i], n) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the libraries; the base version instead of a version for some processors. */
static int
add_needs(struct fy_closure *closure, const struct fy_needs *needs,
          struct fy_buffer *why)
{
    static const char levels[] = "/glibc-hwcaps/";
    bool elsewhere = false;
    int status = 0;
    for (unsigned i = 0; !status && i < needs->n; i++) {
        char base[4096];
        const char *path = needs->rows[i].path;
        const char *level = strstr(path, levels);
        if (level) {
            const char *rest = strchr(level + sizeof levels - 1, '/');
            int n = snprintf(base, sizeof base, "%.*s%s", (int)(level - path),
                             path, rest ? rest : "");
            path = n > 0 && n < (int)sizeof base ? base : path;
        }
        if (access(path, R_OK) != 0) {
            fy_buffer_add(why, path);
            fy_buffer_add(why, " cannot be read");
            return FY_ERR_UNSUPPORTED;
        }
        elsewhere = elsewhere || !is_found_by_default(path);
        status = fy_closure_add_file(closure, path);
    }
    return !status && elsewhere
               ? fy_closure_add_file(closure, "/etc/ld.so.cache")
               : status;
}

int
fy_closure_add_program(struct fy_closure *closure, const char *path,
                       bool loads_known, struct fy_buffer *why)
{
    struct stat about;
    struct fy_needs needs = {.known = true};
    char head[2] = "";
    if (has(closure, path)) {
        return 0;
    }
    int fd = open_regular(path, &about);
    if (fd < 0) {
        return FY_ERR_IO;
    }
    int status = FY_ERR_UNSUPPORTED;
    if (about.st_mode & (S_ISUID | S_ISGID)) {
        fy_buffer_add(why, path);
        fy_buffer_add(why, " has rights of its own");
        goto close_fd;
    }
    if (pread(fd, head, 2, 0) == 2 && memcmp(head, "#!", 2) == 0) {
        fy_buffer_add(why, path);
        fy_buffer_add(why, " is a script");
        goto close_fd;
    }
    status = add(closure, path, fd, &about);
    if (!status) {
        status = fy_needs_find(path, fd, NULL, false, &needs);
    }
    if (!status && !needs.known) {
        fy_buffer_add(why, "the libraries of ");
        fy_buffer_add(why, path);
        fy_buffer_add(why, " are not known");
        status = FY_ERR_UNSUPPORTED;
    }
    if (!status && !loads_known && fy_needs_more(path, fd, false, &needs)) {
        fy_buffer_add(why, path);
        fy_buffer_add(why, " loads more by names");
        status = FY_ERR_UNSUPPORTED;
    }
    if (!status) {
        status = add_needs(closure, &needs, why);
    }
    fy_needs_clear(&needs);
close_fd:
    (void)close(fd);
    return status;
}

void
fy_closure_key(const struct fy_closure *closure, char out[FY_CLOSURE_KEY_BYTES])
{
    struct fy_sha256 hash;
    unsigned char digest[32];
    fy_sha256_start(&hash);
    for (unsigned i = 0; i < closure->n; i++) {
        const struct fy_closure_file *file = &closure->files[i];
        fy_sha256_add(&hash, file->path, strlen(file->path) + 1);
        fy_sha256_add(&hash, file->sha256, sizeof file->sha256);
    }
    fy_sha256_end(&hash, digest);
    int n = snprintf(out, FY_CLOSURE_KEY_BYTES, "closure:");
    for (size_t i = 0; i < sizeof digest; i++) {
        n += snprintf(out + n, (size_t)(FY_CLOSURE_KEY_BYTES - n), "%02x",
                      digest[i]);
    }
}

void
fy_closure_free(struct fy_closure *closure)
{
    if (!closure || closure->users-- > 0) {
        return;
    }
    for (unsigned i = 0; i < closure->n; i++) {
        free(closure->files[i].path);
    }
    free(closure);
}

bool
fy_names_are_of_files(void)
{
    /* systemd's are of services that it started with users of their own. */
    static const char *const services[] = {"files", "systemd", "compat"};
    size_t n;
    char *text = fy_read_file("/etc/nsswitch.conf", 64 << 10, &n), *state;
    bool plain = true;
    for (char *line = text ? strtok_r(text, "\n", &state) : NULL; line;
         line = strtok_r(NULL, "\n", &state)) {
        char *word, *words;
        line += strspn(line, " \t");
        if (strncmp(line, "passwd:", 7) != 0 &&
            strncmp(line, "group:", 6) != 0) {
            continue;
        }
        (void)strtok_r(line, " \t", &words);
        while ((word = strtok_r(NULL, " \t", &words))) {
            bool known = word[0] == '[';
            for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
                known = known || strcmp(word, services[i]) == 0;
            }
            plain = plain && known;
        }
    }
    free(text);
    return plain;
}
