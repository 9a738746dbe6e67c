/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the original of an annotated name as the dynamic linker would have for
 * that caller: first the objects of the start, in load order (that is the
 * order of the global scope), then what came later with RTLD_GLOBAL, then the
 * caller and its dependencies, breadth first. What is found is kept in lists
 * that only grow at their head, without locks.
 */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/object.h"
#include "shim/shim.h"

enum {
    CHUNK_BYTES = 64 * 1024, /* of bindings, mapped as needed */
    MAX_CLOSURE = 256,       /* objects, of one caller's dependencies */
    MAX_GLOBAL = 64,
};

/* Dynamic sections of what was opened with RTLD_GLOBAL, in that order. */
static const void *global_roots[MAX_GLOBAL];
static unsigned global_count; /* more than MAX_GLOBAL: not all are known */

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
    if (!fy_image.model)
        return FY_NIL;
    uint32_t h = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++)
        h = h * 33 + *c;
    const uint64_t *bloom = FY_IMAGE_TABLE(const uint64_t, bloom);
    uint64_t word = bloom[(h / 64) & (fy_image.nbloom - 1)];
    if (!(word >> (h % 64) & word >> ((h >> fy_image.bloom_shift) % 64) & 1))
        return FY_NIL;
    const struct fy_model *model = fy_shim_model();
    const struct fy_symbol *rows = FY_TABLE(model, fy_symbol, symbols);
    uint32_t low = 0, high = fy_image.nsymbols;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(name, fy_model_string(model, rows[middle].name));
        if (order == 0)
            return FY_IMAGE_TABLE(const struct fy_thunk_info, info)[middle]
                           .thunk
                       ? middle
                       : FY_NIL;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return FY_NIL;
}

bool
fy_is_thunk(const void *address)
{
    intptr_t offset = (intptr_t)((uintptr_t)address - (uintptr_t)&fy_image);
    return fy_image.model && offset >= fy_image.code_low &&
           offset < fy_image.code_high;
}

static const char *
symbol_name(uint32_t symbol)
{
    const struct fy_model *model = fy_shim_model();
    return fy_model_string(model,
                           FY_TABLE(model, fy_symbol, symbols)[symbol].name);
}

static void *
exported(uint32_t symbol)
{
    return (char *)(uintptr_t)&fy_image +
           FY_IMAGE_TABLE(const struct fy_thunk_info, info)[symbol].thunk;
}

/* ---- scopes ------------------------------------------------------------- */

struct lookup {
    const char *name;
    unsigned low, high; /* of load order */
    struct fy_object object;
    const ElfW(Sym) * symbol;
};

static int
look_in(const struct fy_object *object, void *closure)
{
    struct lookup *lookup = closure;
    if (object->index < lookup->low || object->index >= lookup->high)
        return 0;
    lookup->symbol = fy_object_symbol(object, lookup->name);
    lookup->object = *object;
    return lookup->symbol != NULL;
}

/* An IFUNC's resolver is foreign code: called after the walk. */
static void *
find_between(const char *name, unsigned low, unsigned high)
{
    struct lookup lookup = {.name = name, .low = low, .high = high};
    if (!fy_object_each(look_in, &lookup))
        return NULL;
    return fy_object_address(&lookup.object, lookup.symbol);
}

struct closure {
    struct fy_object member[MAX_CLOSURE];
    unsigned count, at;
};

static int
add_needed(const struct fy_object *object, void *data)
{
    struct closure *closure = data;
    if (closure->count == MAX_CLOSURE)
        return 1;
    for (unsigned i = 0; i < closure->count; i++) {
        if (closure->member[i].dynamic == object->dynamic)
            return 0;
    }
    if (fy_object_needs(&closure->member[closure->at], object))
        closure->member[closure->count++] = *object;
    return 0;
}

/*
 * Among `root' and what it needs, breadth first. The list is large for a stack
 * that may be a small thread's, so it is mapped.
 */
static void *
find_local(const struct fy_object *root, const char *name)
{
    const ElfW(Sym) *symbol = fy_object_symbol(root, name);
    if (symbol)
        return fy_object_address(root, symbol);
    struct closure *closure =
        mmap(NULL, sizeof *closure, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (closure == MAP_FAILED)
        return NULL;
    void *found = NULL;
    closure->member[0] = *root;
    closure->count = 1;
    for (; closure->at < closure->count && !found; closure->at++) {
        const struct fy_object *member = &closure->member[closure->at];
        symbol = fy_object_symbol(member, name);
        if (symbol)
            found = fy_object_address(member, symbol);
        else
            fy_object_each(add_needed, closure);
    }
    munmap(closure, sizeof *closure);
    return found;
}

/* Among what was there at the start, and will be until the end. */
static void *
find_startup(const char *name)
{
    /*
     * The program itself (0) is before us in every scope: whoever reached a
     * thunk was not bound to it, except through a pointer we gave out.
     */
    void *found = find_between(name, 1, fy_startup_objects);
    return found ? found : find_between(name, 0, 1);
}

static void *
find_global(const char *name)
{
    void *found = find_startup(name);
    unsigned count = __atomic_load_n(&global_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count && i < MAX_GLOBAL && !found; i++) {
        struct fy_object object;
        const void *root = __atomic_load_n(&global_roots[i], __ATOMIC_RELAXED);
        if (root && fy_object_at(root, &object) == 0 && object.dynamic == root)
            found = find_local(&object, name);
    }
    if (found || count <= MAX_GLOBAL)
        return found;
    /* Not a tail call: the real dlsym must see us as its caller. */
    void *volatile next = fy_libc_find()->dlsym(RTLD_NEXT, name);
    return fy_is_thunk(next) ? NULL : next;
}

void *
fy_original_deep(uint32_t symbol, const struct fy_object *root)
{
    const char *name = symbol_name(symbol);
    void *found = root->dynamic ? find_local(root, name) : NULL;
    return found ? found : find_global(name);
}

void *
fy_original_local(uint32_t symbol, const struct fy_object *root)
{
    const char *name = symbol_name(symbol);
    return find_global(name) ? NULL : find_local(root, name);
}

void *
fy_original_find(uint32_t symbol, const void *caller)
{
    const char *name = symbol_name(symbol);
    void *found = find_global(name);
    struct fy_object object;
    if (!found && fy_object_at(caller, &object) == 0)
        found = find_local(&object, name);
    return found;
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
        if (i < 64)
            return &first[i];
    }
    enum {
        ROWS = (CHUNK_BYTES - sizeof(struct chunk)) / sizeof(struct fy_binding)
    };
    for (;;) {
        struct chunk *chunk = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
        if (chunk) {
            size_t i = __atomic_fetch_add(&chunk->used, 1, __ATOMIC_RELAXED);
            if (i < ROWS)
                return &chunk->row[i];
        }
        struct chunk *fresh = mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fresh == MAP_FAILED)
            return NULL;
        if (!__atomic_compare_exchange_n(&current, &chunk, fresh, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            munmap(fresh, CHUNK_BYTES);
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
    do
        binding->next = old;
    while (!__atomic_compare_exchange_n(head, &old, binding, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* As the dynamic linker ends a program whose lazily bound name has no target. */
static void __attribute__((noreturn)) undefined(const char *name)
{
    static const char text[] = "symbol lookup error: undefined symbol: ";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 ||
        write(STDERR_FILENO, name, strlen(name)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0)
        _exit(127);
    _exit(127);
}

/* The last resort: whoever defines it, when the caller cannot be placed. */
static void *
find_anywhere(const char *name)
{
    return find_between(name, 0, UINT32_MAX);
}

/* ---- lists ---------------------------------------------------------------- */

/*
 * Guards the retired list and the pool; no foreign code runs under it. Holds
 * the owner's process id, so that a child forked in between can take it over.
 */
static pid_t owner;
static __thread bool holding __attribute__((tls_model("initial-exec")));
static struct fy_binding *graveyard;
static uint32_t stubs_used;

/* False in a signal handler that interrupted its own thread under it. */
static bool
lock(void)
{
    pid_t self = getpid();
    if (holding)
        return false;
    holding = true;
    for (;;) {
        pid_t seen = 0;
        if (__atomic_compare_exchange_n(&owner, &seen, self, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
        if (seen != self &&
            __atomic_compare_exchange_n(&owner, &seen, self, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
        sched_yield();
    }
}

static void
unlock(void)
{
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
    holding = false;
}

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

const struct fy_binding *
fy_bind_call(struct fy_frame *frame)
{
    int *error = &errno, saved = *error;
    uint32_t symbol = (uint32_t)frame->u.symbol;
    const char *name = symbol_name(symbol);
    void *original = find_startup(name);
    bool for_all = original != NULL;
    if (!original)
        original = fy_original_find(symbol, frame->caller);
    if (!original)
        original = find_anywhere(name);
    if (!original)
        undefined(name);
    /* Serves calls from code of no object, or without memory for more. */
    static __thread struct fy_binding mine
        __attribute__((tls_model("initial-exec")));
    fill_binding(&mine, symbol, original);
    mine.low = mine.size = 0;
    struct fy_binding *binding = &mine;
    struct fy_object object;
    if (for_all || fy_object_at(frame->caller, &object) == 0) {
        mine.low = for_all ? 0 : object.low;
        mine.size = for_all ? UINT64_MAX : object.high - object.low;
        bool held = lock();
        binding = held && graveyard ? revive(&mine) : NULL;
        if (held)
            unlock();
        if (!binding && (binding = new_binding()) != NULL)
            *binding = mine;
        if (binding)
            prepend(&slots()[symbol], binding);
        else
            binding = &mine;
    }
    *error = saved;
    return binding;
}

static bool
stale(const struct fy_binding *binding)
{
    struct fy_object object;
    if (binding->size == UINT64_MAX)
        return false;
    return fy_object_at((void *)binding->low, &object) ||
           object.low != binding->low ||
           object.high - object.low != binding->size ||
           fy_object_at(binding->original, &object);
}

void
fy_bind_retire(void)
{
    if (!fy_image.model || !lock())
        return;
    for (uint32_t i = 0; i < fy_image.nsymbols; i++) {
        struct fy_binding **head = &slots()[i], **link = head;
        while (*link) {
            struct fy_binding *binding = *link;
            if (!stale(binding)) {
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
    unlock();
}

void
fy_bind_note_global(const void *dynamic)
{
    unsigned count = __atomic_load_n(&global_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; dynamic && i < count && i < MAX_GLOBAL; i++) {
        if (global_roots[i] == dynamic)
            return;
    }
    if (!lock())
        return;
    count = global_count;
    if (!dynamic)
        count = MAX_GLOBAL; /* an unknown one */
    else if (count < MAX_GLOBAL)
        __atomic_store_n(&global_roots[count], dynamic, __ATOMIC_RELEASE);
    __atomic_store_n(&global_count, count + 1, __ATOMIC_RELEASE);
    unlock();
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
        if (pool()[i]->symbol == symbol && pool()[i]->original == original)
            return stub_at(i);
    }
    if (stubs_used == fy_image.nstubs)
        return original;
    struct fy_binding *binding = new_binding();
    if (!binding)
        return original;
    fill_binding(binding, symbol, original);
    pool()[stubs_used] = binding;
    return stub_at(stubs_used++);
}

void *
fy_bind_pointer(uint32_t symbol, void *original)
{
    uintptr_t low, high;
    struct fy_object object;
    if (fy_mode == 0 || fy_is_thunk(original))
        return original;
    if (fy_object_at(original, &object) ||
        !fy_object_code(&object, original, &low, &high))
        return original; /* a variable of that name */
    if (find_global(symbol_name(symbol)) == original)
        return exported(symbol);
    if (!lock())
        return original;
    void *stub = find_stub(symbol, original);
    unlock();
    return stub;
}

void *
fy_bind_sibling(void *original, const char *name)
{
    int *error = &errno, saved = *error;
    struct fy_object object;
    void *found = NULL;
    if (fy_object_at(original, &object) == 0)
        found = find_local(&object, name);
    *error = saved;
    return found;
}
