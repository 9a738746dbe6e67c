/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc's malloc writes into its heaps (brk's, and 64 MiB pieces for threads)
 * while it holds their locks, but never into a chunk that has a mapping of its
 * own, but for the words in front of it, which no operand's whole page has. So
 * mappings qualify that are neither heap nor stack. Kernels without
 * PROCMAP_QUERY (6.11) are refused.
 */
#include "config.h"

#include "pager/deferred/where.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/procmap.h"
#include "pager/deferred/pages.h"

enum {
    PAGE = 4096,
    HEAP_BYTES = 64 << 20,
    NAME_BYTES = 64,
    STATUS_BYTES = 4096,
    MAPPED_BYTES = 1 << 20, /* malloc maps these one by one */
    TRIM_BYTES =
        128 << 10,    /* glibc's own figure, as long as nobody taught it */
    HELD_PART = 16,   /* of the memory there is */
    MAX_OBJECTS = 32, /* a library's own, looked through for locks */
};

/* What is mapped at an address. 1: something, 0: nothing, -1: unknown. */
static int
look(int maps, uint64_t address, uint64_t flags, struct fy_procmap *out,
     char name[NAME_BYTES])
{
    *out = (struct fy_procmap){
        .size = sizeof(*out), .query_flags = flags, .query_addr = address};
    if (name) {
        memset(name, 0, NAME_BYTES);
        out->vma_name_addr = (uint64_t)(uintptr_t)name;
        out->vma_name_size = NAME_BYTES;
    }
    if (syscall(SYS_ioctl, maps, FY_PROCMAP_QUERY, out) != 0) {
        return errno == ENOENT ? 0 : -1;
    }
    return 1;
}

static const struct link_map *
object_of(const void *address)
{
    Dl_info info;
    void *map = NULL;

    if (!dladdr1(address, &info, &map, RTLD_DL_LINKMAP)) {
        return NULL;
    }
    return map;
}

/* Whether an object has a definition of its own. Its dependencies are asked as
 * well, by dlsym, whose answer then lies elsewhere. */
static bool
defines(const struct link_map *object, const char *name)
{
    void *handle = object->l_name[0]
                       ? dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD)
                       : NULL;
    bool found = false;

    if (handle) {
        const void *at = dlsym(handle, name);
        found = at && object_of(at) == object;
        dlclose(handle);
    }
    return found;
}

/*
 * Whether malloc is that of this object. Where the program itself, linked to a
 * fixed address, uses malloc's address, look-ups answer with its own stub; what
 * that leads to is the first definition behind the program.
 */
static bool
allocator_is_of(const struct link_map *libc)
{
    const void *allocator = dlsym(RTLD_DEFAULT, "malloc");
    Dl_info info;
    void *entry = NULL;

    if (!allocator || !libc) {
        return false;
    }
    if (!dladdr1(allocator, &info, &entry, RTLD_DL_SYMENT) || !entry ||
        !info.dli_saddr || info.dli_saddr != allocator ||
        ((const ElfW(Sym) *)entry)->st_shndx != SHN_UNDEF) {
        return object_of(allocator) == libc;
    }
    const struct link_map *at = object_of(allocator);
    for (at = at ? at->l_next : NULL; at && at != libc; at = at->l_next) {
        if (defines(at, "malloc")) {
            return false;
        }
    }
    return at == libc;
}

bool
fy_may_take_at_all(void)
{
    if (!allocator_is_of(object_of((void *)gnu_get_libc_version)) ||
        getenv("GLIBC_TUNABLES") || sysconf(_SC_PAGESIZE) != PAGE) {
        return false;
    }
    /* A program that uses a card itself has memory that a card may write to. */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) {
        dlclose(driver);
        return false;
    }
    /* Else freed arrays teach it to keep the next ones, up to 32 MiB, in its
     * heap, where they cannot be taken. */
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): it takes malloc's lock */
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): likewise */
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
    return true;
}

/* Pages that a device or the kernel holds (io_uring, RDMA), or locked ones. */
static bool
has_pinned(void)
{
    static char text[STATUS_BYTES]; /* under the lock */
    static const char *const names[] = {"\nVmPin:", "\nVmLck:"};
    int file = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

    if (file >= 0) {
        close(file);
    }
    if (bytes <= 0) {
        return true;
    }
    text[bytes] = '\0';
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *at = strstr(text, names[i]);
        if (!at || strtoul(at + strlen(names[i]), NULL, 10) != 0) {
            return true;
        }
    }
    return false;
}

/* Whether a page has content; without touching it. */
static bool
is_populated(uintptr_t address)
{
    uint64_t entry = 0;
    int file = open("/proc/thread-self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1
                             : pread(file, &entry, sizeof(entry),
                                     (off_t)(address / PAGE * sizeof(entry)));

    if (file >= 0) {
        close(file);
    }
    return bytes != (ssize_t)sizeof(entry) || entry >> 62 != 0;
}

/* As annotations/base/arena.c of glibc 2.36 begins a thread's heap. */
struct heap_start {
    uint64_t arena, before, bytes, writable_bytes;
};

static bool
in_thread_heap(int maps, uintptr_t start, size_t bytes)
{
    uintptr_t base = start & ~(uintptr_t)(HEAP_BYTES - 1);

    for (; base < start + bytes; base += HEAP_BYTES) {
        struct fy_procmap vma;
        struct heap_start heap;
        struct iovec to = {&heap, sizeof(heap)};
        struct iovec from = {(void *)base, sizeof(heap)};
        int found = look(maps, base, 0, &vma, NULL);
        bool taken = fy_pages_overlaps(base, PAGE, false) != 0;
        if (found < 0) {
            return true;
        }
        if (found == 0 || taken || !(vma.vma_flags & FY_PROCMAP_READABLE) ||
            !is_populated(base)) {
            continue;
        }
        if (process_vm_readv(gettid(), &to, 1, &from, 1, 0) !=
            (ssize_t)sizeof(heap)) {
            return true;
        }
        if (heap.arena != 0 && heap.arena % 16 == 0 && heap.bytes != 0 &&
            heap.bytes % PAGE == 0 && heap.bytes <= HEAP_BYTES &&
            heap.writable_bytes % PAGE == 0 &&
            heap.writable_bytes >= heap.bytes &&
            heap.writable_bytes <= HEAP_BYTES &&
            start < base + heap.writable_bytes) {
            return true;
        }
    }
    return false;
}

/* Something stands in the way of brk: malloc may have grown elsewhere. */
static bool
brk_is_hemmed(int maps)
{
    struct fy_procmap vma;
    uintptr_t end = (uintptr_t)sbrk(0);
    int found = look(maps, end + PAGE, FY_PROCMAP_OR_NEXT, &vma, NULL);

    return found < 0 || (found > 0 && vma.vma_start < end + HEAP_BYTES &&
                         vma.vma_end > end + PAGE);
}

/* Private, anonymous, to be read and written, of ordinary pages. */
static bool
is_plain(const struct fy_procmap *vma, const char *name)
{
    return (vma->vma_flags & (FY_PROCMAP_READABLE | FY_PROCMAP_WRITABLE |
                              FY_PROCMAP_EXECUTABLE | FY_PROCMAP_SHARED)) ==
               (FY_PROCMAP_READABLE | FY_PROCMAP_WRITABLE) &&
           vma->vma_page_size == PAGE && vma->inode == 0 &&
           vma->dev_major == 0 && vma->dev_minor == 0 &&
           /* not [heap], [stack] */
           (!name[0] || strncmp(name, "[anon:", 6) == 0);
}

static bool
may_take(int maps, uintptr_t start, size_t bytes)
{
    struct fy_procmap vma, next;
    char name[NAME_BYTES];
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = 0;
    uintptr_t end = start;

    /* In several parts, where some of them are watched already. */
    while (end < start + bytes) {
        if (look(maps, end, 0, &vma, name) != 1 || !is_plain(&vma, name) ||
            (here >= vma.vma_start && here < vma.vma_end)) {
            return false;
        }
        low = end == start ? vma.vma_start : low;
        end = vma.vma_end;
    }
    /* A mapping with a guard below is taken for a stack. */
    int found = look(maps, low - 1, 0, &next, NULL);
    if (found < 0 ||
        (found > 0 &&
         (next.vma_flags & (FY_PROCMAP_READABLE | FY_PROCMAP_WRITABLE)) == 0)) {
        return false;
    }
    return !brk_is_hemmed(maps) && !in_thread_heap(maps, start, bytes);
}

/* Shadows are addresses that the program may have counted on. */
static bool
addresses_are_limited(void)
{
    static const int limits[] = {RLIMIT_AS, RLIMIT_DATA};

    for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)limits[i], &limit) != 0 ||
            limit.rlim_cur != RLIM_INFINITY) {
            return true;
        }
    }
    return false;
}

/* The number in a file; UINT64_MAX where there is none. */
static uint64_t
number_in(const char *path)
{
    char text[32] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof(text) - 1);

    if (file >= 0) {
        close(file);
    }
    return bytes > 0 && text[0] >= '0' && text[0] <= '9'
               ? strtoull(text, NULL, 10)
               : UINT64_MAX;
}

size_t
fy_may_hold(void)
{
    static size_t known; /* under the lock */

    if (known == 0) {
        uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * PAGE;
        /* Of this process's own container, where it has one. */
        uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
        known = (limit < bytes ? limit : bytes) / HELD_PART + 1;
    }
    return known;
}

bool
fy_may_take(uintptr_t start, size_t bytes)
{
    int maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    bool may = maps >= 0 && may_take(maps, start, bytes) && !has_pinned() &&
               !addresses_are_limited();

    if (maps >= 0) {
        close(maps);
    }
    return may;
}

/* What an object's dynamic section has of use. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash;
};

static bool
find_tables(const struct link_map *object, struct tables *out)
{
    *out = (struct tables){NULL, NULL, NULL};
    for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB) {
            out->symbols = (const void *)d->d_un.d_ptr;
        } else if (d->d_tag == DT_STRTAB) {
            out->strings = (const void *)d->d_un.d_ptr;
        } else if (d->d_tag == DT_GNU_HASH) {
            out->hash = (const void *)d->d_un.d_ptr;
        }
    }
    return out->symbols && out->strings && out->hash;
}

/*
 * libgomp's teams belong to the thread that starts them, so a thread that waits
 * in one takes nothing from ours; what is one for all threads is not among them.
 */
static bool
is_lock(const char *name)
{
    static const char *const names[] = {
        "pthread_mutex", "pthread_rwlock", "pthread_create", "pthread_cond",
        "pthread_spin",  "pthread_once",   "GOMP_critical",  "GOMP_atomic",
        "GOMP_ordered",  "GOMP_task",      "GOMP_target",    "GOMP_doacross",
        "omp_",          "__kmpc",         "sem_",           "mtx_",
        "call_once",     "_ZN3tbb",
    };

    if (strncmp(name, "omp_get_", 8) == 0 || strncmp(name, "omp_in_", 7) == 0) {
        return false;
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool
object_takes_locks(const struct link_map *object)
{
    struct tables tables;

    if (!find_tables(object, &tables)) {
        return true;
    }
    /* What is not in the hash is what it asks of others. */
    for (uint32_t i = 1; i < tables.hash[1]; i++) {
        if (is_lock(tables.strings + tables.symbols[i].st_name)) {
            return true;
        }
    }
    return false;
}

/* Of the system: they lock what functions of vectors do not need. */
static bool
is_of_system(const char *name)
{
    static const char *const names[] = {
        "libc.so.",    "libm.so.",      "libmvec.so.",    "ld-linux",
        "libgcc_s.so", "libstdc++.so.", "libgfortran.so", "libquadmath.so",
        "libgomp.so.", "libpthread.so", "libdl.so.",      "librt.so.",
    };

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* The object that another one needs by this name. */
static const struct link_map *
needed_object(const struct link_map *from, const char *name)
{
    while (from->l_prev) {
        from = from->l_prev;
    }
    for (; from; from = from->l_next) {
        const char *base = strrchr(from->l_name, '/');
        struct tables tables;
        if (strcmp(base ? base + 1 : from->l_name, name) == 0) {
            return from;
        }
        if (!find_tables(from, &tables)) {
            continue;
        }
        for (const ElfW(Dyn) *d = from->l_ld; d->d_tag != DT_NULL; d++) {
            if (d->d_tag == DT_SONAME &&
                strcmp(tables.strings + d->d_un.d_val, name) == 0) {
                return from;
            }
        }
    }
    return NULL;
}

bool
fy_takes_locks(const void *function)
{
    const struct link_map *objects[MAX_OBJECTS] = {object_of(function)};
    unsigned count = 1;

    for (unsigned i = 0; i < count; i++) {
        struct tables tables;
        if (!objects[i] || object_takes_locks(objects[i]) ||
            !find_tables(objects[i], &tables)) {
            return true;
        }
        for (const ElfW(Dyn) *d = objects[i]->l_ld; d->d_tag != DT_NULL; d++) {
            const char *name = tables.strings + d->d_un.d_val;
            if (d->d_tag != DT_NEEDED || is_of_system(name)) {
                continue;
            }
            const struct link_map *other = needed_object(objects[i], name);
            unsigned known = 0;
            while (known < count && objects[known] != other) {
                known++;
            }
            if (known == count) {
                if (count == MAX_OBJECTS) {
                    return true;
                }
                objects[count++] = other;
            }
        }
    }
    return false;
}
