/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls of an annotated name lead to (shim/calls/bind.c): names, bindings of
 * objects and of the whole process, stubs, and the shim's lock. The image, the scopes
 * and the loaded objects are the test's. Each case runs in a
 * process that has bound nothing yet. Long because each rule of binding has a case.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "shim/calls/object.h"
#include "shim/calls/shim.h"
#include "tests/patience.h"
#include "tests/unit/runner.h"

#undef fy_image /* the struct is meant here */

enum {
    NAMES = 7,
    HIDDEN = 3, /* has no thunk */
    STUBS = 5,
    OBJECT_BYTES = 0x1000,
    MANY = 3000, /* bindings: several times what is allocated at once */
};

static const char *const names[NAMES] = {"axpy", "dot",  "dots", "hidden",
                                         "nrm2", "scal", "swap"};

/* As the generator lays it out: offsets count from the image. */
struct tables {
    struct fy_image image;
    struct fy_thunk_info info[NAMES];
    struct fy_binding *slots[NAMES];
    struct fy_binding *pool[STUBS];
    char stubs[STUBS + 1][FY_STUB_BYTES];
    uint64_t bloom[4];
    struct fy_model model __attribute__((aligned(8)));
    struct fy_symbol symbols[NAMES] __attribute__((aligned(8)));
    char strings[NAMES][8];
};
extern struct tables tables __asm__("fy_image");
struct tables tables;

uint8_t fy_mode;
unsigned fy_filters;

/* Code of objects, of which each has a page, and of their originals. */
static char objects[MANY + 1][OBJECT_BYTES]
    __attribute__((aligned(OBJECT_BYTES)));
static char originals[4];
static void *startup, *anywhere, *global, *of_caller;
static void *brought;     /* by the caller itself */
static const void *asked; /* the caller that fy_original_find() was asked for */
static const void *to_keep; /* that fy_keep_for() was asked for */
static bool is_code, no_memory, no_stack, others_link, in_handler, cannot_keep;

void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__wrap_mmap(void *, size_t, int, int, int, off_t);

void *
__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd,
            off_t offset)
{
    if (no_memory) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}

void
fy_thunk_declined(void)
{
}

/* Ferry's stack is the caller's here. */
bool
fy_stack_take(struct fy_frame *frame)
{
    return frame && !no_stack;
}

void
fy_stack_run(const struct fy_frame *frame, void (*run)(void *), void *closure)
{
    (void)frame;
    run(closure);
}

bool
fy_others_link(void)
{
    return others_link;
}

bool
fy_in_handler(const void *stack)
{
    (void)stack;
    return in_handler;
}

bool
fy_keep_for(const struct fy_object *user, const void *original)
{
    (void)user;
    to_keep = original;
    return !cannot_keep;
}

const char *
fy_symbol_name(uint32_t symbol)
{
    return names[symbol];
}

void *
fy_scope_local(const struct fy_object *root, const char *name)
{
    (void)name;
    return root ? brought : NULL;
}

void *
fy_scope_startup(const char *name)
{
    return strcmp(name, "dot") == 0 ? startup : NULL;
}

void *
fy_original_find(const char *name, const void *caller)
{
    asked = caller;
    errno = EIO;
    return name == names[1] || name == names[2] ? of_caller : NULL;
}

void *
fy_scope_anywhere(const char *name)
{
    return strcmp(name, "dot") == 0 ? anywhere : NULL;
}

void *
fy_scope_global(const char *name)
{
    return strcmp(name, "dot") == 0 ? global : NULL;
}

bool
fy_is_thunk(const void *address)
{
    return address == tables.stubs[0];
}

int
fy_object_at(const void *address, struct fy_object *out)
{
    const char *at = address;
    if (at == originals + 3) {
        return FY_ERR_INVALID;
    }
    if (at < objects[0] || at >= objects[MANY + 1]) {
        out->low = (uintptr_t)originals;
        return 0;
    }
    out->low = (uintptr_t)at / OBJECT_BYTES * OBJECT_BYTES;
    out->high = out->low + 0x800;
    /* The last page is of no object. */
    return at >= objects[MANY] ? FY_ERR_INVALID : 0;
}

bool
fy_object_code(const struct fy_object *object, const void *address,
               uintptr_t *low, uintptr_t *high)
{
    (void)address;
    ck_assert_uint_eq(object->low, (uintptr_t)originals);
    *low = *high = 0;
    return is_code;
}

static int32_t
offset_of(const void *table)
{
    return (int32_t)((const char *)table - (const char *)&tables);
}

static void
setup(void)
{
    tables.image.model = offset_of(&tables.model);
    tables.image.info = offset_of(tables.info);
    tables.image.slots = offset_of(tables.slots);
    tables.image.pool = offset_of(tables.pool);
    tables.image.stubs = offset_of(tables.stubs);
    tables.image.bloom = offset_of(tables.bloom);
    tables.image.nsymbols = NAMES;
    tables.image.nstubs = STUBS;
    tables.image.nbloom = 4;
    tables.image.bloom_shift = 6;
    tables.model.symbols.offset =
        (uint32_t)((char *)tables.symbols - (char *)&tables.model);
    tables.model.strings.offset =
        (uint32_t)((char *)tables.strings - (char *)&tables.model);
    for (int i = 0; i < NAMES; i++) {
        strcpy(tables.strings[i], names[i]);
        tables.symbols[i].name = (fy_str)(i * 8);
        tables.info[i].thunk = i == HIDDEN ? 0 : 1000 + i;
        tables.info[i].bound = 2000 + i;
    }
    memset(tables.bloom, 0xff, sizeof tables.bloom);
    fy_mode = 1;
    startup = anywhere = global = NULL;
    of_caller = &originals[0];
    is_code = true;
}

static const struct fy_binding *
call(uint32_t symbol, const void *caller)
{
    struct fy_frame frame = {.u.symbol = symbol,
                             .caller = (void *)(uintptr_t)caller};
    errno = ENOLCK;
    const struct fy_binding *binding = fy_bind_call(&frame);
    ck_assert_int_eq(errno, ENOLCK);
    return binding;
}

/* Bindings in the list of a symbol. */
static unsigned
kept(uint32_t symbol)
{
    unsigned n = 0;
    for (const struct fy_binding *b = tables.slots[symbol]; b; b = b->next) {
        ck_assert_uint_eq(b->symbol, symbol);
        ck_assert_uint_lt(n, 2 * MANY); /* no ring */
        n++;
    }
    return n;
}

/* ---- names ------------------------------------------------------------------------- */

/* The hash of ELF's symbol tables. */
static uint32_t
hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++) {
        h = h * 33 + (unsigned char)*name;
    }
    return h;
}

START_TEST(names_are_found)
{
    static const char *const others[] = {
        "", "a", "axp", "axpyy", "do", "dotss", "m", "swaps", "zz", "\377\377"};
    for (uint32_t i = 0; i < NAMES; i++) {
        ck_assert_uint_eq(fy_names_find(names[i]), i == HIDDEN ? FY_NIL : i);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_uint_eq(fy_names_find(others[i]), FY_NIL);
    }
    tables.image.model = 0;
    ck_assert_uint_eq(fy_names_find("dot"), FY_NIL);
}
END_TEST

/* Two bits of one word say that a name may be known; what lacks one is not looked up. */
START_TEST(names_that_the_filter_lacks)
{
    for (uint32_t i = 0; i < NAMES; i++) {
        uint32_t h = hash(names[i]);
        uint64_t *word = &tables.bloom[h / 64 % 4];
        uint64_t one = UINT64_C(1) << h % 64, two = UINT64_C(1)
                                                    << (h >> 6) % 64;
        uint32_t found = i == HIDDEN ? FY_NIL : i;
        memset(tables.bloom, 0, sizeof tables.bloom);
        ck_assert_uint_eq(fy_names_find(names[i]), FY_NIL);
        *word = one | two;
        ck_assert_uint_eq(fy_names_find(names[i]), found);
        memset(tables.bloom, 0xff, sizeof tables.bloom);
        *word = ~one;
        ck_assert_uint_eq(fy_names_find(names[i]), FY_NIL);
        *word = ~two;
        ck_assert_uint_eq(fy_names_find(names[i]), FY_NIL);
    }
}
END_TEST

/* ---- bindings ------------------------------------------------------------------------ */

static void
bound_to(const struct fy_binding *binding, uint32_t symbol, uint64_t low,
         uint64_t size, void *original)
{
    ck_assert_uint_eq(binding->symbol, symbol);
    ck_assert_uint_eq(binding->low, low);
    ck_assert_uint_eq(binding->size, size);
    ck_assert_ptr_eq(binding->original, original);
    ck_assert_ptr_eq(binding->bound, (char *)&tables + 2000 + symbol);
    ck_assert_ptr_eq(binding->target, fy_mode >= 3
                                          ? (void *)(uintptr_t)fy_thunk_declined
                                          : original);
}

START_TEST(a_binding_is_of_the_callers_object)
{
    fy_mode = (uint8_t)_i;
    const struct fy_binding *first = call(1, objects[2] + 5), *second;
    ck_assert_ptr_eq(asked, objects[2] + 5);
    bound_to(first, 1, (uintptr_t)objects[2], 0x800, &originals[0]);
    of_caller = &originals[1];
    second = call(1, objects[7]);
    bound_to(second, 1, (uintptr_t)objects[7], 0x800, &originals[1]);
    ck_assert_ptr_eq(tables.slots[1], second);
    ck_assert_ptr_eq(second->next, first);
    ck_assert_ptr_null(first->next);
    for (uint32_t i = 0; i < NAMES; i++) {
        ck_assert_uint_eq(kept(i), i == 1 ? 2 : 0);
    }
}
END_TEST

/* Objects of the start come first, then the caller's scope, then all there are. */
START_TEST(an_original_is_looked_for_in_turn)
{
    startup = &originals[0];
    of_caller = &originals[1];
    anywhere = &originals[2];
    bound_to(call(1, objects[0]), 1, 0, UINT64_MAX, &originals[0]);
    startup = NULL;
    bound_to(call(1, objects[1]), 1, (uintptr_t)objects[1], 0x800,
             &originals[1]);
    of_caller = NULL;
    bound_to(call(1, objects[2]), 1, (uintptr_t)objects[2], 0x800,
             &originals[2]);
    ck_assert_uint_eq(kept(1), 3);
    /* A name of the start is bound for every caller, also for code of no object. */
    startup = &originals[0];
    bound_to(call(1, objects[MANY]), 1, 0, UINT64_MAX, &originals[0]);
    ck_assert_uint_eq(kept(1), 4);
}
END_TEST

/* What a later RTLD_GLOBAL brought is bound once it stays loaded. */
START_TEST(a_global_target_is_kept_first)
{
    bool *const refusals[] = {&no_stack, &in_handler, &cannot_keep};
    global = &originals[3];
    for (unsigned i = 0; i < 3; i++) {
        *refusals[i] = true;
        to_keep = NULL;
        bound_to(call(1, objects[0]), 1, 0, 0, &originals[3]);
        ck_assert_uint_eq(kept(1), 0);
        ck_assert((to_keep != NULL) == (i == 2));
        *refusals[i] = false;
    }
    fy_filters = 1; /* nothing may be asked */
    bound_to(call(1, objects[0]), 1, 0, 0, &originals[3]);
    ck_assert_uint_eq(kept(1), 0);
    fy_filters = 0;
    bound_to(call(1, objects[0]), 1, (uintptr_t)objects[0], 0x800,
             &originals[3]);
    ck_assert_uint_eq(kept(1), 1);
    ck_assert_ptr_eq(to_keep, &originals[3]);
    global = NULL;
}
END_TEST

/* While another thread is in the dynamic linker, which may wait for this one. */
START_TEST(what_the_caller_brought_is_not_waited_for)
{
    global = &originals[3];
    others_link = true;
    for (unsigned i = 0; i < 2; i++) {
        brought = i ? NULL : &originals[3];
        to_keep = NULL;
        bound_to(call(1, objects[i]), 1, (uintptr_t)objects[i], 0x800,
                 &originals[3]);
        ck_assert_ptr_eq(to_keep, i ? &originals[3] : NULL);
    }
    others_link = false;
    global = NULL;
}
END_TEST

START_TEST(a_name_without_a_target_ends_the_process)
{
    char text[200] = "";
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)call(4, objects[0]);
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + n, sizeof text - 1 - n)) > 0) {
        n += (size_t)got;
    }
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    ck_assert_str_eq(text, "symbol lookup error: undefined symbol: nrm2\n");
}
END_TEST

/* Calls of code that no object has, and calls during a dlclose. */
START_TEST(what_may_be_unloaded_is_not_kept)
{
    bound_to(call(1, objects[MANY]), 1, 0, 0, &originals[0]);
    fy_bind_closing(1);
    fy_bind_closing(1);
    bound_to(call(1, objects[0]), 1, 0, 0, &originals[0]);
    fy_bind_closing(-1);
    bound_to(call(1, objects[0]), 1, 0, 0, &originals[0]);
    ck_assert_uint_eq(kept(1), 0);
    startup = &originals[1];
    bound_to(call(1, objects[0]), 1, 0, UINT64_MAX, &originals[1]);
    startup = NULL;
    ck_assert_uint_eq(kept(1), 1);
    fy_bind_closing(-1);
    bound_to(call(1, objects[0]), 1, (uintptr_t)objects[0], 0x800,
             &originals[0]);
    ck_assert_uint_eq(kept(1), 2);
}
END_TEST

/* Each binding has memory to itself. */
START_TEST(many_bindings)
{
    unsigned n = 0;
    for (unsigned i = 0; i < MANY; i++) {
        of_caller = &originals[i % 3];
        bound_to(call(1, objects[i]), 1, (uintptr_t)objects[i], 0x800,
                 &originals[i % 3]);
    }
    for (const struct fy_binding *b = tables.slots[1]; b; b = b->next) {
        unsigned i = MANY - 1 - n++;
        ck_assert_uint_lt(i, MANY);
        bound_to(b, 1, (uintptr_t)objects[i], 0x800, &originals[i % 3]);
    }
    ck_assert_uint_eq(n, MANY);
}
END_TEST

/* Under a filter of system calls (1), or without memory (0), some are kept, and calls
 * still lead to their originals. */
START_TEST(bindings_without_memory)
{
    static const struct fy_binding *last[2];
    (void)call(2, objects[0]); /* the lock has its page */
    fy_filters = (unsigned)_i;
    no_memory = !_i;
    for (unsigned i = 0; i < 300; i++) {
        last[i % 2] = call(1, objects[i]);
    }
    no_memory = false;
    ck_assert_ptr_eq(last[0], last[1]); /* the thread's own */
    bound_to(last[0], 1, (uintptr_t)objects[299], 0x800, &originals[0]);
    ck_assert_uint_eq(kept(1), 63); /* and one of the other name */
    fy_filters = 0;
    ck_assert_ptr_ne(call(1, objects[0]), last[0]);
    ck_assert_uint_eq(kept(1), 64);
}
END_TEST

/* A binding that no lock could retire is the thread's own. */
START_TEST(bindings_without_a_lock)
{
    fy_filters = (unsigned)_i;
    no_memory = !_i;
    const struct fy_binding *own = call(1, objects[1]);
    bound_to(own, 1, 0, 0, &originals[0]);
    ck_assert_ptr_eq(call(1, objects[2]), own);
    ck_assert_uint_eq(kept(1), 0);
    no_memory = false;
    fy_filters = 0;
    ck_assert_ptr_ne(call(1, objects[1]), own);
    ck_assert_uint_eq(kept(1), 1);
}
END_TEST

/* ---- what is closed -------------------------------------------------------------------- */

START_TEST(bindings_retire_and_come_back)
{
    const struct fy_binding *stay[2], *of[3];
    startup = &originals[2];
    stay[0] = call(1, objects[0]);
    startup = NULL;
    of[0] = call(1, objects[0]);
    of[1] = call(1, objects[1]);
    startup = &originals[2];
    stay[1] = call(1, objects[0]);
    startup = NULL;
    of[2] = call(2, objects[0]);
    fy_bind_retire();
    ck_assert_ptr_eq(tables.slots[1], stay[1]);
    ck_assert_ptr_eq(stay[1]->next, stay[0]);
    ck_assert_ptr_null(stay[0]->next);
    ck_assert_ptr_null(tables.slots[2]);
    /* Another original, object or name: another binding. */
    of_caller = &originals[1];
    const struct fy_binding *other = call(1, objects[0]);
    ck_assert(other != of[0] && other != of[1] && other != of[2]);
    of_caller = &originals[0];
    other = call(1, objects[2]);
    ck_assert(other != of[0] && other != of[1] && other != of[2]);
    ck_assert_ptr_eq(call(2, objects[0]), of[2]);
    fy_filters = 1; /* then no lock is taken */
    ck_assert_ptr_ne(call(1, objects[1]), of[1]);
    fy_filters = 0;
    ck_assert_ptr_eq(call(1, objects[1]), of[1]);
    ck_assert_ptr_eq(call(1, objects[0]), of[0]);
    bound_to(of[0], 1, (uintptr_t)objects[0], 0x800, &originals[0]);
    ck_assert_uint_eq(kept(1), 7);
    ck_assert_uint_eq(kept(2), 1);
    /* Each came back once. */
    other = call(1, objects[0]);
    ck_assert(other != of[0] && other != of[1] && other != of[2]);
}
END_TEST

START_TEST(nothing_retires_without_a_model)
{
    (void)call(1, objects[0]);
    tables.image.model = 0;
    fy_bind_retire();
    ck_assert_uint_eq(kept(1), 1);
}
END_TEST

/* ---- stubs ----------------------------------------------------------------------------- */

START_TEST(a_stub_for_each_original_of_a_name)
{
    const struct {
        uint32_t symbol;
        void *original;
    } rows[STUBS] = {{1, &originals[0]},
                     {1, &originals[1]},
                     {2, &originals[0]},
                     {2, &originals[1]},
                     {0, &originals[0]}};
    fy_mode = (uint8_t)_i;
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < STUBS; i++) {
            ck_assert_ptr_eq(fy_bind_stub(rows[i].symbol, rows[i].original),
                             tables.stubs[i]);
            bound_to(tables.pool[i], rows[i].symbol, 0, 0, rows[i].original);
        }
    }
    /* None is left. */
    ck_assert_ptr_eq(fy_bind_stub(0, &originals[1]), &originals[1]);
    ck_assert_ptr_eq(fy_bind_stub(1, &originals[1]), tables.stubs[1]);
    fy_mode = 0;
    ck_assert_ptr_eq(fy_bind_stub(1, &originals[1]), &originals[1]);
}
END_TEST

START_TEST(stubs_without_memory)
{
    no_memory = true;
    void *unlocked = fy_bind_stub(1, &originals[0]);
    bool locked = fy_lock();
    no_memory = false;
    ck_assert_ptr_eq(unlocked, &originals[0]);
    ck_assert(!locked);
    ck_assert_ptr_eq(fy_bind_stub(1, &originals[0]), tables.stubs[0]);
    for (unsigned i = 0; i < 63; i++) {
        (void)call(1, objects[i]);
    }
    fy_filters = 1;
    ck_assert_ptr_eq(fy_bind_stub(1, &originals[1]), &originals[1]);
    ck_assert_ptr_null(tables.pool[1]);
    fy_filters = 0;
    ck_assert_ptr_eq(fy_bind_stub(1, &originals[1]), tables.stubs[1]);
}
END_TEST

START_TEST(a_pointer_of_each_kind)
{
    ck_assert_ptr_eq(fy_bind_pointer(1, &originals[0]), tables.stubs[0]);
    /* What the name means from the start on is the exported function. */
    startup = &originals[1];
    ck_assert_ptr_eq(fy_bind_pointer(1, &originals[1]), (char *)&tables + 1001);
    ck_assert_ptr_eq(fy_bind_pointer(2, &originals[1]), tables.stubs[1]);
    /* What a later RTLD_GLOBAL brought is not. */
    global = &originals[2];
    ck_assert_ptr_eq(fy_bind_pointer(1, &originals[2]), tables.stubs[2]);
    /* A thunk, code of no object, a variable: as they are. */
    ck_assert_ptr_eq(fy_bind_pointer(1, tables.stubs[0]), tables.stubs[0]);
    ck_assert_ptr_eq(fy_bind_pointer(1, &originals[3]), &originals[3]);
    is_code = false;
    ck_assert_ptr_eq(fy_bind_pointer(2, &originals[0]), &originals[0]);
    is_code = true;
    fy_mode = 0;
    ck_assert_ptr_eq(fy_bind_pointer(1, &originals[0]), &originals[0]);
}
END_TEST

/* ---- the lock ---------------------------------------------------------------------------- */

START_TEST(the_holder_of_the_lock_has_no_signals)
{
    sigset_t mine, seen;
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
    errno = ENOLCK;
    for (int i = 0; i < 2; i++) {
        ck_assert(fy_lock());
        ck_assert_int_eq(errno, ENOLCK);
        ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &seen), 0);
        ck_assert(sigismember(&seen, SIGUSR1) && sigismember(&seen, SIGTERM) &&
                  sigismember(&seen, SIGSEGV) && !sigismember(&seen, SIGTRAP));
        fy_unlock();
        ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &seen), 0);
        ck_assert(sigismember(&seen, SIGUSR1) && !sigismember(&seen, SIGTERM) &&
                  !sigismember(&seen, SIGSEGV));
    }
}
END_TEST

START_TEST(a_child_has_the_lock_free)
{
    int status;
    ck_assert(fy_lock());
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        alarm((unsigned)patient(60));
        _exit(fy_lock() ? 7 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    fy_unlock();
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
END_TEST

static unsigned counter;

static void *
count(void *unused)
{
    for (unsigned i = 0; i < 20000; i++) {
        ck_assert(fy_lock());
        unsigned seen = *(volatile unsigned *)&counter;
        *(volatile unsigned *)&counter = seen + 1;
        fy_unlock();
    }
    return unused;
}

START_TEST(one_thread_holds_the_lock)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(counter, 80000);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("shim_bind");
    TCase *cases = tcase_create("shim_bind");
    tcase_add_checked_fixture(cases, setup, NULL);
    tcase_add_test(cases, names_are_found);
    tcase_add_test(cases, names_that_the_filter_lacks);
    tcase_add_loop_test(cases, a_binding_is_of_the_callers_object, 1, 5);
    tcase_add_test(cases, an_original_is_looked_for_in_turn);
    tcase_add_test(cases, a_global_target_is_kept_first);
    tcase_add_test(cases, what_the_caller_brought_is_not_waited_for);
    tcase_add_test(cases, a_name_without_a_target_ends_the_process);
    tcase_add_test(cases, what_may_be_unloaded_is_not_kept);
    tcase_add_test(cases, many_bindings);
    tcase_add_loop_test(cases, bindings_without_memory, 0, 2);
    tcase_add_loop_test(cases, bindings_without_a_lock, 0, 2);
    tcase_add_test(cases, bindings_retire_and_come_back);
    tcase_add_test(cases, nothing_retires_without_a_model);
    tcase_add_loop_test(cases, a_stub_for_each_original_of_a_name, 1, 5);
    tcase_add_test(cases, stubs_without_memory);
    tcase_add_test(cases, a_pointer_of_each_kind);
    tcase_add_test(cases, the_holder_of_the_lock_has_no_signals);
    tcase_add_test(cases, a_child_has_the_lock_free);
    tcase_add_test(cases, one_thread_holds_the_lock);
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
