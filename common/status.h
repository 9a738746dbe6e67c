/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes of every fallible function of ferry. 0 is success, everything
 * else is negative. Leaf header: includes nothing, safe in any process.
 */
#ifndef FERRY_COMMON_STATUS_H
#define FERRY_COMMON_STATUS_H

enum fy_status {
    FY_OK = 0,
    FY_ERR_NOMEM = -1,       /* host memory could not be allocated */
    FY_ERR_INVALID = -2,     /* an argument or a file is malformed */
    FY_ERR_NOENT = -3,       /* a file, a symbol or a name does not exist */
    FY_ERR_IO = -4,          /* a system call failed; errno says why */
    FY_ERR_OVERFLOW = -5,    /* a size does not fit its type */
    FY_ERR_NOFIT = -6,       /* device memory is too small for any chunk */
    FY_ERR_DEVICE = -7,      /* the device reported an error */
    FY_ERR_UNSUPPORTED = -8, /* understood, but not implemented here */
    FY_ERR_BUSY = -9,        /* in use; nothing was done */
    FY_ERR_COMPILE = -10,    /* a kernel cannot be compiled, now or later */
    FY_ERR_LATER = -11,      /* not yet: to be asked again, without end */
    FY_ERR_FAULT = -12,      /* the program's memory cannot be accessed */
};

#define FY_MUST_CHECK __attribute__((warn_unused_result))

/*
 * Why a call was not offloaded. The words are part of the command line's
 * contract (--explain, the JSON report); add at the end, never rename.
 */
#define FY_REASONS(X)                                                          \
    X(NONE, "none")                   /* it was offloaded */                   \
    X(NO_DEVICE, "no-device")         /* no device is configured or present */ \
    X(TOO_SMALL, "too-small")         /* the annotation's `worth' says no */   \
    X(UNPROFITABLE, "unprofitable")   /* the cost model says no */             \
    X(BAD_ARGUMENTS, "bad-arguments") /* a `require' does not hold */          \
    X(EMPTY, "empty")                 /* nothing to compute */                 \
    X(OVERLAP, "overlap")             /* a written operand overlaps another */ \
    X(UNMAPPED, "unmapped")           /* an operand is not in mapped memory */ \
    X(OVERFLOW, "overflow")           /* a size does not fit 63 bits */        \
    X(NO_FIT, "no-fit")           /* larger than the device, not splittable */ \
    X(NESTED, "nested")           /* inside a call that was offloaded */       \
    X(UNSUPPORTED, "unsupported") /* an ABI or form ferry does not handle */   \
    X(UNKNOWN_HANDLE, "unknown-handle") /* its creating call was not seen */   \
    X(FORKED,                                                                  \
      "forked") /* in a forked child of a process that used a device */        \
    X(HOST_MEMORY, "host-memory")   /* no memory for staging or undo */        \
    X(DEVICE_ERROR, "device-error") /* the device failed; inputs restored */   \
    X(DISABLED, "disabled") /* switched off after errors, or by the user */    \
    X(ENGINE_MISSING,                                                          \
      "engine-missing") /* libferry-engine.so could not be loaded */           \
    X(INTEGER_WIDTH,                                                           \
      "integer-width") /* the provider's integer width is unknown */           \
    X(DEVICE_BUSY,                                                             \
      "device-busy")            /* other calls kept the device for too long */ \
    X(IN_HANDLER, "in-handler") /* by a signal handler or a vfork child */     \
    X(NO_DEVICE_CALL,                                                          \
      "no-device-call") /* the annotation names no function of the device */   \
    X(VERIFIED, "verified")   /* --verify: both computed it, and agree */      \
    X(DIFFERENT, "different") /* --verify: they do not; switched off */        \
    X(UNVERIFIED,                                                              \
      "unverified") /* --verify: they do not, but need not by their bound */   \
    X(NO_KERNEL, "no-kernel") /* its kernel cannot be made; not tried again */ \
    X(VALGRIND, "valgrind")   /* the process is run by valgrind */

enum fy_reason {
#define FY_REASON_ENUM(id, word) FY_REASON_##id,
    FY_REASONS(FY_REASON_ENUM)
#undef FY_REASON_ENUM
    FY_REASON_COUNT
};

/* The fixed word of a reason, "unknown" when out of range. Any thread. */
const char *fy_reason_word(unsigned reason);

/*
 * Reasons why an operand of an offloaded call did not stay on the device. The words are
 * those of the JSON report and of --explain: add at the end, never rename.
 */
#define FY_ABSENCES(X)                                                         \
    X(IN_USE, "in-use")       /* another call has the mirror */                \
    X(NO_ROOM, "no-room")     /* the device has no memory for it */            \
    X(UNUSED, "unused")       /* mirrors were of no use before */              \
    X(WRITTEN, "written")     /* the program writes to it between calls */     \
    X(UNWATCHED, "unwatched") /* writes are not seen, hashing does not pay */  \
    X(PINNED, "pinned")       /* a device may write it unseen */               \
    X(REMAPPED, "remapped")   /* the memory is another mapping now */          \
    X(SHARED_DEVICE, "shared-device") /* the program uses the device itself */ \
    X(HIDDEN, "hidden")               /* kernels hide the call's copies */

enum fy_absence {
#define FY_ABSENCE_ENUM(id, word) FY_ABSENCE_##id,
    FY_ABSENCES(FY_ABSENCE_ENUM)
#undef FY_ABSENCE_ENUM
    FY_ABSENCE_COUNT /* also: none */
};

/* The fixed word of such a reason, "unknown" when out of range. Any thread. */
const char *fy_absence_word(unsigned reason);

/* A short English text for a status code, without a full stop. Any thread. */
const char *fy_status_text(int status);

#endif
