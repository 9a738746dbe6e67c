/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into ferry (tests/faults/ferry), or preloaded into a program: one
 * allocation that ferry's code asks for fails. FERRY_NOMEM names the file to which a line
 * "alloc ROLE SITE PROCESS" is added for each of them (FERRY_NOMEM_AT unset), or "hit"
 * for the one that fails: FERRY_NOMEM_AT is "ROLE SITE NTH", ROLE and SITE as inject.c
 * has them, NTH counted in each process. In ferry's own processes all allocations
 * are meant, those of libraries included; in others what ferry's objects ask
 * for themselves.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/faults/frames.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

enum {
    FRAMES = 3,
    WORDS = 1024, /* of the stack that are looked at */
    RANGES = 64,
    SITE_BYTES = 256,
};

/* Functions whose own calls leave return addresses on the stack that is looked at. */
#define OURS __attribute__((section("nomem_code"), noinline))
extern const char nomem_begin[] __asm__("__start_nomem_code");
extern const char nomem_end[] __asm__("__stop_nomem_code");

struct range {
    uintptr_t start, end, base;
    bool ours,
        passed; /* passed: libraries that ferry's call may come through */
    char name[40];
};

static struct range ranges[RANGES];
static unsigned nranges, nobjects;
static char role[8], wanted[SITE_BYTES + 8];
static long nth;
static unsigned long long loaded; /* objects, so far */
static int log_fd = -1;
static atomic_long seen;
static atomic_bool looking;

OURS static int
add_range(struct dl_phdr_info *info, size_t bytes, void *context)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    bool first = (*(unsigned *)context)++ == 0;
    (void)bytes;
    if (first && info->dlpi_adds == loaded) {
        return 1; /* all are known */
    }
    if (first) {
        loaded = info->dlpi_adds;
        nranges = 0;
        name = strcmp(role, "shim") == 0 ? "program" : "ferry";
    }
    for (int i = 0; i < info->dlpi_phnum && nranges < RANGES; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) {
            continue;
        }
        struct range *to = &ranges[nranges++];
        to->start = info->dlpi_addr + header->p_vaddr;
        to->end = to->start + header->p_memsz;
        to->base = info->dlpi_addr;
        to->ours = strstr(name, "ferry") != NULL;
        to->passed =
            strncmp(name, "libc.so", 7) == 0 || strncmp(name, "nomem", 5) == 0;
        (void)snprintf(to->name, sizeof to->name, "%s", name);
    }
    return 0;
}

static const struct range *
range_of(uintptr_t address)
{
    for (unsigned i = 0; i < nranges; i++) {
        if (address >= ranges[i].start && address < ranges[i].end) {
            return &ranges[i];
        }
    }
    return NULL;
}

/* frames_read, of this process's code. */
static bool
read_code(void *context, uint64_t at, void *bytes, uint64_t n)
{
    (void)context;
    if (!range_of(at) || !range_of(at + n - 1)) {
        return false;
    }
    memcpy(bytes, (const void *)(uintptr_t)at, n);
    return true;
}

/* Whether the allocation is ferry's, and from where. */
OURS static bool
find_site(uintptr_t sp, char out[SITE_BYTES])
{
    uintptr_t words[WORDS];
    struct iovec to = {words, sizeof words}, from[WORDS / 512 + 2];
    size_t bytes = 0, n = 0, length = 0;
    unsigned long pieces = 0;
    bool alone = strcmp(role, "shim") == 0;
    uint64_t inner = 0;
    while (bytes < sizeof words) {
        size_t part = 4096 - (sp + bytes) % 4096;
        part = part < sizeof words - bytes ? part : sizeof words - bytes;
        from[pieces++] = (struct iovec){(void *)(sp + bytes), part};
        bytes += part;
    }
    ssize_t got = process_vm_readv(getpid(), &to, 1, from, pieces, 0);
    for (ssize_t i = 0; i < got / (ssize_t)sizeof *words && n < FRAMES; i++) {
        const struct range *range = range_of(words[i]);
        if (!range || range->passed ||
            (words[i] >= (uintptr_t)nomem_begin &&
             words[i] <= (uintptr_t)nomem_end)) {
            continue;
        }
        if (!range->ours) {
            if (alone && n == 0 && frames_calls(words[i], read_code, NULL)) {
                return false; /* the program's, or another library's */
            }
            continue;
        }
        /* The first word is the address to which this call returns. */
        if (i > 0 && !frames_leads(words[i], inner, read_code, NULL)) {
            continue;
        }
        length +=
            (size_t)snprintf(out + length, SITE_BYTES - length, "%s%s+%lx",
                             n ? "," : "", range->name, words[i] - range->base);
        inner = words[i];
        n++;
    }
    if (n == 0) {
        strcpy(out, "-");
    }
    return n > 0 || !alone;
}

OURS static bool
fails(uintptr_t sp)
{
    char site[SITE_BYTES], line[SITE_BYTES + 32];
    bool failing = false, free = false;
    int cause = errno;
    if (log_fd < 0 || !atomic_compare_exchange_strong(&looking, &free, true)) {
        return false;
    }
    nobjects = 0;
    (void)dl_iterate_phdr(add_range, &nobjects);
    if (find_site(sp, site)) {
        (void)snprintf(line, sizeof line, "alloc %s %s\n", role, site);
        if (!wanted[0]) {
            int n = snprintf(line, sizeof line, "alloc %s %s %d\n", role, site,
                             (int)getpid());
            (void)!write(log_fd, line, (size_t)n);
        } else if (strncmp(line + 6, wanted, strlen(wanted)) == 0 &&
                   line[6 + strlen(wanted)] == '\n' &&
                   atomic_fetch_add(&seen, 1) + 1 == nth) {
            failing = true;
            (void)!write(log_fd, "hit 0\n", 6);
        }
    }
    atomic_store(&looking, false);
    errno = failing ? ENOMEM : cause;
    return failing;
}

#define SP ((uintptr_t)__builtin_frame_address(0) + sizeof(void *))

__attribute__((visibility("default"))) void *
malloc(size_t bytes)
{
    return fails(SP) ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *
calloc(size_t n, size_t bytes)
{
    return fails(SP) ? NULL : __libc_calloc(n, bytes);
}

__attribute__((visibility("default"))) void *
realloc(void *old, size_t bytes)
{
    return bytes && fails(SP) ? NULL : __libc_realloc(old, bytes);
}

__attribute__((visibility("default"))) void *
aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(SP) ? NULL : __libc_memalign(alignment, bytes);
}

__attribute__((visibility("default"))) int
posix_memalign(void **out, size_t alignment, size_t bytes)
{
    int cause = errno;
    void *got = fails(SP) ? NULL : __libc_memalign(alignment, bytes);
    errno = cause;
    *out = got ? got : *out;
    return got ? 0 : ENOMEM;
}

__attribute__((constructor)) static void
begin(void)
{
    char line[512];
    const char *path = getenv("FERRY_NOMEM"), *at = getenv("FERRY_NOMEM_AT");
    int fd = path ? open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return;
    }
    line[n] = '\0';
    const char *second = line + strlen(line) + 1;
    char exe[512];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(exe, '/');
    bool is_ferry = slash && strcmp(slash, "/ferry") == 0;
    strcpy(role, !is_ferry                                           ? "shim"
                 : second < line + n && strcmp(second, "proxy") == 0 ? "proxy"
                                                                     : "run");
    if (at) {
        const char *last = strrchr(at, ' ');
        nth = last ? atol(last) : 0;
        (void)snprintf(wanted, sizeof wanted, "%.*s",
                       (int)(last ? last - at : 0), at);
    }
    (void)dl_iterate_phdr(add_range, &nobjects);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    /* Not a number that shells use. */
    log_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 200) : -1;
    if (fd >= 0) {
        close(fd);
    }
}
