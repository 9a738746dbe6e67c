/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores to slots that the dynamic linker has filled in other objects. Pages that were made
 * read-only after relocation are made writable for the stores and read-only again,
 * by a thread at a time.
 */
#include "config.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"

void
fy_writer_start(struct fy_writer *writer, const struct fy_object *object)
{
    uintptr_t mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    writer->low = writer->high = 0;
    writer->count = 0;
    for (unsigned i = 0; i < object->nphdr; i++) {
        const ElfW(Phdr) *segment = &object->phdr[i];
        if (segment->p_type != PT_GNU_RELRO) {
            continue;
        }
        /* As the dynamic linker does: whole pages, without the last. */
        writer->low = (object->base + segment->p_vaddr) & mask;
        writer->high =
            (object->base + segment->p_vaddr + segment->p_memsz) & mask;
    }
}

static bool
is_read_only(const struct fy_writer *writer, uintptr_t slot)
{
    return slot >= writer->low && slot < writer->high;
}

/* Under the lock: two threads never open and close pages at the same time. */
static void
make_stores(const struct fy_writer *writer)
{
    bool wanted = false, open = false;
    for (unsigned i = 0; i < writer->count && !wanted; i++) {
        wanted = is_read_only(writer, writer->store[i].slot);
    }
    void *pages = (void *)writer->low;
    size_t bytes = writer->high - writer->low;
    if (wanted) {
        open = mprotect(pages, bytes, PROT_READ | PROT_WRITE) == 0;
    }
    for (unsigned i = 0; i < writer->count; i++) {
        uintptr_t slot = writer->store[i].slot;
        if (open || !is_read_only(writer, slot)) {
            __atomic_store_n((uintptr_t *)slot, writer->store[i].value,
                             __ATOMIC_RELEASE);
        }
    }
    if (open) {
        mprotect(pages, bytes, PROT_READ);
    }
}

/*
 * Originals were looked up before: no foreign code runs under the lock. Without
 * the lock (in a handler that interrupted the holder) the slots stay as they are,
 * and the return address tells who calls.
 */
void
fy_writer_end(struct fy_writer *writer)
{
    int state;
    if (writer->count == 0) {
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (fy_lock()) {
        make_stores(writer);
        fy_unlock();
    }
    pthread_setcancelstate(state, NULL);
    writer->count = 0;
}

void
fy_writer_store(struct fy_writer *writer, uintptr_t slot, uintptr_t value)
{
    if (writer->count == FY_WRITER_STORES) {
        fy_writer_end(writer);
    }
    writer->store[writer->count].slot = slot;
    writer->store[writer->count++].value = value;
}
