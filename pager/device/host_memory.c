/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads /proc/meminfo and the memory files of the control groups that this
 * process is in. Page cache counts as available in both.
 */
#include "config.h"

#include "pager/device/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the versions of control groups say it. */
static const struct version {
    const char *key;  /* before the group's path in /proc/self/cgroup */
    const char *root; /* where its groups are mounted */
    const char *limit, *current;
    const char *cache[2]; /* in its memory.stat */
} versions[] = {
    {"0::",
     "/sys/fs/cgroup",
     "/memory.max",
     "/memory.current",
     {"inactive_file", "active_file"}},
    {":memory:",
     "/sys/fs/cgroup/memory",
     "/memory.limit_in_bytes",
     "/memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file"}},
};

/* A small file as text, cut at the room there is. */
static bool
read_text(const char *path, char *text, size_t capacity)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    while (used < capacity - 1) {
        long got = syscall(SYS_read, fd, text + used, capacity - 1 - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    (void)syscall(SYS_close, fd);
    text[used] = '\0';
    return used > 0;
}

static bool
read_number(const char *p, uint64_t *out)
{
    while (*p == ' ' || *p == '\t') {
        p++;
    }
    if (*p < '0' || *p > '9') {
        return false;
    }
    uint64_t value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

uint64_t
fy_number_after(const char *text, const char *name, uint64_t otherwise)
{
    size_t length = strlen(name);
    uint64_t value;
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (strncmp(p, name, length) == 0 &&
            (p[length] == ' ' || p[length] == '\t') &&
            read_number(p + length, &value)) {
            return value;
        }
    }
    return otherwise;
}

/* One file of the group whose folder is path[0 .. length). */
static bool
read_group_file(char *path, size_t length, size_t capacity, const char *name,
                char *text, size_t text_capacity)
{
    size_t bytes = strlen(name) + 1;
    if (length + bytes > capacity) {
        return false;
    }
    memcpy(path + length, name, bytes);
    bool read = read_text(path, text, text_capacity);
    path[length] = '\0';
    return read;
}

/* Memory that one group leaves; UINT64_MAX when it has no limit. */
static uint64_t
group_left(const struct version *v, char *path, size_t length, size_t capacity)
{
    char text[4096];
    uint64_t limit, current;
    if (!read_group_file(path, length, capacity, v->limit, text, sizeof text) ||
        !read_number(text, &limit)) {
        return UINT64_MAX;
    }
    if (!read_group_file(path, length, capacity, v->current, text,
                         sizeof text) ||
        !read_number(text, &current)) {
        return UINT64_MAX;
    }
    if (read_group_file(path, length, capacity, "/memory.stat", text,
                        sizeof text)) {
        uint64_t cache = fy_number_after(text, v->cache[0], 0) +
                         fy_number_after(text, v->cache[1], 0);
        current -= cache < current ? cache : current;
    }
    return limit > current ? limit - current : 0;
}

/* The least that any group from this process's up to the root leaves. */
static uint64_t
groups_left(const struct version *v, const char *groups)
{
    char path[2048];
    uint64_t least = UINT64_MAX;
    size_t root = strlen(v->root), length = root;
    memcpy(path, v->root, root + 1);
    const char *p = strstr(groups, v->key);
    if (p) {
        p += strlen(v->key);
        size_t bytes = strcspn(p, "\n");
        if (length + bytes < sizeof path) {
            memcpy(path + length, p, bytes);
            length += bytes;
            path[length] = '\0';
        }
    }
    for (;;) {
        while (length > 0 && path[length - 1] == '/') {
            path[--length] = '\0';
        }
        uint64_t left = group_left(v, path, length, sizeof path);
        least = left < least ? left : least;
        if (length <= root) {
            return least;
        }
        while (length > 0 && path[length - 1] != '/') {
            path[--length] = '\0';
        }
    }
}

uint64_t
fy_host_available_bytes(void)
{
    char text[4096];
    int saved_errno = errno;
    uint64_t least = UINT64_MAX;
    if (!read_text("/proc/self/cgroup", text, sizeof text)) {
        text[0] = '\0';
    }
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        uint64_t left = groups_left(&versions[i], text);
        least = left < least ? left : least;
    }
    if (read_text("/proc/meminfo", text, sizeof text)) {
        uint64_t kib = fy_number_after(text, "MemAvailable:", UINT64_MAX);
        if (kib < UINT64_MAX / 1024 && kib * 1024 < least) {
            least = kib * 1024;
        }
    }
    errno = saved_errno;
    return least;
}

uint64_t
fy_host_unlimited_bytes(void)
{
    /* Fields of statm, in pages: all mapped pages; private data. */
    static const struct {
        int resource;
        unsigned field;
    } limits[] = {{RLIMIT_AS, 0}, {RLIMIT_DATA, 5}};
    char text[256];
    int saved_errno = errno;
    uint64_t least = UINT64_MAX;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit limit;
        uint64_t used = 0;
        if (getrlimit(limits[i].resource, &limit) != 0 ||
            limit.rlim_cur == RLIM_INFINITY) {
            continue;
        }
        const char *p = text;
        if (!read_text("/proc/self/statm", text, sizeof text)) {
            p = "";
        }
        for (unsigned f = 0; f < limits[i].field; f++) {
            p += strcspn(p, " ");
            p += *p == ' ';
        }
        (void)read_number(p, &used);
        used *= page;
        uint64_t left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
        least = left < least ? left : least;
    }
    errno = saved_errno;
    return least;
}
