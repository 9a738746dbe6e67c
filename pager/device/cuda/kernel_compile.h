/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles CUDA C to machine code by NVRTC, which is found at run time as all
 * of CUDA is, and keeps earlier results in a folder. No device is needed:
 * `ferry check' compiles the kernels that it finds, too.
 */
#ifndef FERRY_PAGER_DEVICE_CUDA_KERNEL_COMPILE_H
#define FERRY_PAGER_DEVICE_CUDA_KERNEL_COMPILE_H

#include <stddef.h>

#include "pager/device/cuda/library.h"
#include "pager/device/device.h"

enum {
    FY_KERNEL_KEY_BYTES = 32,
    FY_KERNEL_ARCH_BYTES = 16
};

/* Key of an image: text, options, architecture and compiler. */
struct fy_kernel_key {
    unsigned char bytes[FY_KERNEL_KEY_BYTES];
};

struct fy_kernel_target {
    char arch[FY_KERNEL_ARCH_BYTES]; /* "sm_90": machine code; "compute_90" */
    bool real;                       /* the former */
    bool draft;       /* not optimised: only to see whether it compiles */
    int major, minor; /* of NVRTC */
};

/*
 * Finds NVRTC and the architecture that it compiles for, on a card of that
 * compute capability (90 for 9.0; 0: the least that it knows). FY_ERR_NOENT:
 * no NVRTC that this driver can run; `why' says it. *loaded: a library was
 * loaded by this call. Any thread, with room on its stack.
 */
int fy_kernel_target(int driver_version, int capability,
                     struct fy_kernel_target *out, bool *loaded,
                     char why[FY_CUDA_TEXT_BYTES]) FY_MUST_CHECK;

void fy_kernel_key(const struct fy_kernel_program *program,
                   const struct fy_kernel_target *target,
                   struct fy_kernel_key *out);

/*
 * Returns new (malloc). FY_ERR_INVALID: the text is wrong; `why' is the first
 * error that the compiler names, with file and line. *log (may be NULL) gets
 * all that it says (malloc), also when it only warns; NULL: nothing.
 */
int fy_kernel_compile(int driver_version,
                      const struct fy_kernel_program *program,
                      const struct fy_kernel_target *target, void **image,
                      size_t *bytes, char **log,
                      char why[FY_CUDA_TEXT_BYTES]) FY_MUST_CHECK;

/* Sets the folder that keeps images between processes; "" (as it begins):
 * none. */
void fy_kernel_cache_to(const char *folder);
/* A whole, unchanged image of that key (malloc), or FY_ERR_NOENT. */
int fy_kernel_cache_get(const struct fy_kernel_key *key, void **image,
                        size_t *bytes) FY_MUST_CHECK;
/* Keeps it if that can be done: all of it or nothing. */
void fy_kernel_cache_put(const struct fy_kernel_key *key, const void *image,
                         size_t bytes);

#endif
