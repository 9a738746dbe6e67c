/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libferry.so: the inside of the object that is preloaded into every program.
 * It offers nothing to C callers. It exports dlopen, dlsym, dladdr and their kin,
 * its anchor (image/image.h), and, once image/build.c has extended it, a thunk for every
 * annotated name.
 *
 *   thunk -> predicate says no -> original           (a few instructions)
 *         -> unknown caller    -> fy_bind_call()     finds the original
 *         -> predicate says yes -> fy_dispatch()     asks the engine
 *
 * Rules of this folder: nothing here exits, prints, allocates with malloc or changes
 * errno; no lock is held while foreign code runs; data that other threads may read is
 * published whole and never changed; every function is safe from any thread and after
 * fork. Only fy_engine() loads anything.
 */
#ifndef FERRY_SHIM_CALLS_SHIM_H
#define FERRY_SHIM_CALLS_SHIM_H

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "annotations/model/model.h"
#include "common/record.h"
#include "pager/engine/engine.h"
#include "shim/arch/x86_64/layout.h"
#include "shim/image/image.h"

#define FY_HIDDEN __attribute__((visibility("hidden")))

/*
 * Places variables that many programs write once (zero at first) on the page
 * that relocation has already made private: another page would be another
 * fault in each program.
 */
#define FY_NEAR __attribute__((section(".data")))

/* Modes of the environment protocol; FY_MODE_* of common/settings.h. */
#define FY_MODE_COUNTS(mode) ((mode) >= 3)

/*
 * The target of one symbol's calls from one object. Immutable once it is in a
 * list, and never freed, because a thread may be between two of its fields. A
 * binding of a stub (a pointer that dlsym returned) has no caller: low = size
 * = 0.
 */
struct fy_binding {
    uint64_t low, size;         /* the caller's addresses */
    void *target;               /* where a declined call jumps */
    void *bound;                /* the symbol's thunk behind its look-up */
    void *original;             /* never one of our thunks */
    struct fy_binding *next;    /* of the same symbol */
    struct fy_binding *retired; /* next of those that no list has any more */
    uint32_t symbol;            /* row of model->symbols */
    uint32_t reserved;
};

/* One call, saved by enter.S on the caller's stack. */
struct fy_frame {
    struct fy_registers registers;
    uint64_t rax, r10;
    union {
        const struct fy_binding *binding;
        uint64_t symbol; /* for fy_bind_call() only */
    } u;
    void *caller;
    void *state;       /* vector registers; not set by fy_thunk_declined */
    uint64_t start_ns; /* between fy_count_declined() and fy_count_time() */
    struct fy_own_stack *own; /* while it is the frame's; or NULL */
    const void *accepted;     /* while this thread's fy_accepted is about it */
};

/*
 * The upper end of a stack of ferry's, which lies below. The state of vector
 * registers and the engine's frames would be too much for small threads.
 */
struct fy_own_stack {
    struct fy_frame *frame; /* whose it is; NULL: free */
    const void *thread;     /* that frame's thread pointer; NULL: not yet */
    char *low;
    struct fy_own_stack *next; /* of all */
    const void *home; /* pointer of the thread that is to find it free, */
    int home_id;      /* and its number */
} __attribute__((aligned(64)));

/* A thread's signals and cancellation as they were, to be put back. */
struct fy_quiet {
    sigset_t mask;
    sigset_t blocked; /* signals that ferry has blocked, beside those */
    int cancel;
    void *linker_error; /* fy_linker_error_aside() */
};

/*
 * The accepted call that a thread is in. Thread-local, as the frame does not outlive
 * a jump out of the call.
 */
struct fy_accepted {
    struct fy_frame *frame; /* NULL: none */
    const char *low;        /* ferry's stack that the call began on */
    size_t bytes;
    struct fy_quiet quiet;
};

/* One call of dlsym, dlvsym or dlopen, saved by dl.S. */
struct fy_dl_call {
    void *arg0, *arg1, *arg2;
    void *caller;
    void *target;
    void *result;
    uint64_t extra; /* from the plan to the after half */
};

#define AT(kind, field, value) \
    _Static_assert(offsetof(struct kind, field) == (value), "layout.h")
AT(fy_binding, low, FY_BINDING_LOW);
AT(fy_binding, size, FY_BINDING_SIZE);
AT(fy_binding, target, FY_BINDING_TARGET);
AT(fy_binding, bound, FY_BINDING_BOUND);
AT(fy_binding, original, FY_BINDING_ORIGINAL);
AT(fy_binding, next, FY_BINDING_NEXT);
AT(fy_frame, registers.integer, FY_FRAME_INTEGER);
AT(fy_frame, registers.vector, FY_FRAME_VECTOR);
AT(fy_frame, registers.stack, FY_FRAME_STACK);
AT(fy_frame, registers.result, FY_FRAME_RESULT);
AT(fy_frame, registers.vector_result, FY_FRAME_VECTOR_RESULT);
AT(fy_frame, rax, FY_FRAME_RAX);
AT(fy_frame, r10, FY_FRAME_R10);
AT(fy_frame, u, FY_FRAME_R11);
AT(fy_frame, caller, FY_FRAME_CALLER);
AT(fy_frame, state, FY_FRAME_STATE);
AT(fy_frame, start_ns, FY_FRAME_START);
AT(fy_frame, own, FY_FRAME_OWN);
AT(fy_own_stack, frame, FY_OWN_FRAME);
AT(fy_own_stack, thread, FY_OWN_THREAD);
AT(fy_accepted, frame, 0);
AT(fy_accepted, low, 8);
AT(fy_accepted, bytes, 16);
AT(fy_dl_call, caller, FY_DL_CALLER);
AT(fy_dl_call, target, FY_DL_TARGET);
AT(fy_dl_call, result, FY_DL_RESULT);
AT(fy_dl_call, extra, FY_DL_EXTRA);
AT(fy_image, slots, FY_IMAGE_SLOTS);
#undef AT
_Static_assert(sizeof(struct fy_frame) <= FY_FRAME_BYTES, "layout.h");
_Static_assert(sizeof(struct fy_dl_call) == FY_DL_BYTES, "layout.h");
_Static_assert(sizeof(struct fy_image) == 76, "image.S");

/* image.S; the tables are there when fy_image.model is not 0. */
extern FY_HIDDEN const struct fy_image fy_image_start[] __asm__("fy_image");
#define fy_image (fy_image_start[0])
#define FY_IMAGE_TABLE(kind, field) \
    ((kind *)(uintptr_t)((const char *)&fy_image + fy_image.field))

static inline const struct fy_model *
fy_shim_model(void)
{
    return FY_IMAGE_TABLE(const struct fy_model, model);
}

/* ---- start/start.c: settings ------------------------------------------------- */

/* enum fy_mode: set before main, and to 0 by filter.c. */
extern FY_HIDDEN uint8_t fy_mode;
/* Valgrind translates the process: calls run on their own stacks, by their originals. */
extern FY_HIDDEN bool fy_valgrind;
extern FY_HIDDEN unsigned fy_startup_objects; /* objects loaded before main */

/* The program's headers, where the kernel says they are; 0: not looked at. */
extern FY_HIDDEN uintptr_t fy_start_phdr;
extern FY_HIDDEN unsigned long fy_start_phnum;

/* The text of FERRY_SETTINGS as it was at start, "" without one. */
extern FY_HIDDEN const char *fy_settings_kept; /* start.c's copy of them */
/* That text, never NULL; it stays. */
FY_HIDDEN const char *fy_settings_text(void);

/*
 * The value of `key' in that text, decoded into `out'. False when it is not
 * there, empty, or longer than `capacity' with its NUL.
 */
FY_HIDDEN bool fy_settings_value(const char *key, char *out, size_t capacity);

/* ---- scope.c: originals --------------------------------------------------- */

struct fy_object;

/* The original of that name in the scope of the object at `caller', or NULL. */
FY_HIDDEN void *fy_original_find(const char *name, const void *caller);

/*
 * Tells that the object with this dynamic section was opened with RTLD_GLOBAL
 * after start; NULL: which one could not be seen.
 */
FY_HIDDEN void fy_bind_note_global(const void *dynamic);
/* Forgets closed libraries in the list of RTLD_GLOBAL objects, and whatever
 * is loaded at their addresses later. Call after a dlclose(). */
FY_HIDDEN void fy_bind_forget_global(void);

/*
 * As fy_original_find(), for objects that were opened with `root': those that
 * RTLD_DEEPBIND opened; and all others, but NULL when an object of the start has it, and
 * *out_global says whether the global scope has.
 */
FY_HIDDEN void *fy_original_deep(uint32_t symbol, const struct fy_object *root);
FY_HIDDEN void *fy_original_late(uint32_t symbol, const struct fy_object *root,
                                 bool *out_global);

/* services->sibling of pager/engine/engine.h. */
FY_HIDDEN void *fy_bind_sibling(void *original, const char *name);

/*
 * Look a name up: among the objects of the start, which stay; among those and
 * the libraries opened with RTLD_GLOBAL; in an object and its dependencies; in
 * all objects.
 */
FY_HIDDEN void *fy_scope_startup(const char *name);
FY_HIDDEN void *fy_scope_global(const char *name);
FY_HIDDEN void *fy_scope_local(const struct fy_object *root, const char *name);
FY_HIDDEN void *fy_scope_anywhere(const char *name);

/* ---- keep.c: libraries that stay --------------------------------------------- */

/*
 * Ties the library of `original' to the object `user' as glibc would: the
 * library stays until the user is unloaded. False: it is gone, or cannot be
 * kept. Waits for the dynamic linker, as glibc does. Keeps errno and
 * dlerror(). If another thread closed the library before, the object that came
 * to its address stays: look again, at most FY_KEEP_LOOKS times.
 */
enum {
    FY_KEEP_LOOKS = 8
};
FY_HIDDEN bool fy_keep_for(const struct fy_object *user, const void *original);
/* Lets go of libraries that were kept for objects that are gone. Call after
 * a dlclose(). */
FY_HIDDEN void fy_keep_settle(void);

/* ---- bind.c: bindings -------------------------------------------------- */

/* From fy_thunk_miss: the binding of frame->u.symbol for frame->caller. */
FY_HIDDEN const struct fy_binding *fy_bind_call(struct fy_frame *frame);

/*
 * A function that behaves as `original' with ferry before it: our exported
 * name if it leads there from everywhere, else a stub of its own, always the
 * same for the same original. `original' itself when there is none left.
 */
FY_HIDDEN void *fy_bind_pointer(uint32_t symbol, void *original);

/* The original of the stub at exactly that address; NULL: it is no stub in use. */
FY_HIDDEN void *fy_bind_original(const void *address);

/* The stub alone, for an original that is known not to be global. */
FY_HIDDEN void *fy_bind_stub(uint32_t symbol, void *original);

/*
 * The shim's one lock, for a few instructions or system calls: no foreign code
 * runs and nothing of the dynamic linker is waited for under it. All signals of
 * the holder are blocked, so handlers of the program never meet it. A child that
 * was forked in between has it free. False, and not locked: without memory; and under a
 * filter, where signals arrive, before its memory was made and in their handlers.
 */
FY_HIDDEN bool fy_lock(void) FY_MUST_CHECK;
/* By the thread that has the lock. Handlers of signals that waited run before this
 * returns. */
FY_HIDDEN void fy_unlock(void);
/* Returns true if memory for the lock is there, or can be had now. */
FY_HIDDEN bool fy_lock_is_possible(void);

/*
 * Before objects may be unloaded: forgets all bindings but those of names that
 * an object of the start defines; calls bind them again. Between fy_bind_closing(1) and
 * fy_bind_closing(-1) such bindings are not kept: destructors call, and another
 * thread may get an object at the same addresses as soon as they are free.
 */
FY_HIDDEN void fy_bind_retire(void);
FY_HIDDEN void fy_bind_closing(int delta);

/* Row of model->symbols with that name, or FY_NIL. No libc. */
FY_HIDDEN uint32_t fy_names_find(const char *name);

FY_HIDDEN const char *fy_symbol_name(uint32_t symbol);

/* Returns true if an address is that of a thunk or a stub of ferry. */
FY_HIDDEN bool fy_is_thunk(const void *address);

/* ---- imports.c: libc's functions, for ferry's own objects -------------------------- */

/* Makes the preloaded object call the functions of the library that it was linked with,
 * whatever the program defines. Called by the constructor before all else. */
FY_HIDDEN void fy_imports_start(void);
/* Makes the engine, and the libraries that it needs and that came after the mark, call
 * such functions, too. */
FY_HIDDEN void fy_imports_lead(const struct fy_object *engine, uint64_t mark);
/* Finds and stores the function of a slot of the PLT, for imports.S; NULL: the dynamic
 * linker has to find and store the function. No lock, no libc. */
FY_HIDDEN void *fy_imports_bind(uint64_t slot);
/* Stands behind the PLT (imports.S) in place of the dynamic linker's function. */
FY_HIDDEN void fy_imports_entry(void);
extern FY_HIDDEN void *fy_imports_linker; /* that function */

/* ---- start/libc.c: the functions that we hide ---------------------------------- */

/* The functions behind our own exported ones; NULL until fy_libc_find(). */
struct fy_libc {
    void *(*dlsym)(void *handle, const char *name);
    void *(*dlvsym)(void *handle, const char *name, const char *version);
    void *(*dlopen)(const char *file, int mode);
    int (*dlclose)(void *handle);
    int (*dladdr)(const void *address, Dl_info *info);
    int (*dladdr1)(const void *address, Dl_info *info, void **extra, int flags);
};
/* Finds them at the first call, without a lock. Never NULL; static storage; a function
 * that no later object defines stays NULL. */
FY_HIDDEN const struct fy_libc *fy_libc_find(void);

/* Around calls of the last two, with 1 and -1. */
FY_HIDDEN void fy_linking(int delta);
/* Around walks over the loaded objects, with 1 and -1. */
FY_HIDDEN void fy_walking(int delta);
/* Returns true if another thread is in such a call, or was in one or in a
 * walk when this process was forked: that thread may wait for this one, or
 * keep a lock for ever, so this thread must not wait for the dynamic linker. */
FY_HIDDEN bool fy_others_link(void);

/* Finds glibc's private variable (2.34 and later) behind dlerror(). Until then, and
 * without it, the next two do nothing. */
FY_HIDDEN void fy_linker_error_find(void);
/* Takes the message that dlerror() would give the calling thread, for
 * fy_linker_error_back(); NULL: there is none. */
FY_HIDDEN void *fy_linker_error_aside(void);
/* Frees the error of ferry's own calls and puts the program's back. Same thread. */
FY_HIDDEN void fy_linker_error_back(void *program);

/* ---- dl.c: C halves of dl.S ----------------------------------------------- */

/*
 * Each plans a call of the program: sets call->target to the next object's function and
 * returns FY_DL_TAIL or, with call->result set, FY_DL_DONE (layout.h). For dlopen(),
 * FY_DL_DONE: call the target, then fy_dlopen_after(). errno is as the call leaves it.
 */
FY_HIDDEN int fy_dlsym_plan(struct fy_dl_call *call);
FY_HIDDEN int fy_dlvsym_plan(struct fy_dl_call *call);
FY_HIDDEN int fy_dlopen_plan(struct fy_dl_call *call);
/* After the target of a planned dlopen(): patches the object that it opened, if any.
 * errno stays. */
FY_HIDDEN void fy_dlopen_after(struct fy_dl_call *call);

/* These are the exported wrappers, as dlsym(3) and dlopen(3), under hidden names: for
 * slots of objects that would not find the exported ones. */
FY_HIDDEN void *fy_wrap_dlsym(void *handle, const char *name);
FY_HIDDEN void *fy_wrap_dlvsym(void *handle, const char *name,
                               const char *version);
FY_HIDDEN void *fy_wrap_dlopen(const char *file, int mode);
FY_HIDDEN int fy_wrap_dlclose(void *handle);
FY_HIDDEN int fy_wrap_dladdr(const void *address, Dl_info *info);
FY_HIDDEN int fy_wrap_dladdr1(const void *address, Dl_info *info, void **extra,
                              int flags);

/* ---- write.c: stores to slots of other objects ------------------------------ */

enum {
    FY_WRITER_STORES = 64 /* made at once */
};
struct fy_writer {
    uintptr_t low, high; /* pages that the dynamic linker has made read-only */
    unsigned count;
    struct {
        uintptr_t slot, value;
    } store[FY_WRITER_STORES];
};
/* Begins stores to the object, which stays loaded until fy_writer_end(). */
FY_HIDDEN void fy_writer_start(struct fy_writer *writer,
                               const struct fy_object *object);
FY_HIDDEN void fy_writer_store(struct fy_writer *writer, uintptr_t slot,
                               uintptr_t value);
/* Makes the stores that are not made yet; none without the lock. */
FY_HIDDEN void fy_writer_end(struct fy_writer *writer);

/* ---- patch.c: slots of other objects -------------------------------------- */

/*
 * Makes the loaded objects that have undefined weak references to names which
 * only we define see null again. Returns how many objects there are. Before
 * main, while there is one thread.
 */
FY_HIDDEN unsigned fy_patch_start(void);

/*
 * Patches an object that was just opened: of the object with this dynamic
 * section, which the caller keeps open, and of its dependencies, where they
 * came after the mark, leads imports of annotated names that they find only in
 * their own dependencies to stubs of the originals. From then on their calls
 * do not depend on the return address, which may be another object's (tail
 * calls).
 *
 * `deep': they were opened with RTLD_DEEPBIND and look there first, before
 * they would see ferry; then their dlopen, dlsym, dlvsym and dlclose are led
 * through ferry, too.
 */
FY_HIDDEN void fy_patch_opened(const void *dynamic, uint64_t mark, bool deep);

/* Returns true if the object with this dynamic section was opened with
 * RTLD_DEEPBIND (known for the last 64). */
FY_HIDDEN bool fy_patch_is_deep(const void *dynamic);

/* ---- dispatch.c ------------------------------------------------------------ */

/* From enter.S: 1, results are in the frame; 0, call the original. */
FY_HIDDEN int fy_dispatch(struct fy_frame *frame);
/* Maps the counters and counts a declined call, in a counting mode while no
 * counters are mapped yet; 1: the original was called and timed. errno is
 * the original's. */
FY_HIDDEN int fy_dispatch_declined(struct fy_frame *frame);

/* services->hold of pager/engine/engine.h. */
FY_HIDDEN bool fy_dispatch_hold(const struct fy_intercepted *call);

/* For enter.S: calls that come while it has a frame are nested in that one, or show
 * that it was left. */
extern FY_HIDDEN __thread struct fy_accepted fy_accepted
    __attribute__((tls_model("initial-exec")));

/*
 * From jump.S, for the longjmp() function `which' (enum fy_wrapped) to `env', whose
 * stack pointer is `target': returns the original. Where the jump leaves an accepted
 * call, the call is given up. Where libc checks the jump, which leaves a stack of
 * ferry's, *out_stack becomes the stack pointer that the call was made with: the jump
 * goes on from there. Else NULL. Any handler.
 */
FY_HIDDEN void *fy_jump(const void *env, unsigned which, uintptr_t target,
                        const void **out_stack);

/* Nesting of this thread inside ferry: calls go straight to originals. */
extern FY_HIDDEN __thread int fy_inside
    __attribute__((tls_model("initial-exec")));

/* ---- start/handler.c ---- */

/* Returns true if the calling thread, whose stack is used from there on,
 * runs a handler of the program; in doubt true. */
FY_HIDDEN bool fy_in_handler(const void *stack);

/*
 * Returns true if the caller is a process on its parent's memory and thread-
 * local memory (vfork; CLONE_VM without a thread pointer): a thread that it
 * starts ends with it, and the parent's malloc may be running. True also for
 * the child of a clone that libc does not know of. One system call, no lock.
 */
FY_HIDDEN bool fy_is_vfork_child(void);

/* Returns the end of the main thread's stack without its arguments; NULL:
 * not known. */
FY_HIDDEN char *fy_main_stack_end(void);

/* ---- stack.c ---- */

/* The one that this thread used last, or NULL. Not the thread's alone. */
extern FY_HIDDEN __thread struct fy_own_stack *fy_own_stack
    __attribute__((tls_model("initial-exec")));

/* Makes sure that the frame has a stack of ferry's. False: no memory, or valgrind, which
 * takes old frames on another stack for undefined memory. */
FY_HIDDEN bool fy_stack_take(struct fy_frame *frame);

/* The stack of ferry's, of any thread, that the address lies on; or NULL. */
FY_HIDDEN const struct fy_own_stack *fy_stack_at(const void *at);

/*
 * In a forked child, before it has other threads: frees the stacks of the parent's
 * other threads, but those that were just being taken.
 */
FY_HIDDEN void fy_stack_forked(void);

/* Returns true if a word of a frame that was left no longer has its value,
 * or is unmapped. */
FY_HIDDEN bool fy_stack_differs(const void *const *word, const void *value);

/* Returns true if that frame lies on the main thread's stack, and the stack
 * goes on for 256 KiB. Any handler, vfork children. */
FY_HIDDEN bool fy_stack_is_ample(const void *frame);

/*
 * Calls run(argument) on the thread's own stack if there is room, else on the
 * frame's. Exceptions pass; a function that leaves in another way (longjmp)
 * leaves the stack to this thread's next call.
 */
FY_HIDDEN void fy_stack_run(const struct fy_frame *frame, void (*run)(void *),
                            void *argument);

/*
 * Both tell ThreadSanitizer, in programs that have it, that all that threads did
 * before a release of this address comes before all that follows an acquire,
 * because it does not see ferry's atomics. Any thread; they do nothing before
 * the first stack is made.
 */
FY_HIDDEN void fy_watched_acquire(void *address);
FY_HIDDEN void fy_watched_release(void *address);

/* ---- start/engine.c --------------------------------------------------------------- */

/*
 * The engine, loaded at the first call that wants it; NULL when there is none
 * (or when another thread's loading lasts longer than a second).
 */
FY_HIDDEN const struct fy_engine *fy_engine(void);

/* Returns true if fy_engine() would not load anything. */
FY_HIDDEN bool fy_engine_is_settled(void);

/* Returns true if that address is in the engine's own code. */
FY_HIDDEN bool fy_engine_has(const void *address);

/* Tells the engine, if there is one, that libraries were unloaded. */
FY_HIDDEN void fy_engine_forget(void);

/* Tells the engine that the program is about to dlopen() a library. */
FY_HIDDEN void fy_engine_loading(const char *file);

/* The engine logs nothing any more. Any thread, signal handlers. */
FY_HIDDEN void fy_engine_silence(void);
/* Ends the engine's idle threads. The program may have other threads. */
FY_HIDDEN void fy_engine_end_threads(void);
/* As the table's; without an engine MAP_FAILED, EFAULT. */
FY_HIDDEN void *fy_engine_remap(void *old, size_t old_bytes, size_t new_bytes,
                                int flags, void *to);
/* As the table's; nothing without an engine, or in a handler. */
FY_HIDDEN void fy_engine_unwatch(void);

/* ---- filter.c: seccomp --------------------------------------------------------- */

/*
 * Counts the seccomp filters that the process has put upon itself (or is about
 * to): a filter may kill it at a system call that the filter does not know.
 * fy_mode is 0 from then on.
 */
extern FY_HIDDEN unsigned fy_filters;

/* Returns true if this process has a filter, also for a vfork child, whose
 * filter is not counted: at most one system call, getpid. */
FY_HIDDEN bool fy_filter_is_on(void);

/* The counters of the run, or NULL. */
FY_HIDDEN struct fy_record *fy_record(void);
extern FY_HIDDEN struct fy_record *fy_record_mapped; /* by the first call */

/* ---- start/count.c: general registers only, for fy_thunk_declined ---------------- */

/*
 * Counts a declined call. Stack words to pass on, when its original shall be
 * timed; -1: it is to be jumped to. Only while fy_record() is not NULL.
 */
FY_HIDDEN int64_t fy_count_declined(struct fy_frame *frame);
/* Adds the time since then, after the original has returned. */
FY_HIDDEN void fy_count_time(const struct fy_frame *frame);
/* Finds the clock, which asks the kernel until then; before the first of these. */
FY_HIDDEN void fy_count_start(void);
/* CLOCK_MONOTONIC in ns. No libc, no errno: any thread, signal handlers. */
FY_HIDDEN uint64_t fy_now_ns(void);

/*
 * Blocks cancellation and the program's handlers in this thread until
 * fy_quiet_end(), because a handler that leaves by longjmp would leave malloc,
 * the dynamic linker or the device locked or broken for ever. Faults still
 * arrive, and so do SIGINT, SIGTSTP and the like while they have their default
 * action, which is to end or stop the process at once. Also keeps the thread's
 * dlerror() message. Calling thread only.
 */
FY_HIDDEN void fy_quiet_begin(struct fy_quiet *out);
/* Puts all that back, the mask last: a handler that waited may leave by longjmp. */
FY_HIDDEN void fy_quiet_end(const struct fy_quiet *quiet);

/*
 * Cleans up when a C++ exception, or a thread's forced end, unwinds past an
 * accepted call of this thread: mask, cancellation and nesting become those of
 * before, and the engine releases the device. Called by fy_personality() only.
 */
FY_HIDDEN void fy_unwound(void);

/* ---- arch ------------------------------------------------------------------- */

/* Calls target with the frame's registers and `words' words of its stack (8 bytes each)
 * and stores the results in the frame. Exceptions and longjmp pass. */
FY_HIDDEN void fy_call_through(struct fy_frame *frame, void *target,
                               size_t words);
/* Counts a call and leads to its original: the target of every binding in a
 * counting mode. Not for C. */
FY_HIDDEN void fy_thunk_declined(void);
/* Calls run(argument) on the stack that ends at top, a multiple of 16. Exceptions
 * pass. */
FY_HIDDEN void fy_stack_call(void (*run)(void *), void *argument, void *top);

#endif
