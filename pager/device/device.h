/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of a device, a place that computes: one table per kind of device,
 * asynchronous from the start. A new device is one file that fills this table
 * and one row in device.c. The host device implements it with worker threads
 * and an arena; nothing here names a vendor.
 */
#ifndef FERRY_PAGER_DEVICE_DEVICE_H
#define FERRY_PAGER_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "annotations/model/model.h"
#include "common/status.h"
#include "pager/device/view.h"

struct fy_device; /* one opened device; first member of each implementation */
struct fy_stream; /* operations on one stream run in order */
struct fy_event;
enum fy_direction {
    FY_TO_DEVICE,
    FY_TO_HOST,
    FY_TO_LOG, /* of old elements: `device' is an address of this process */
};

/*
 * A strided copy of exactly a view's elements. Bytes between them are neither read
 * nor written on the host's side, nor on a device's whose memory the CPU can address.
 * Others may read and write the bytes between them: it belongs to the same buffer.
 */
struct fy_copy {
    enum fy_direction direction;
    struct fy_view view;                        /* on the host's side */
    uint64_t device;                            /* element (0, 0, ..) */
    int64_t device_stride[FY_MAX_OPERAND_AXES]; /* elements; may be negative */
    bool *saved; /* FY_TO_LOG: set when all of it has been copied */
};

enum fy_transform_kind {
    FY_TRANSFORM_C2C = 1,
    FY_TRANSFORM_R2C, /* real to the half that says all */
    FY_TRANSFORM_C2R, /* ... and back */
};

/* Layout of one side of a transform, in elements of that side. */
struct fy_transform_side {
    int64_t stride, distance; /* between elements; between transforms */
    int64_t embed[3];         /* extents of the array it is a part of */
};

/* Discrete Fourier transforms of one shape, row-major. */
struct fy_transform {
    uint8_t kind; /* enum fy_transform_kind; 0: none */
    uint8_t rank; /* 1 .. 3 */
    bool is_double;
    int64_t n[3]; /* those of the real side, where there is one */
    int64_t batch;
    struct fy_transform_side from, to;
};

/* A kernel in CUDA C, for kernel(). Borrowed. */
struct fy_kernel_program {
    const char *text;
    const char *file;  /* for messages */
    const char *entry; /* extern "C" */
    bool
        fmad; /* products may be fused with sums; else every result is IEEE's */
    uint16_t nargs; /* types holds enum fy_type values, as for a launch */
    const uint8_t *types;
};

struct fy_grid {
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
};

enum {
    FY_GRID_X_MAX = INT32_MAX,
    FY_GRID_YZ_MAX = 65535,
    FY_BLOCK_MAX = 1024, /* threads */
    FY_BLOCK_Z_MAX = 64,
    FY_SHARED_BYTES_MAX = 48 << 10
};

/*
 * One call of a function by its prototype. `types' holds enum fy_type values;
 * values[i] points at the i-th argument, already in the type it is passed as.
 * The device copies the values during launch(); `result' (8 or 16 bytes, may
 * be NULL) is written when the call has run and must stay valid until then.
 * FY_ERR_UNSUPPORTED: FY_T_INTEGER anywhere (say I32 or I64), complex results.
 */
struct fy_launch {
    void *function;
    uint8_t return_type; /* enum fy_type */
    uint16_t nargs;
    const uint8_t *types;
    void *const *values;
    void *result;
    /* All of the rest may be NULL, 0: the host device has none of it. */
    const uint8_t *words; /* nargs of enum fy_word; NONE: values[i] as it is */
    /*
     * WORKSPACE: f(arguments in front of the workspace..., int *elements), which
     * returns a status; elements of element_bytes. size_arguments: bit i for
     * each argument it takes; 0: all in front.
     */
    void *size_function;
    uint32_t size_arguments;
    uint32_t element_bytes;
    const struct fy_transform *transform; /* CUFFT: the transform that the
                                           * plan is for */
    int64_t *info; /* INFO: receives the value of the int; valid as `result' */
    bool status;   /* the function returns a status: not 0 is an error */
    /* Grid of a kernel's launch; `function' is the result of kernel(). NULL:
     * a call. */
    const struct fy_grid *grid;
};

enum fy_stream_kind {
    FY_STREAM_COPY_IN,
    FY_STREAM_COMPUTE,
    FY_STREAM_COPY_OUT,
    FY_STREAM_SAVE, /* copies to the undo log */
};

/* Every int result is 0 or a negative FY_ERR_*; error_text() then says more. */
struct fy_device_ops {
    const char *name;
    /* Which of its units the next open() takes, from 0; NULL: it has one. */
    void (*choose)(unsigned unit);
    /*
     * Says whether open() may set up things that the program's own use of such
     * a device would find; at first yes. With no, open() answers FY_ERR_LATER
     * as long as the program may want to do that itself. Unset: open() leaves
     * nothing behind.
     */
    void (*early)(bool early);
    /* memory_bytes 0: the device's own default. Takes nothing, returns new. */
    int (*open)(uint64_t memory_bytes, struct fy_device **out);
    void (*close)(struct fy_device *device);
    /*
     * True in a forked child of the process that opened it: every operation
     * then fails at once, only close() and a new open() make sense.
     */
    bool (*inherited)(struct fy_device *device);
    /* Bytes that could be allocated in all, by now; changes where the device is
     * shared, and is 0 on a device that is lost. */
    uint64_t (*memory_bytes)(struct fy_device *device);
    /* 256-byte aligned; FY_ERR_NOFIT when the limit would be passed. */
    int (*alloc)(struct fy_device *device, uint64_t bytes, uint64_t *out);
    void (*free)(struct fy_device *device, uint64_t address);
    /*
     * Says that an allocation is kept between calls, or is no more: `reclaim' of struct
     * fy_device frees it when other processes need the memory. Unset: the device has no
     * other users.
     */
    void (*keep)(struct fy_device *device, uint64_t address, bool kept);
    /*
     * Returns true if the program uses such a device itself: it wants the memory, and the
     * device may write host memory unseen. Unset: it does not. Any thread.
     */
    bool (*is_shared)(void);
    /*
     * Returns memory without an owner to the machine. `threads': ends those that wait for
     * work, if they can be ended; others start when there is some. Unset: there is
     * nothing of either.
     */
    void (*give_back)(struct fy_device *device, bool threads);
    /*
     * Before a call that could use so many bytes: has other processes give back memory
     * that they need not have; waits for that, at most until then (of CLOCK_MONOTONIC).
     * With 0 when it is over. Unset: the device has no other users.
     */
    void (*claim)(struct fy_device *device, uint64_t bytes,
                  const struct timespec *until);
    /* The program is about to load that library. Unset: the device does not care. */
    void (*loading)(const char *file);
    int (*stream_create)(struct fy_device *device, enum fy_stream_kind kind,
                         struct fy_stream **out);
    void (*stream_destroy)(struct fy_stream *stream); /* synchronises first */
    int (*event_create)(struct fy_device *device, struct fy_event **out);
    void (*event_destroy)(struct fy_event *event);
    int (*event_record)(struct fy_stream *stream, struct fy_event *event);
    int (*event_wait)(struct fy_stream *stream, struct fy_event *event);
    /*
     * Block the calling thread, which must be the one that enqueued (the host
     * device runs launches on it). Return the first error of work before; even
     * then nothing before is still running. An error stays with its stream,
     * whose later work is skipped, until stream_sync has returned it.
     */
    int (*event_sync)(struct fy_event *event);
    int (*stream_sync)(struct fy_stream *stream);
    int (*copy)(struct fy_stream *stream, const struct fy_copy *copy);
    int (*launch)(struct fy_stream *stream, const struct fy_launch *launch);
    /*
     * Copies the program's elements to `copy->device', an address of this process, by
     * the threads that copy to the device; returns when that is done. Unset: one thread
     * is as good. FY_ERR_FAULT: they cannot be read.
     */
    int (*save)(struct fy_device *device, const struct fy_copy *copy);
    /*
     * Asks `is_good' of copies of the program's elements, dense blocks whose holes are
     * zero, by those threads. FY_ERR_UNSUPPORTED: not of all; FY_ERR_FAULT and others:
     * it could not be asked. Unset: a single thread is as good.
     */
    int (*look)(struct fy_device *device, const struct fy_view *view,
                bool (*is_good)(const void *block, uint64_t bytes,
                                const void *argument),
                const void *argument);
    /*
     * The device's own function of that name, for launch(); NULL: there is none
     * (no such library, or an older one). Unset where the program's own
     * functions are launched (host). Any thread.
     */
    void *(*resolve)(struct fy_device *device, const char *name);
    /*
     * A word for the unit and its driver, for names of files; unset where rates
     * are not kept. FY_ERR_DEVICE.
     */
    int (*identity)(struct fy_device *device, char *out, size_t bytes);
    /*
     * The kernel, compiled (or from the cache of earlier processes) and loaded,
     * for launch(); it lives as long as the device. FY_ERR_COMPILE: it cannot be
     * compiled, or there is no compiler: error_text() says it in a line, now and
     * each time it is asked for; others: this time not. Unset as resolve(). Any
     * thread.
     */
    int (*kernel)(struct fy_device *device,
                  const struct fy_kernel_program *program, void **out);
    /*
     * Borrowed text, valid until the next call on this device and thread. Of
     * NULL: why the last open() of this thread failed.
     */
    const char *(*error_text)(struct fy_device *device);
};

struct fy_device {
    const struct fy_device_ops *ops;
    /* Frees kept allocations that no call uses, until so many bytes are free. Set before
     * the first keep(), called by the device's threads without locks of the device. */
    void (*reclaim)(void *of, uint64_t bytes);
    void *reclaim_of;
};

extern const struct fy_device_ops fy_device_host;
extern const struct fy_device_ops fy_device_cuda;

/*
 * The ops of a device by name, or NULL: a kind ("host", "cuda"), or a kind and
 * a unit of it ("cuda:1"), which its next open() then takes.
 */
const struct fy_device_ops *fy_device_find(const char *name);

#endif
