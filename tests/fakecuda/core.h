/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fake libraries share: the gate every call passes, objects, device
 * memory and streams. It lives in the fake libcuda.so.1, which the others
 * need; the names begin with fakecuda_, so that nothing takes them for CUDA's.
 * Any thread may call these, none may in a forked child.
 */
#ifndef FERRY_TESTS_FAKECUDA_CORE_H
#define FERRY_TESTS_FAKECUDA_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fakecuda/driver_abi.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

enum fake_library {
    FAKE_DRIVER,
    FAKE_CUBLAS,
    FAKE_CUSOLVER,
    FAKE_CUFFT,
    FAKE_NVRTC,
    FAKE_LIBRARIES
};

/* What a call must find: nothing, cuInit() done, a current context. */
enum fake_need {
    FAKE_ANY,
    FAKE_INIT,
    FAKE_CONTEXT
};

enum fake_kind {
    FAKE_FREE,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_BLAS_HANDLE,
    FAKE_SOLVER_HANDLE,
    FAKE_SOLVER_PARAMS,
    FAKE_FFT_PLAN,
    FAKE_PROGRAM,
    FAKE_PHYSICAL,
    FAKE_KINDS
};

/* An exported function, for lists of them. */
struct fake_symbol {
    const char *name;
    void *address;
};

/* What a call says of itself between enter and leave. */
struct fake_call {
    const char *name;
    unsigned long number;
    enum fake_library library;
    bool timed; /* the card is simulated in time */
};

#pragma GCC visibility push(default)

/* A call begins: counts it, and answers with the status it must return now
 * (injected, not initialised, a forked child, a poisoned context), already in
 * the library's codes, or 0. */
int fakecuda_enter(struct fake_call *call, const char *name,
                   enum fake_library library, enum fake_need need);

/* A call ends: writes the log, and answers status. */
int fakecuda_leave(const struct fake_call *call, int status);

/* A CUresult in the codes of a library. */
int fakecuda_status(enum fake_library library, int result);

/* A sentence into the log, and one more to its counter (words of the log's
 * line up to the first colon); for what is no error but a fault of ours. */
void fakecuda_note(const char *counter, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* How often a function was called or a thing was noted; 0: never. The names
 * "calls" and "operations" count all. */
unsigned long fakecuda_count(const char *name);

/* The setting FAKECUDA_<name> as a number (with K, M, G), or fallback. */
uint64_t fakecuda_setting(const char *name, uint64_t fallback);

/* A number below bound (bound > 0) from the seeded generator. */
uint64_t fakecuda_random(uint64_t bound);

/* A zeroed object of at most FAKE_OBJECT_BYTES; its address is never given
 * again, so that the use of a destroyed one is seen. NULL without memory. */
#define FAKE_OBJECT_BYTES 1024
void *fakecuda_new(enum fake_kind kind, size_t bytes, const char *name);

/* Whether object is a living one of kind. */
bool fakecuda_valid(const void *object, enum fake_kind kind);

void fakecuda_destroy(void *object);

/* One rectangle of memory that an operation reads or writes. */
struct fake_use {
    uint64_t address;
    size_t width_bytes; /* of each row; 0: no memory at all */
    size_t pitch_bytes; /* between rows */
    size_t rows;
    bool write;
    bool loose; /* not all of this is used: no evidence of a race */
};

#define FAKE_USES_MAX 16

/* The stream's order, then a random while; run gets a copy of the bytes at
 * argument, and answers 0 or the CUresult that poisons the context. Uses must
 * be inside of memory when the stream comes to it (else illegal address).
 * Returns a CUresult. */
int fakecuda_submit(CUstream stream, const char *name, int (*run)(void *),
                    const void *argument, size_t bytes,
                    const struct fake_use *uses, size_t count);

/* As cuStreamSynchronize(), without the gate. */
int fakecuda_drain(CUstream stream);

/* 0, or the CUresult why nothing can be submitted to the stream by now. */
int fakecuda_stream_check(CUstream stream);

/* Inside run, or for lengths checked before: where the host finds the bytes of
 * device (or pinned) memory; NULL when they are not all in one allocation. */
void *fakecuda_at(uint64_t address, size_t bytes);

/* Inside run: whether FAKECUDA_WRONG names it; then spoils an element. */
bool fakecuda_is_wrong(const char *name);
void fakecuda_spoil(uint64_t address, size_t bytes);

/* Whether address is in a living allocation of any kind. */
bool fakecuda_is_device(uint64_t address);

/* Device memory of the current context, as cuMemAlloc() and cuMemFree(). */
int fakecuda_memory_new(size_t bytes, uint64_t *address);
int fakecuda_memory_free(uint64_t address);

/* What a kernel that is submitted next takes of a card that is simulated in time
 * (model.h), of a product the shape of its result. */
struct fake_kernel {
    double flops;
    bool single;           /* precision */
    int64_t rows, columns; /* 0: no product */
    size_t bytes;          /* of the device's memory that it reads and writes */
    double serial_us;      /* what nothing shortens */
    bool run;              /* the operation is called all the same */
};
void fakecuda_kernel(const struct fake_kernel *kernel);

/* Whether nothing is computed, because only the time is asked for. */
bool fakecuda_is_modelled(void);

/* Inside run: let operations of other streams come between. */
void fakecuda_pause(void);

#pragma GCC visibility pop

#endif
