/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the CUDA device only.
 *
 * A stream is a CUDA stream and a queue with a thread that issues its
 * operations in order, because a copy of pageable memory needs the CPU. A wait
 * whose record has not been issued yet waits in that thread, never in the
 * caller's, so the driver only ever sees waits for records it has seen. One
 * lock per device protects queues and events (queue.h); the driver is called
 * without it, on the device's own threads, which have all signals blocked, or
 * between push and pop of the context on the caller's.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_INTERNAL_H
#define FERRY_PAGER_DEVICE_CUDA_INTERNAL_H

#include <pthread.h>

#include "pager/device/call.h"
#include "pager/device/cuda/driver.h"
#include "pager/device/cuda/kernel_compile.h"
#include "pager/device/cuda/library.h"
#include "pager/device/cuda/memory.h"
#include "pager/device/cuda/ring.h"
#include "pager/device/device.h"
#include "pager/device/queue.h"

/* A launch with its own copy of everything but the borrowed results. */
struct cuda_launch {
    struct fy_call *call;
    struct fy_call *size; /* of the workspace, or NULL */
    uint32_t size_mask;   /* of the call's arguments that it takes; 0: all in
                           * front of the workspace */
    unsigned workspace;   /* its argument, or nargs */
    void *size_elements;  /* &elements, its last one */
    int elements;
    uint32_t element_bytes;
    struct fy_transform transform;
    int64_t *info;
    bool returns_status;
    bool is_kernel; /* `kernel' is launched by `grid'; the call is not run */
    struct fy_grid grid;
    fy_cuda_handle kernel;
    unsigned nargs;
    uint8_t words[];
};

struct fy_event {
    struct fy_turns turns; /* completed: those that a thread has waited for */
    struct cuda_device *device;
    fy_cuda_handle handle;
    uint64_t stream; /* number of the one that recorded it last */
    uint64_t issued; /* turns the driver has seen */
    uint64_t infos;  /* of the stream, when it was issued */
};

enum {
    CUDA_INFOS = 64 /* integers on their way from the device, per stream */
};

struct fy_stream {
    struct fy_queue queue; /* running: an operation is being issued */
    struct cuda_device *device;
    enum fy_stream_kind kind;
    struct fy_stream *next; /* of the device */
    uint64_t number;        /* never used again */
    bool stop;
    bool unsynced; /* something was issued since stream_sync() has waited */
    bool settled;  /* the process exits, and nothing runs here any more */
    pthread_t thread;
    pthread_cond_t wake;
    fy_cuda_handle handle;
    fy_cuda_handle ready;   /* event: the issuing thread's own waits */
    struct fy_cif *cifs;    /* enqueueing thread only */
    struct cuda_packer own; /* for small copies; issuing thread only */
    /* of the issuing thread only, except `infos' */
    struct fy_cuda_handles handles;
    struct cuda_plans *plans; /* of transforms, or NULL */
    uint64_t cublas_workspace, workspace;
    size_t workspace_bytes;
    size_t promised_bytes; /* for cuBLAS, when it has a handle */
    uint64_t info_device;  /* one int */
    int *info_host;        /* CUDA_INFOS pinned ints */
    int64_t *info_to[CUDA_INFOS];
    uint64_t infos, infos_read; /* made; handed over. Lock held */
};

struct cuda_kernel;

struct cuda_device {
    struct fy_device base;
    const struct fy_cuda_driver *driver;
    struct cuda_device *next; /* of all that are open */
    int ordinal, unit; /* among the visible ones; the driver's name for it */
    fy_cuda_handle context;
    int max_pitch;
    pthread_mutex_t lock;
    pthread_cond_t change; /* something was issued, or failed */
    struct fy_stream *streams;
    uint64_t numbers;
    struct cuda_memory memory;
    struct cuda_ring *ring;
    pthread_mutex_t kernels_lock; /* of the next three; taken before `lock' */
    struct cuda_kernel *kernels;
    unsigned nkernels;
    struct fy_kernel_target kernel_target; /* arch "": not asked yet */
    unsigned inside;                       /* threads that are in the driver */
    unsigned refused_starts; /* of libraries, since one has started */
    bool dead;      /* the context is of no use, or the process exits */
    bool exits;     /* the process, with a context that was of use */
    bool abandoned; /* exit while the engine's threads are in the driver */
    const volatile unsigned *alive; /* a page that is zero in forked children */
    char text[FY_CUDA_TEXT_BYTES];  /* of the last error */
};

/* False in a forked child. */
bool cuda_is_ours(const struct cuda_device *device);

/*
 * For a result of the driver: 0, or a status with the device's error text set
 * from `what' and the driver's own; a fatal one marks the device off. Takes the
 * lock.
 */
int cuda_status(struct cuda_device *device, const char *what, int result);
/* Waits for an event of the driver, awake at first; its result. Current context. */
int cuda_event_reached(struct cuda_device *device, fy_cuda_handle event);
/* Does as cuda_status() does, for a result after which the device cannot be
 * used at all. */
int cuda_lost(struct cuda_device *device, const char *what, int result);
/*
 * Returns true if the program has not reset the card meanwhile
 * (cudaDeviceReset): a reset ends ferry's handles, and ferry's addresses may
 * become the program's. Marks the device off after a reset. The context is
 * current. Takes the lock.
 */
bool cuda_keeps_context(struct cuda_device *device);
/* Sets the error text and returns `status'. Takes the lock. */
int cuda_error(struct cuda_device *device, int status, const char *text);

/*
 * Around calls of the driver on threads that are not ours: push and pop the
 * context, and keep the thread from being cancelled in them. enter() says no
 * once the device is dead. Take the lock.
 */
/* *cancel is for leave(); it also holds the thread's mode of captures. */
bool cuda_enter_caller(struct cuda_device *device, int *cancel);
void cuda_leave_caller(struct cuda_device *device, int cancel);
/*
 * Has the calls of this thread, of which a graph that the program captures would
 * know nothing, be allowed meanwhile; returns the mode before. The program's own
 * threads get it back.
 */
int cuda_relax(struct cuda_device *device);
/* One thread less in the driver. */
void cuda_come_out(struct cuda_device *device);
bool cuda_is_dead(struct cuda_device *device);

/*
 * Stack of threads that call the driver and no library. The thread-local
 * memory of all libraries of the program is taken from it, and no document
 * says how much the driver needs.
 */
enum {
    CUDA_STACK_BYTES = 1 << 20
};

/* Has the device be quiet when the process exits; after each new library. */
void cuda_guard_exit(void);

/* limits.c: 0, or why there may be no room for a card in this process. */
int cuda_limits(char text[FY_CUDA_TEXT_BYTES]);

/*
 * start.c: 0, or FY_ERR_LATER with the reason: the program may want to start
 * CUDA itself. One thread at a time.
 */
int cuda_start_may(char why[FY_CUDA_TEXT_BYTES]);
/*
 * 0; FY_ERR_NOENT: the card's compute mode forbids all; FY_ERR_LATER: it lets one
 * process have the card, which may be meant to be another, as the program has no
 * context there.
 */
int cuda_start_mode(const struct fy_cuda_driver *driver, int unit,
                    char why[FY_CUDA_TEXT_BYTES]);
/* Says whether the device may be set up early, which is so until it is told.
 * Any thread. */
void cuda_start_early(bool early);

/* copy.c: issues one copy on the stream; returns when that is done. */
int cuda_copy_issue(struct fy_stream *stream, const struct fy_copy *copy);
/* Enqueues a transfer whose host side is page-locked. */
int cuda_transfer(struct cuda_device *device, const struct fy_copy *transfer,
                  fy_cuda_handle stream);

/* kernel.c: the operation kernel() of fy_device_cuda. */
int cuda_kernel(struct fy_device *device,
                const struct fy_kernel_program *program, void **out);
/* Forgets them all; `unload': the context is current and of use. */
void cuda_kernels_end(struct cuda_device *device, bool unload);

/* launch.c */
/* Counts the memory that launches of a new stream will need for themselves. */
void cuda_launch_begin(struct fy_stream *stream);
/* Frees the workspace of an idle stream. */
void cuda_launch_drop_workspace(struct fy_stream *stream);
int cuda_launch_new(struct fy_stream *stream, const struct fy_launch *launch,
                    void **out);
void cuda_launch_free(void *launch);
int cuda_launch_issue(struct fy_stream *stream, struct cuda_launch *launch);
/* Hands over the first `count' integers of the stream. Lock held. */
void cuda_infos_read(struct fy_stream *stream, uint64_t count);
/* Lets go of handles and workspaces; the stream is idle. */
void cuda_launch_end(struct fy_stream *stream);
/* The stream's workspace, grown to so many bytes: another one may be given. */
int cuda_workspace(struct fy_stream *stream, size_t bytes);
/* A library's answer, as a status of the device. */
int cuda_library_status(struct cuda_device *device,
                        enum fy_cuda_library library, int status);
/* The library's handle of the stream, made when there is none. */
int cuda_launch_handle(struct fy_stream *stream, enum fy_cuda_library library,
                       void **out);

/* fft.c: a plan of that shape with its work area, ready on the stream. */
int cuda_fft_plan(struct fy_stream *stream,
                  const struct fy_transform *transform, int *plan);
/* Ends the plans; the stream is idle. */
void cuda_fft_end(struct fy_stream *stream);

/* stream.c: the operations of fy_device_cuda. */
int cuda_stream_create(struct fy_device *device, enum fy_stream_kind kind,
                       struct fy_stream **out);
void cuda_stream_destroy(struct fy_stream *stream);
int cuda_event_create(struct fy_device *device, struct fy_event **out);
void cuda_event_destroy(struct fy_event *event);
int cuda_event_sync(struct fy_event *event);
int cuda_stream_sync(struct fy_stream *stream);

#endif
