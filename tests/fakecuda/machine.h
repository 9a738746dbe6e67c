/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the fake libcuda.so.1 only: its settings, contexts, memory and
 * streams. One lock guards all state (machine.lock); one more lets a single
 * operation at a time touch device memory (machine.engine), so that a missing
 * wait shows as wrong data, the same for a seed, and not as undefined
 * behaviour of the fake. The engine is taken before the lock, never after.
 */
#ifndef FERRY_TESTS_FAKECUDA_MACHINE_H
#define FERRY_TESTS_FAKECUDA_MACHINE_H

#include <pthread.h>
#include <sys/types.h>

#include "tests/fakecuda/core.h"
#include "tests/fakecuda/model.h"

#define FAKE_DEVICES_MAX 4

/* One rule of FAKECUDA_FAIL. */
struct fake_fault {
    char name[64]; /* empty: any function */
    unsigned long from;
    bool onwards; /* "N+": from the N-th call on */
    int code;     /* 0: the library's own word for trouble */
};

struct fake_context {
    int device;
    unsigned flags;
    unsigned retained;
    int sticky; /* the CUresult of every call from now on, or 0 */
    struct fake_stream *legacy; /* the NULL stream */
};

/* race.c: what is ordered before, by the streams' slots. */
#define FAKE_SLOTS 64
struct fake_clock {
    uint64_t at[FAKE_SLOTS];
};

struct fake_event {
    struct fake_clock clock; /* of its record */
    struct fake_context *context;
    unsigned flags;
    struct fake_stream *stream; /* of the last record, or NULL */
    uint64_t ticket;
    struct fake_moment *moment;
};

/* When a record was reached; shared by the event and its operation. */
struct fake_moment {
    uint64_t ns;
    unsigned holders;
};

struct fake_operation {
    struct fake_operation *next;
    const char *name;
    int (*run)(void *);
    void *argument;
    struct fake_use uses[FAKE_USES_MAX];
    struct fake_allocation *held[FAKE_USES_MAX];
    size_t n_uses;
    struct fake_cost cost;
    bool alone; /* run without the engine: it calls the program back */
    uint64_t ticket;
    struct fake_stream *after; /* not before its ticket; or NULL */
    uint64_t after_ticket;
    struct fake_moment *moment;
    struct fake_clock *clock; /* the host knows as much when it runs; or NULL */
};

struct fake_stream {
    struct fake_clock clock;
    unsigned slot;
    struct fake_stream *next; /* all streams, the destroyed too */
    struct fake_context *context;
    bool started; /* has a thread */
    bool destroyed;
    bool running; /* the head is being run */
    bool captured;
    unsigned flags;
    int priority;
    pthread_cond_t work;
    struct fake_operation *head;
    struct fake_operation **tail;
    uint64_t submitted; /* tickets given */
    uint64_t completed;
};

enum fake_memory {
    FAKE_DEVICE_MEMORY,
    FAKE_PINNED,
    FAKE_REGISTERED,
    FAKE_RESERVED /* addresses, some of them with memory: virtual.c */
};

struct fake_allocation {
    uint64_t address;
    size_t bytes;
    size_t span_bytes; /* what it takes of the limit */
    enum fake_memory memory;
    unsigned flags;
    unsigned long id;
    unsigned pending; /* operations that were submitted and will use it */
    struct fake_context *context;
    struct fake_access *accesses;
    size_t n_accesses;
    struct fake_granule *granules; /* of FAKE_RESERVED */
    struct fake_pin *pin;          /* of FAKE_REGISTERED, or NULL */
};

/* The least part of reserved addresses that can have memory or none. */
struct fake_granule {
    struct fake_physical *physical; /* NULL: none */
    bool first;                     /* of what was mapped at once */
    bool accessible;
    unsigned pending; /* operations that were submitted and will use it */
};

/* Memory without an address. */
struct fake_physical {
    struct fake_context *context;
    size_t bytes;
    bool mapped, released;
};

struct fake_machine {
    pthread_mutex_t lock;
    pthread_mutex_t engine;
    pthread_cond_t done; /* some stream completed something */
    bool initialised;    /* cuInit() succeeded */
    bool ended;          /* the process ends: deinitialised */
    pid_t pid;           /* of cuInit() */
    int devices;
    int ordinal[FAKE_DEVICES_MAX]; /* of the visible ones */
    struct fake_context context[FAKE_DEVICES_MAX];
    size_t used_bytes[FAKE_DEVICES_MAX]; /* by this process */
    size_t limit_bytes;
    size_t pinned_bytes;
    size_t pinned_limit_bytes;
    struct fake_stream *streams;
    unsigned threads;     /* of streams, running */
    unsigned captures;    /* that go on */
    bool capture_spoiled; /* since one began */
};

extern struct fake_machine machine;

/* The context that is current in this thread, or NULL. */
struct fake_context *fake_current(void);

/* gate.c: settings once, from the environment. */
void fake_settings(void);
bool fake_strict(void);
uint64_t fake_delay_us(void);
/* FAKECUDA_SLOW: how much longer an operation of that name takes. */
uint64_t fake_slowness_us(const char *operation);
/* Whether the operation that runs now is the one to fail: its code, or 0. */
int fake_operation_fault(void);

/* shim/calls/object.c: counts of living objects by kind, for the leak report. */
void fake_objects_report(void);

/* memory.c; callers hold machine.lock. */
int fake_memory_open(void);
struct fake_allocation *fake_find(uint64_t address, size_t bytes);
struct fake_allocation *fake_find_any(uint64_t address);
#define PAGE_BYTES 4096
bool fake_in_view(uint64_t address);
bool fake_overlaps(uint64_t address, size_t bytes);
int fake_insert(const struct fake_allocation *new);
void fake_forget(struct fake_allocation *one);
int fake_device_alloc(struct fake_context *context, size_t bytes,
                      CUdeviceptr *address);
void fake_device_free(struct fake_allocation *one);
void fake_memory_drop(const struct fake_context *context);
void fake_memory_report(void);

/* Of a device, whatever for; no room in it (or in what all processes with
 * the same FAKECUDA_SHARED have): false. */
bool fake_bytes_take(int device, size_t bytes);
void fake_bytes_give(int device, size_t bytes);
size_t fake_bytes_free(int device);
bool fake_is_device(const struct fake_allocation *one);
/* Places new->span_bytes of addresses in the view. */
int fake_place(struct fake_allocation *new);
/* Gives memory to addresses of the view, or takes it away. */
bool fake_view_open(uint64_t address, size_t bytes);
void fake_view_close(uint64_t address, size_t bytes);

/* capture.c: why a call must fail while a stream is being captured, or 0. */
int fake_capture_refuses(const char *name);

/* pinned.c: the page frames of host memory; NULL: io_uring is refused. */
struct fake_pin *fake_pin_new(uint64_t address, size_t bytes);
void fake_pin_free(struct fake_pin *pin);
/* Between them and a file; inside of run only. */
bool fake_pin_copy(struct fake_pin *pin, uint64_t host, size_t bytes, int file,
                   uint64_t offset, bool to_host);
/* Inside run: copies a row where one side is registered memory; 0: none is,
 * 1: done, -1: it failed. */
int fake_pinned_row(uint64_t to, uint64_t from, size_t bytes);

/* virtual.c; callers hold machine.lock. */
bool fake_is_backed(const struct fake_allocation *one, uint64_t address,
                    size_t bytes);
/* `by' operations more, or fewer, will use that much from address on. */
void fake_hold(struct fake_allocation *one, uint64_t address, size_t bytes,
               int by);

void fake_virtual_drop(struct fake_allocation *one);

/* race.c */
void fake_race_forget(struct fake_allocation *one, uint64_t address,
                      size_t bytes);
void fake_clock_join(struct fake_clock *clock, const struct fake_clock *other);
void fake_host_join(const struct fake_clock *other);
unsigned fake_clock_slot(void);
void fake_race_submit(struct fake_stream *stream,
                      const struct fake_operation *operation);

/* stream.c */
struct fake_stream *fake_stream_new(struct fake_context *context,
                                    unsigned flags, int priority);
int fake_stream_get(CUstream handle, struct fake_stream **stream);
bool fake_on_stream_thread(void);
/* Callers hold machine.lock; the operation is taken, its ticket set. It may
 * run before this returns (the lock is then given up meanwhile). */
void fake_submit(struct fake_stream *stream, struct fake_operation *operation);
struct fake_operation *fake_operation_new(const char *name, int (*run)(void *),
                                          const void *argument, size_t bytes);
/* Callers hold machine.lock, which is given up while it waits. */
int fake_wait_ticket(struct fake_stream *stream, uint64_t ticket);
void fake_context_drain(const struct fake_context *context);
void fake_streams_stop(void);
void fake_moment_release(struct fake_moment *moment);

#endif
