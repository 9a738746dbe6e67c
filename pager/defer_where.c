/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc's malloc writes into its heaps (brk's, and 64 MiB pieces for threads)
 * while it holds their locks, but never into a chunk that has a mapping of its
 * own, but for the words in front of it, which no operand's whole page has. So
 * mappings qualify that are neither heap nor stack. Kernels without
 * PROCMAP_QUERY (6.11) are refused.
 */
#include "config.h"

#include "pager/defer_where.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pager/defer_pages.h"

/* linux/fs.h since 6.11; older headers lack it. */
struct procmap_query_v1 {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
    uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};

#define PROCMAP_QUERY_V1 _IOWR('f', 17, struct procmap_query_v1)

enum {
    VMA_READABLE = 1,
    VMA_WRITABLE = 2,
    VMA_EXECUTABLE = 4,
    VMA_SHARED = 8,
    OR_NEXT = 0x10, /* of query_flags */
    PAGE = 4096,
    HEAP_BYTES = 64 << 20,
    NAME_BYTES = 64,
    STATUS_BYTES = 4096,
};

/* What is mapped at an address. 1: something, 0: nothing, -1: unknown. */
static int
look(int maps, uint64_t address, uint64_t flags, struct procmap_query_v1 *out,
     char name[NAME_BYTES])
{
    *out = (struct procmap_query_v1){
        .size = sizeof(*out), .query_flags = flags, .query_addr = address};
    if (name) {
        memset(name, 0, NAME_BYTES);
        out->vma_name_addr = (uint64_t)(uintptr_t)name;
        out->vma_name_size = NAME_BYTES;
    }
    if (syscall(SYS_ioctl, maps, PROCMAP_QUERY_V1, out) != 0) {
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

bool
fy_may_take_at_all(void)
{
    void *allocator = dlsym(RTLD_DEFAULT, "malloc");
    const struct link_map *libc = object_of((void *)gnu_get_libc_version);

    if (!allocator || !libc || object_of(allocator) != libc ||
        getenv("GLIBC_TUNABLES") || sysconf(_SC_PAGESIZE) != PAGE) {
        return false;
    }
    /* A program that uses a card itself has memory that a card may write to. */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) {
        dlclose(driver);
        return false;
    }
    return true;
}

/* Pages that a device or the kernel holds (io_uring, RDMA), or locked ones. */
static bool
has_pinned(void)
{
    static char text[STATUS_BYTES]; /* under the lock */
    static const char *const names[] = {"\nVmPin:", "\nVmLck:"};
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
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
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? -1
                             : pread(file, &entry, sizeof(entry),
                                     (off_t)(address / PAGE * sizeof(entry)));

    if (file >= 0) {
        close(file);
    }
    return bytes != (ssize_t)sizeof(entry) || entry >> 62 != 0;
}

/* As arena.c of glibc 2.36 begins a thread's heap. */
struct heap_start {
    uint64_t arena, before, bytes, writable_bytes;
};

static bool
in_thread_heap(int maps, uintptr_t start, size_t bytes)
{
    uintptr_t base = start & ~(uintptr_t)(HEAP_BYTES - 1);

    for (; base < start + bytes; base += HEAP_BYTES) {
        struct procmap_query_v1 vma;
        struct heap_start heap;
        struct iovec to = {&heap, sizeof(heap)};
        struct iovec from = {(void *)base, sizeof(heap)};
        int found = look(maps, base, 0, &vma, NULL);
        bool taken = fy_pages_overlaps(base, PAGE, false) != 0;
        if (found < 0) {
            return true;
        }
        if (found == 0 || taken || !(vma.vma_flags & VMA_READABLE) ||
            !is_populated(base)) {
            continue;
        }
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) !=
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
    struct procmap_query_v1 vma;
    uintptr_t end = (uintptr_t)sbrk(0);
    int found = look(maps, end + PAGE, OR_NEXT, &vma, NULL);

    return found < 0 || (found > 0 && vma.vma_start < end + HEAP_BYTES &&
                         vma.vma_end > end + PAGE);
}

static bool
may_take(int maps, uintptr_t start, size_t bytes)
{
    struct procmap_query_v1 vma, below;
    char name[NAME_BYTES];
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    if (look(maps, start, 0, &vma, name) != 1 || vma.vma_end < start + bytes ||
        (vma.vma_flags & (VMA_READABLE | VMA_WRITABLE | VMA_EXECUTABLE |
                          VMA_SHARED)) != (VMA_READABLE | VMA_WRITABLE) ||
        vma.vma_page_size != PAGE || vma.inode != 0 || vma.dev_major != 0 ||
        vma.dev_minor != 0) {
        return false;
    }
    if (name[0] && strncmp(name, "[anon:", 6) != 0) {
        return false; /* [heap], [stack] */
    }
    if (here >= vma.vma_start && here < vma.vma_end) {
        return false;
    }
    /* A mapping with a guard below is taken for a stack. */
    int found = look(maps, vma.vma_start - 1, 0, &below, NULL);
    if (found < 0 ||
        (found > 0 && (below.vma_flags & (VMA_READABLE | VMA_WRITABLE)) == 0)) {
        return false;
    }
    return !brk_is_hemmed(maps) && !in_thread_heap(maps, start, bytes);
}

bool
fy_may_take(uintptr_t start, size_t bytes)
{
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool may = maps >= 0 && may_take(maps, start, bytes) && !has_pinned();

    if (maps >= 0) {
        close(maps);
    }
    return may;
}

bool
fy_takes_locks(const void *function)
{
    static const char *const names[] = {
        "pthread_mutex", "pthread_rwlock", "pthread_create", "pthread_cond",
        "pthread_spin",  "pthread_once",   "GOMP_",          "omp_",
        "__kmpc",        "sem_",           "mtx_",           "_ZN3tbb",
    };
    const struct link_map *object = object_of(function);
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;

    if (!object) {
        return true;
    }
    for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB) {
            symbols = (const void *)d->d_un.d_ptr;
        } else if (d->d_tag == DT_STRTAB) {
            strings = (const void *)d->d_un.d_ptr;
        } else if (d->d_tag == DT_GNU_HASH) {
            hash = (const void *)d->d_un.d_ptr;
        }
    }
    if (!symbols || !strings || !hash) {
        return true;
    }
    /* What is not in the hash is what it asks of others. */
    for (uint32_t i = 1; i < hash[1]; i++) {
        for (unsigned k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            if (strncmp(strings + symbols[i].st_name, names[k],
                        strlen(names[k])) == 0) {
                return true;
            }
        }
    }
    return false;
}
