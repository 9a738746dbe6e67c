/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlopen, dlsym and dlvsym. What they do depends on who calls them (its
 * DT_RUNPATH, its place in the search order), and they know that by their
 * return address. So the real one is either jumped to, or called with a
 * return address inside the caller: that of a `ret' byte in its code, which
 * leads on to us. The C halves are in shim/dl.c.
 */
#include "shim/arch/x86_64/layout.h"

	.text

.macro DL_WRAPPER name, plan, after
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
	cmpl	$FY_DL_DONE, %eax
	je	2f
	ja	1f
	movq	FY_DL_TARGET(%rsp), %rax
	.cfi_remember_state
	addq	$FY_DL_BYTES, %rsp
	.cfi_def_cfa_offset 8
	jmp	*%rax
	.cfi_restore_state
1:	movq	FY_DL_TARGET(%rsp), %rax
	movq	FY_DL_GADGET(%rsp), %rcx
	pushq	%rax /* padding */
	.cfi_adjust_cfa_offset 8
	leaq	3f(%rip), %r8
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	jmp	*%rax
	.cfi_adjust_cfa_offset -16
3:	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	movq	%rax, FY_DL_RESULT(%rsp)
	movq	%rsp, %rdi
	call	\after
2:	movq	FY_DL_RESULT(%rsp), %rax
	addq	$FY_DL_BYTES, %rsp
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

	DL_WRAPPER dlsym, fy_dlsym_plan, fy_dlsym_after
	DL_WRAPPER dlvsym, fy_dlvsym_plan, fy_dlsym_after
	DL_WRAPPER dlopen, fy_dlopen_plan, fy_dlopen_after

	.section .note.GNU-stack,"",@progbits
