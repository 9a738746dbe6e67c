/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets that assembly, generated thunks and C agree on. Included by .S files:
 * preprocessor lines only. calls/shim.h checks every one of them at compile time.
 */
#ifndef FERRY_SHIM_ARCH_LAYOUT_H
#define FERRY_SHIM_ARCH_LAYOUT_H

/* struct fy_binding */
#define FY_BINDING_LOW      0
#define FY_BINDING_SIZE     8
#define FY_BINDING_TARGET   16
#define FY_BINDING_BOUND    24
#define FY_BINDING_ORIGINAL 32
#define FY_BINDING_NEXT     40

/* struct fy_frame; the first part is struct fy_registers */
#define FY_FRAME_INTEGER       0
#define FY_FRAME_VECTOR        48
#define FY_FRAME_STACK         176
#define FY_FRAME_RESULT        184
#define FY_FRAME_VECTOR_RESULT 200
#define FY_FRAME_RAX           232
#define FY_FRAME_R10           240
#define FY_FRAME_R11           248
#define FY_FRAME_CALLER        256
#define FY_FRAME_STATE         264
#define FY_FRAME_START         272
#define FY_FRAME_OWN           280
#define FY_FRAME_BYTES         320 /* a multiple of 64, with room to spare */

/* struct fy_own_stack */
#define FY_OWN_FRAME  0
#define FY_OWN_THREAD 8

/* fy_record_state when the counters are mapped */
#define FY_RECORD_READY 2

/* struct fy_dl_call; its size keeps the stack aligned */
#define FY_DL_ARG0   0
#define FY_DL_ARG1   8
#define FY_DL_ARG2   16
#define FY_DL_CALLER 24
#define FY_DL_TARGET 32
#define FY_DL_RESULT 40
#define FY_DL_EXTRA  48
#define FY_DL_BYTES  56

/* Actions that the C half of a dl wrapper asks of its assembly half. */
#define FY_DL_TAIL 0 /* jump to target with the arguments */
#define FY_DL_DONE \
    1 /* return result; dlopen: call target, then the after half */

/*
 * struct fy_image. The version changes whenever the generator does something
 * in another way: preload objects are cached by the bytes of libferry.so.
 */
#define FY_IMAGE_VERSION 4
#define FY_IMAGE_SLOTS   36

#endif
