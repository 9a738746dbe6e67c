/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen, dlsym and dlvsym. What the real ones do may depend on the return
 * address: it tells the caller's DT_RUNPATH and its place in the search order.
 * So where it matters the real one is jumped to, with that address; else it is
 * called from an ordinary frame, which every unwinder understands. The C halves
 * are in shim/calls/dl.c.
 */
#include "shim/arch/x86_64/layout.h"

	.text

.macro DL_BEGIN name, plan
	.globl	\name
	.type	\name, @function
	.globl	fy_wrap_\name
	.hidden	fy_wrap_\name
	.type	fy_wrap_\name, @function
	.balign 16
\name:
fy_wrap_\name:
	.cfi_startproc
	subq	$FY_DL_BYTES, %rsp
	.cfi_def_cfa_offset FY_DL_BYTES + 8
	movq	%rdi, FY_DL_ARG0(%rsp)
	movq	%rsi, FY_DL_ARG1(%rsp)
	movq	%rdx, FY_DL_ARG2(%rsp)
	movq	FY_DL_BYTES(%rsp), %rax
	movq	%rax, FY_DL_CALLER(%rsp)
	movq	%rsp, %rdi
	call	\plan
	movq	FY_DL_ARG0(%rsp), %rdi
	movq	FY_DL_ARG1(%rsp), %rsi
	movq	FY_DL_ARG2(%rsp), %rdx
	cmpl	$FY_DL_TAIL, %eax
	jne	1f
	movq	FY_DL_TARGET(%rsp), %rax
	.cfi_remember_state
	addq	$FY_DL_BYTES, %rsp
	.cfi_def_cfa_offset 8
	jmp	*%rax
	.cfi_restore_state
1:
.endm

.macro DL_END name
	movq	FY_DL_RESULT(%rsp), %rax
	addq	$FY_DL_BYTES, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	DL_BEGIN dlsym, fy_dlsym_plan
	DL_END	dlsym

	DL_BEGIN dlvsym, fy_dlvsym_plan
	DL_END	dlvsym

	DL_BEGIN dlopen, fy_dlopen_plan
	call	*FY_DL_TARGET(%rsp)
	movq	%rax, FY_DL_RESULT(%rsp)
	movq	%rsp, %rdi
	call	fy_dlopen_after
	DL_END	dlopen

	.section .note.GNU-stack,"",@progbits
