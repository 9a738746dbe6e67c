/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logins of earlier runs, see logins.h. A file has the milliseconds as text; its name
 * is made of the host's digest, since a host's name may hold any character.
 */
#include "config.h"

#include "proxy/client/logins.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sha256.h"
#include "common/whole.h"

enum {
    DIGEST_BYTES = 16,
    LONGEST_MS = 600 * 1000,
};

static bool
path_of(const char *prefix, const char *host, char out[PATH_MAX])
{
    unsigned char digest[32];
    char name[2 * DIGEST_BYTES + 1];
    if (!prefix) {
        return false;
    }
    fy_sha256_of(host, strlen(host), digest);
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        (void)snprintf(name + 2 * i, 3, "%02x", digest[i]);
    }
    int n = snprintf(out, PATH_MAX, "%s%s", prefix, name);
    return n > 0 && n < PATH_MAX;
}

double
fy_login_last(const char *prefix, const char *host)
{
    char path[PATH_MAX], text[16];
    size_t n = 0;
    int fd =
        path_of(prefix, host, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return 0;
    }
    if (fy_read_most(fd, text, sizeof text - 1, &n)) {
        n = 0;
    }
    (void)close(fd);
    text[n] = '\0';
    unsigned long ms = strtoul(text, NULL, 10);
    return ms <= LONGEST_MS ? (double)ms / 1e3 : 0;
}

void
fy_login_keep(const char *prefix, const char *host, double seconds)
{
    char path[PATH_MAX], text[16];
    double ms = seconds * 1e3;
    int n = snprintf(text, sizeof text, "%lu",
                     ms < 1            ? 1
                     : ms > LONGEST_MS ? (unsigned long)LONGEST_MS
                                       : (unsigned long)ms);
    int fd = path_of(prefix, host, path)
                 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                 : -1;
    if (fd >= 0) {
        (void)!write(fd, text, (size_t)n);
        (void)close(fd);
    }
}
