/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logins of earlier runs, see logins.h. A file has the milliseconds as text; its name
 * is made of the host's digest, since a host's name may hold any character.
 */
#include "config.h"

#include "proxy/storage/logins.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/wire/process.h"
#include "proxy/wire/transport.h"

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

static void
write_small(const char *path, const char *text, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)!write(fd, text, n);
        (void)close(fd);
    }
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
    if (path_of(prefix, host, path)) {
        write_small(path, text, (size_t)n);
    }
}

/* ---- proofs ------------------------------------------------------------------- */

enum {
    INSTANCE_BYTES = 128,
};

/* Finds the mount's file, and the text of it that stands for the process which serves the
 * mount now; false: there is none. */
static bool
find_proof(const char *prefix, const struct fy_mount *mount,
           char path[PATH_MAX], char instance[INSTANCE_BYTES])
{
    char pid[16], boot[48] = "";
    size_t n = 0;
    struct fy_process process = {0};
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    (void)snprintf(pid, sizeof pid, "%d", (int)mount->pid);
    bool known = mount->pid > 0 && proc >= 0 && fd >= 0 &&
                 fy_process_read(proc, pid, &process) &&
                 !fy_read_most(fd, boot, sizeof boot - 1, &n);
    if (proc >= 0) {
        (void)close(proc);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    boot[strcspn(boot, "\n")] = '\0';
    (void)snprintf(instance, INSTANCE_BYTES, "%s %llu %s", pid,
                   (unsigned long long)process.start, boot);
    return known && path_of(prefix, mount->path, path);
}

bool
fy_proof_known(const char *prefix, const struct fy_mount *mount)
{
    char path[PATH_MAX], instance[INSTANCE_BYTES];
    size_t n = 0;
    char *text = find_proof(prefix, mount, path, instance)
                     ? fy_read_file(path, INSTANCE_BYTES, &n)
                     : NULL;
    bool known =
        text && n == strlen(instance) && memcmp(text, instance, n) == 0;
    free(text);
    return known;
}

void
fy_proof_keep(const char *prefix, const struct fy_mount *mount)
{
    char path[PATH_MAX], instance[INSTANCE_BYTES];
    if (find_proof(prefix, mount, path, instance)) {
        write_small(path, instance, strlen(instance));
    }
}

/* ---- tools -------------------------------------------------------------------- */

#define TOOLS ".tools"

static bool
tools_path(const char *prefix, const char *host, char out[PATH_MAX])
{
    if (!path_of(prefix, host, out) || strlen(out) + sizeof TOOLS > PATH_MAX) {
        return false;
    }
    strcat(out, TOOLS);
    return true;
}

static void
digest_of(const char *identity, char out[16])
{
    unsigned char digest[32];
    char text[3];
    fy_sha256_of(identity, strlen(identity), digest);
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(text, sizeof text, "%02x", digest[i]);
        memcpy(out + 2 * i, text, 2);
    }
}

void
fy_tools_load(const char *prefix, const char *host, struct fy_tools_known *out)
{
    char path[PATH_MAX];
    size_t n = 0;
    out->n = 0;
    char *text = tools_path(prefix, host, path)
                     ? fy_read_file(path, 64 << 10, &n)
                     : NULL;
    /* A line is a digest, a space and a letter. */
    for (size_t at = 0; text && at + 18 < n + 1 && out->n < FY_TOOLS_MAX;
         at += 19) {
        char letter = text[at + 17];
        if (strspn(text + at, "0123456789abcdef") != 16 ||
            text[at + 16] != ' ' || (letter != 's' && letter != 'c')) {
            break;
        }
        struct fy_tool_row *row = &out->rows[out->n++];
        memcpy(row->digest, text + at, sizeof row->digest);
        row->place = letter == 's' ? FY_TOOL_SAME : FY_TOOL_CARRIED;
    }
    free(text);
}

static unsigned
find_row(const struct fy_tools_known *known, const char digest[16])
{
    unsigned i = 0;
    while (i < known->n && memcmp(known->rows[i].digest, digest, 16) != 0) {
        i++;
    }
    return i;
}

enum fy_tool_place
fy_tools_find(const struct fy_tools_known *known, const char *identity)
{
    char digest[16];
    digest_of(identity, digest);
    unsigned i = find_row(known, digest);
    return i < known->n ? (enum fy_tool_place)known->rows[i].place
                        : FY_TOOL_UNKNOWN;
}

/* Writes the file anew; another run's rows of this moment are lost and found again. */
static void
write_tools(const char *prefix, const char *host,
            const struct fy_tools_known *known)
{
    char path[PATH_MAX], next[PATH_MAX + 16], line[20];
    if (!tools_path(prefix, host, path)) {
        return;
    }
    (void)snprintf(next, sizeof next, "%s.%d", path, (int)getpid());
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int status = fd < 0 ? FY_ERR_IO : 0;
    for (unsigned i = 0; !status && i < known->n; i++) {
        (void)snprintf(line, sizeof line, "%.16s %c\n", known->rows[i].digest,
                       known->rows[i].place == FY_TOOL_SAME ? 's' : 'c');
        status = fy_write_whole(fd, line, 19);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (status || rename(next, path) != 0) {
        (void)unlink(next);
    }
}

void
fy_tools_keep(const char *prefix, const char *host,
              struct fy_tools_known *known, const char *identity,
              enum fy_tool_place place)
{
    char digest[16];
    digest_of(identity, digest);
    unsigned i = find_row(known, digest);
    if (i < known->n && known->rows[i].place == (char)place) {
        return;
    }
    if (place == FY_TOOL_UNKNOWN) {
        if (i == known->n) {
            return;
        }
        known->rows[i] = known->rows[--known->n];
    } else {
        if (i == FY_TOOLS_MAX) {
            i = 0; /* any: it is asked about again */
        }
        known->n += i == known->n;
        memcpy(known->rows[i].digest, digest, sizeof digest);
        known->rows[i].place = (char)place;
    }
    write_tools(prefix, host, known);
}
