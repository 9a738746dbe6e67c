/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that we export too, as the next object in line defines them:
 * libc (libdl, before glibc 2.34) or another preloaded tool. They cannot be
 * imported, because we export the same names first, nor looked up with dlsym,
 * which is one of them: so symbol tables are read by hand.
 */
#include "config.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "shim/calls/object.h"
#include "shim/calls/shim.h"
#include "shim/programs/exec.h"

enum {
    FUNCTIONS = 6
};
static const char *const names[FUNCTIONS] = {"dlsym",   "dlvsym", "dlopen",
                                             "dlclose", "dladdr", "dladdr1"};

static bool
is_libc(const struct fy_object *object)
{
    return object->soname && fy_texts_equal(object->soname, "libc.so.6");
}

static int
look(const struct fy_object *object, void *closure)
{
    void **out = closure;
    unsigned missing = 0;
    if (object->index == 0) {
        return 0; /* a program that defines them comes before us anyway */
    }
    for (unsigned i = 0; i < FUNCTIONS; i++) {
        const ElfW(Sym) *symbol =
            out[i] ? NULL : fy_object_symbol(object, names[i]);
        if (symbol) {
            out[i] = fy_object_address(object, symbol);
        }
        missing += !out[i];
    }
    return missing == 0;
}

const struct fy_libc *
fy_libc_find(void)
{
    static struct fy_libc found;
    static bool ready;
    /* Every thread that races here stores the same values. */
    if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
        void *at[FUNCTIONS] = {NULL};
        /* dl_iterate_phdr may be the function of a library (libtsan) that is
         * asking ferry for the real one. */
        fy_object_each_early(look, at);
        found.dlsym = (void *(*)(void *, const char *))at[0];
        found.dlvsym = (void *(*)(void *, const char *, const char *))at[1];
        found.dlopen = (void *(*)(const char *, int))at[2];
        found.dlclose = (int (*)(void *))at[3];
        found.dladdr = (int (*)(const void *, Dl_info *))at[4];
        found.dladdr1 = (int (*)(const void *, Dl_info *, void **, int))at[5];
        __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
    }
    return &found;
}

/* ---- calls of the dynamic linker that are on their way ------------------------------ */

static unsigned linking; /* of all threads */
static __thread unsigned linking_here
    __attribute__((tls_model("initial-exec")));

void
fy_linking(int delta)
{
    linking_here += (unsigned)delta;
    __atomic_add_fetch(&linking, (unsigned)delta, __ATOMIC_SEQ_CST);
}

/* Walks over the objects, which hold a lock of the dynamic linker's, and of which process
 * the last one was. */
static unsigned walking;
static __thread unsigned walking_here
    __attribute__((tls_model("initial-exec")));
static pid_t walker;

void
fy_walking(int delta)
{
    if (delta > 0 && !__atomic_load_n(&fy_filters, __ATOMIC_RELAXED)) {
        __atomic_store_n(&walker, getpid(), __ATOMIC_RELAXED);
    }
    walking_here += (unsigned)delta;
    __atomic_add_fetch(&walking, (unsigned)delta, __ATOMIC_SEQ_CST);
}

bool
fy_others_link(void)
{
    return __atomic_load_n(&linking, __ATOMIC_SEQ_CST) != linking_here ||
           (__atomic_load_n(&walking, __ATOMIC_SEQ_CST) != walking_here &&
            __atomic_load_n(&walker, __ATOMIC_RELAXED) != getpid());
}

/* ---- dlerror --------------------------------------------------------------------- */

/* Distance of libc's variable that points to the message of dlerror(), from
 * each thread's pointer; libc's thread-local memory is at the same distance
 * in each thread. 0: not found. */
static ptrdiff_t error_offset;

static char *
thread_pointer(void)
{
    char *self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}

void
fy_linker_error_find(void)
{
    if (!__atomic_load_n(&error_offset, __ATOMIC_RELAXED)) {
        char *at = fy_object_thread_local("libc.so.6", "__libc_dlerror_result");
        if (at) {
            __atomic_store_n(&error_offset, at - thread_pointer(),
                             __ATOMIC_RELAXED);
        }
    }
}

static void **
error_of_thread(void)
{
    ptrdiff_t offset = __atomic_load_n(&error_offset, __ATOMIC_RELAXED);
    return offset ? (void **)(void *)(thread_pointer() + offset) : NULL;
}

void *
fy_linker_error_aside(void)
{
    void **error = error_of_thread(), *program = error ? *error : NULL;
    if (error) {
        *error = NULL;
    }
    return program;
}

void
fy_linker_error_back(void *program)
{
    void **error = error_of_thread();
    if (!error) {
        return;
    }
    if (*error && program) {
        /* An error that is no error any more is freed with the next one. */
        (void)fy_libc_find()->dlsym(RTLD_DEFAULT, "ferry's own");
    }
    if (*error) {
        (void)dlerror();
        (void)dlerror(); /* the answer is freed */
    }
    if (program) {
        *error = program;
    }
}

/* ---- those of programs/exec.h --------------------------------------------------------- */

/* In the order of enum fy_wrapped. */
static const char *const wrapped_names[FY_WRAPPED_COUNT] = {
    "execve",       "execvpe",     "fexecve",       "execveat", "posix_spawn",
    "posix_spawnp", "pidfd_spawn", "pidfd_spawnp",  "syscall",  "system",
    "popen",        "pclose",      "fclose",        "prctl",    "longjmp",
    "_longjmp",     "siglongjmp",  "__longjmp_chk", "unshare",  "setns",
    "mremap",
};

struct wanted {
    const char *name;
    void *found;
    bool foreign;
};

static int
look_for(const struct fy_object *object, void *closure)
{
    struct wanted *wanted = closure;
    if (object->index == 0) {
        return 0;
    }
    const ElfW(Sym) *symbol = fy_object_symbol(object, wanted->name);
    if (symbol) {
        wanted->found = fy_object_address(object, symbol);
        wanted->foreign = !is_libc(object);
        return 1;
    }
    return is_libc(object); /* nobody behind it has them */
}

void *
fy_original(enum fy_wrapped which)
{
    static FY_NEAR void *known[FY_WRAPPED_COUNT];
    /* Whoever races here, or runs on shared memory, stores the same. */
    void *original = __atomic_load_n(&known[which], __ATOMIC_RELAXED);
    if (!original) {
        struct wanted wanted = {.name = wrapped_names[which]};
        fy_object_each_early(look_for, &wanted);
        original = wanted.found;
        __atomic_store_n(&known[which], original, __ATOMIC_RELAXED);
    }
    return original;
}

bool
fy_original_is_foreign(enum fy_wrapped which)
{
    struct wanted wanted = {.name = wrapped_names[which]};
    fy_object_each_early(look_for, &wanted);
    return wanted.foreign;
}
