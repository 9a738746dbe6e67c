/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the targets of calls of annotated names: lists of bindings that only
 * grow at their head, without locks, and the stubs that dlsym gives out.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/debug.h"
#include "shim/calls/object.h"
#include "shim/calls/shim.h"

enum {
    CHUNK_BYTES = 64 * 1024, /* of bindings, mapped as needed */
};

static struct fy_binding **
slots(void)
{
    return FY_IMAGE_TABLE(struct fy_binding *, slots);
}

static struct fy_binding **
pool(void)
{
    return FY_IMAGE_TABLE(struct fy_binding *, pool);
}

/* ---- names ------------------------------------------------------------- */

uint32_t
fy_names_find(const char *name)
{
    if (!fy_image.model) {
        return FY_NIL;
    }
    uint32_t h = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++) {
        h = h * 33 + *c;
    }
    const uint64_t *bloom = FY_IMAGE_TABLE(const uint64_t, bloom);
    uint64_t word = bloom[(h / 64) & (fy_image.nbloom - 1)];
    if (!(word >> (h % 64) & word >> ((h >> fy_image.bloom_shift) % 64) & 1)) {
        return FY_NIL;
    }
    const struct fy_model *model = fy_shim_model();
    const struct fy_symbol *rows = FY_TABLE(model, fy_symbol, symbols);
    uint32_t low = 0, high = fy_image.nsymbols;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(name, fy_model_string(model, rows[middle].name));
        if (order == 0) {
            return FY_IMAGE_TABLE(const struct fy_thunk_info, info)[middle]
                           .thunk
                       ? middle
                       : FY_NIL;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return FY_NIL;
}

static void *
exported(uint32_t symbol)
{
    return (char *)(uintptr_t)&fy_image +
           FY_IMAGE_TABLE(const struct fy_thunk_info, info)[symbol].thunk;
}

/* ---- bindings ----------------------------------------------------------- */

static struct fy_binding *
new_binding(void)
{
    static struct fy_binding first[64];
    static unsigned first_used;
    static struct chunk {
        size_t used;
        struct fy_binding row[];
    } * current;
    if (__atomic_load_n(&first_used, __ATOMIC_RELAXED) < 64) {
        unsigned i = __atomic_fetch_add(&first_used, 1, __ATOMIC_RELAXED);
        if (i < 64) {
            return &first[i];
        }
    }
    enum {
        ROWS = (CHUNK_BYTES - sizeof(struct chunk)) / sizeof(struct fy_binding)
    };
    for (;;) {
        struct chunk *chunk = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
        if (chunk) {
            size_t i = __atomic_fetch_add(&chunk->used, 1, __ATOMIC_RELAXED);
            if (i < ROWS) {
                return &chunk->row[i];
            }
        }
        if (__atomic_load_n(&fy_filters, __ATOMIC_RELAXED)) {
            return NULL;
        }
        struct chunk *fresh = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fresh == MAP_FAILED) {
            return NULL;
        }
        if (!__atomic_compare_exchange_n(&current, &chunk, fresh, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            munmap(fresh, CHUNK_BYTES);
        }
    }
}

static void
fill_binding(struct fy_binding *binding, uint32_t symbol, void *original)
{
    binding->original = original;
    binding->target = FY_MODE_COUNTS(fy_mode)
                          ? (void *)(uintptr_t)fy_thunk_declined
                          : original;
    binding->bound =
        (char *)(uintptr_t)&fy_image +
        FY_IMAGE_TABLE(const struct fy_thunk_info, info)[symbol].bound;
    binding->symbol = symbol;
}

static void
prepend(struct fy_binding **head, struct fy_binding *binding)
{
    struct fy_binding *old = __atomic_load_n(head, __ATOMIC_RELAXED);
    do {
        binding->next = old;
    } while (!__atomic_compare_exchange_n(head, &old, binding, true,
                                          __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

/* As the dynamic linker ends a program whose lazily bound name has no target. */
static __attribute__((noreturn)) void
undefined(const char *name)
{
    static const char text[] = "symbol lookup error: undefined symbol: ";
    const struct iovec parts[] = {{(void *)(uintptr_t)text, sizeof text - 1},
                                  {(void *)(uintptr_t)name, strlen(name)},
                                  {(void *)(uintptr_t) "\n", 1}};
    ssize_t written = writev(STDERR_FILENO, parts, 3);
    (void)written; /* the process ends in any case */
    _exit(127);
}

/* ---- lists ---------------------------------------------------------------- */

static struct fy_binding *graveyard;
static uint32_t stubs_used;
static unsigned closing; /* calls of dlclose that are on their way */

/* A plugin that is closed and opened again gets its old binding back. */
static struct fy_binding *
revive(const struct fy_binding *wanted)
{
    struct fy_binding **link = &graveyard;
    for (; *link; link = &(*link)->retired) {
        struct fy_binding *old = *link;
        if (old->symbol == wanted->symbol && old->low == wanted->low &&
            old->size == wanted->size && old->original == wanted->original) {
            *link = old->retired;
            return old;
        }
    }
    return NULL;
}

struct target {
    const struct fy_frame *frame;
    const char *name;
    const void *original;
    bool stays, gone;
};

/*
 * Sets target->stays if the original will be loaded as long as the caller is: the caller is no
 * library, or the original's library is tied to the caller's. Sets target->gone if that
 * library was closed meanwhile, so that the name must be looked up again. Sets neither in a
 * handler, because it may have interrupted the dynamic linker.
 *
 * While another thread is in the linker, and may wait for this thread, the caller's own
 * dependencies are not tied, because they stay anyway. Any other library is tied: that waits
 * for the linker's lock, as glibc does where it notes a new dependency.
 */
static void
keep(void *closure)
{
    struct target *target = closure;
    struct fy_object user;
    if (fy_object_at(target->frame->caller, &user) != 0) {
        target->stays = true;
    } else if (!fy_in_handler(target->frame->registers.stack)) {
        target->stays =
            (fy_others_link() &&
             fy_scope_local(&user, target->name) == target->original) ||
            (fy_keep_for(&user, target->original) &&
             fy_scope_global(target->name) == target->original);
        target->gone = !target->stays;
    }
}

/*
 * The original of a lazily bound reference to an object that RTLD_GLOBAL opened, or NULL.
 * *out_stays: from now on it stays; else, where nothing may be asked, the next call asks.
 */
static void *
find_global(struct fy_frame *frame, const char *name, bool *out_stays)
{
    struct target target = {.frame = frame, .name = name, .gone = true};
    for (int i = 0; i < FY_KEEP_LOOKS && target.gone; i++) {
        void *found = fy_scope_global(name);
        target =
            (struct target){.frame = frame, .name = name, .original = found};
        if (found && !__atomic_load_n(&fy_filters, __ATOMIC_RELAXED) &&
            fy_stack_take(frame)) {
            fy_stack_run(frame, keep, &target); /* fy_thunk_miss leaves it */
        }
    }
    *out_stays = target.stays;
    return (void *)(uintptr_t)target.original;
}

const struct fy_binding *
fy_bind_call(struct fy_frame *frame)
{
    int *error = &errno, saved = *error;
    uint32_t symbol = (uint32_t)frame->u.symbol;
    const char *name = fy_symbol_name(symbol);
    void *original = fy_scope_startup(name);
    bool for_all = original, stays = true;
    if (!original) {
        original = find_global(frame, name, &stays);
        stays = stays || !original;
    }
    if (!original) {
        original = fy_original_find(name, frame->caller);
    }
    if (!original) {
        original = fy_scope_anywhere(name);
    }
    if (!original) {
        undefined(name);
    }
    /*
     * Serves calls from code of no object, during a dlclose (the next object may
     * lie where this one does), and without memory for more.
     */
    static __thread struct fy_binding mine
        __attribute__((tls_model("initial-exec")));
    fill_binding(&mine, symbol, original);
    mine.low = mine.size = 0;
    struct fy_binding *binding = &mine;
    struct fy_object object;
    bool kept =
        for_all ||
        (stays && !__atomic_load_n(&closing, __ATOMIC_SEQ_CST) &&
         fy_object_at(frame->caller, &object) == 0 && fy_lock_is_possible());
    if (kept) {
        mine.low = for_all ? 0 : object.low;
        mine.size = for_all ? UINT64_MAX : object.high - object.low;
        binding = NULL;
        if (__atomic_load_n(&graveyard, __ATOMIC_RELAXED) &&
            !__atomic_load_n(&fy_filters, __ATOMIC_RELAXED) && fy_lock()) {
            binding = revive(&mine);
            fy_unlock();
        }
        if (!binding && (binding = new_binding())) {
            *binding = mine;
        }
        if (binding) {
            prepend(&slots()[symbol], binding);
            if (!for_all && __atomic_load_n(&closing, __ATOMIC_SEQ_CST)) {
                /* A dlclose began meanwhile, perhaps of the original's library, and
                 * may have looked already: nothing is found here any more. */
                __atomic_store_n(&binding->size, 0, __ATOMIC_RELEASE);
            }
        } else {
            binding = &mine;
        }
    }
    fy_debug(CALLS, "%s called from %p is bound to %p%s", name,
             (const void *)frame->caller, original,
             for_all ? " for all callers" : "");
    *error = saved;
    return binding;
}

void
fy_bind_retire(void)
{
    if (!fy_image.model || !fy_lock()) {
        return;
    }
    for (uint32_t i = 0; i < fy_image.nsymbols; i++) {
        struct fy_binding **head = &slots()[i], **link = head;
        while (*link) {
            struct fy_binding *binding = *link;
            if (binding->size == UINT64_MAX) {
                link = &binding->next;
                continue;
            }
            /* Its own next stays: a thread may stand on it. */
            struct fy_binding *expected = binding;
            if (!__atomic_compare_exchange_n(link, &expected, binding->next,
                                             false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED)) {
                link = head; /* a new head came in between */
                continue;
            }
            binding->retired = graveyard;
            graveyard = binding;
        }
    }
    fy_unlock();
}

void
fy_bind_closing(int delta)
{
    __atomic_add_fetch(&closing, (unsigned)delta, __ATOMIC_SEQ_CST);
}

/* ---- pointers -------------------------------------------------------------- */

static void *
stub_at(uint32_t i)
{
    return FY_IMAGE_TABLE(char, stubs) + (size_t)i * FY_STUB_BYTES;
}

static void *
find_stub(uint32_t symbol, void *original)
{
    for (uint32_t i = 0; i < stubs_used; i++) {
        if (pool()[i]->symbol == symbol && pool()[i]->original == original) {
            return stub_at(i);
        }
    }
    if (stubs_used == fy_image.nstubs) {
        return original;
    }
    struct fy_binding *binding = new_binding();
    if (!binding) {
        return original;
    }
    fill_binding(binding, symbol, original);
    pool()[stubs_used] = binding;
    return stub_at(stubs_used++);
}

void *
fy_bind_stub(uint32_t symbol, void *original)
{
    if (fy_mode == 0 || !fy_lock()) {
        return original;
    }
    void *stub = find_stub(symbol, original);
    fy_unlock();
    return stub;
}

void *
fy_bind_pointer(uint32_t symbol, void *original)
{
    uintptr_t low, high;
    struct fy_object object;
    if (fy_mode == 0 || fy_is_thunk(original)) {
        return original;
    }
    if (fy_object_at(original, &object) ||
        !fy_object_code(&object, original, &low, &high)) {
        return original; /* a variable of that name */
    }
    if (fy_scope_startup(fy_symbol_name(symbol)) == original) {
        return exported(symbol);
    }
    return fy_bind_stub(symbol, original);
}

void *
fy_bind_original(const void *address)
{
    if (!fy_image.model) {
        return NULL;
    }
    uintptr_t offset = (uintptr_t)address - (uintptr_t)stub_at(0);
    uintptr_t i = offset / FY_STUB_BYTES;
    if (offset % FY_STUB_BYTES || i >= fy_image.nstubs) {
        return NULL;
    }
    struct fy_binding *binding = __atomic_load_n(&pool()[i], __ATOMIC_ACQUIRE);
    return binding ? binding->original : NULL;
}
