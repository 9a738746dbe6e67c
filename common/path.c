/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
fy_path_search(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    path = strchr(name, '/') ? "" : path ? path : "/bin:/usr/bin";
    if (strchr(name, '/') && snprintf(out, PATH_MAX, "%s", name) < PATH_MAX &&
        access(out, X_OK) == 0) {
        return true;
    }
    while (*path) {
        size_t n = strcspn(path, ":");
        int length = snprintf(out, PATH_MAX, "%.*s%s%s", (int)n, path,
                              n ? "/" : "./", name);
        if (length > 0 && length < PATH_MAX && access(out, X_OK) == 0) {
            return true;
        }
        path += n + (path[n] == ':');
    }
    out[0] = '\0';
    errno = ENOENT;
    return false;
}

bool
fy_path_is_beneath(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    while (n > 0 && folder[n - 1] == '/') {
        n--;
    }
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

int
fy_path_join(const char *base, const char *text, char out[PATH_MAX])
{
    size_t used = 0;
    bool named = text[0] == '/'; /* a name was passed: ".." is uncertain */
    if (text[0] != '/') {
        used = strlen(base);
        if (used >= PATH_MAX || base[0] != '/') {
            return FY_ERR_INVALID;
        }
        memcpy(out, base, used);
        while (used > 0 && out[used - 1] == '/') {
            used--;
        }
    }
    for (const char *at = text; *at != '\0';) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') {
            if (named) {
                return FY_ERR_INVALID;
            }
            while (used > 0 && out[--used] != '/') {
            }
        } else if (n > 0 && !(n == 1 && at[0] == '.')) {
            if (n + 2 > PATH_MAX - used) {
                return FY_ERR_OVERFLOW;
            }
            out[used++] = '/';
            memcpy(out + used, at, n);
            used += n;
            named = true;
        }
        at += n;
        at += *at == '/';
    }
    if (used == 0) {
        out[used++] = '/';
    }
    out[used] = '\0';
    return 0;
}

DIR *
fy_folder_open(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !folder) {
        int error = errno;
        (void)close(fd);
        errno = error;
    }
    return folder;
}

void
fy_path_unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' &&
            from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 |
                         (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

bool
fy_path_plain(const char *path, char out[PATH_MAX])
{
    size_t used = 0;
    if (*path != '/' || strlen(path) >= PATH_MAX) {
        return false;
    }
    while (*path) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0) {
            return false;
        }
        if (n > 1 || (n == 1 && *path != '.')) {
            out[used++] = '/';
            memcpy(out + used, path, n);
            used += n;
        }
        path += n;
    }
    out[used] = '\0';
    return used > 0;
}
