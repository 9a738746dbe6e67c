/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "common/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool
fy_path_search(const char *name, char out[PATH_MAX])
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): tools search in one thread */
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
