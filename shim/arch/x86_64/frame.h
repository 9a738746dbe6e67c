/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Macros of the assembler: a call's registers in a struct fy_frame, and back.
 */
#ifndef FERRY_SHIM_ARCH_X86_64_FRAME_H
#define FERRY_SHIM_ARCH_X86_64_FRAME_H

#include "shim/arch/x86_64/layout.h"

/* clang-format off */
/*
 * Builds a frame at a multiple of 64: rbx points to it, the caller's rbx is at
 * -8(%rbp). The vector state is large: with `own' it goes to the stack of
 * ferry's that this thread used last (struct fy_own_stack), if that is free,
 * which then belongs to the frame; else below the frame.
 */
.macro SAVE_ALL own=0
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	subq	$FY_FRAME_BYTES, %rsp
	andq	$-64, %rsp
	movq	%rsp, %rbx
	movq	%rdi, FY_FRAME_INTEGER+0(%rbx)
	movq	%rsi, FY_FRAME_INTEGER+8(%rbx)
	movq	%rdx, FY_FRAME_INTEGER+16(%rbx)
	movq	%rcx, FY_FRAME_INTEGER+24(%rbx)
	movq	%r8, FY_FRAME_INTEGER+32(%rbx)
	movq	%r9, FY_FRAME_INTEGER+40(%rbx)
	movq	%rax, FY_FRAME_RAX(%rbx)
	movq	%r10, FY_FRAME_R10(%rbx)
	movq	%r11, FY_FRAME_R11(%rbx)
	leaq	16(%rbp), %rax
	movq	%rax, FY_FRAME_STACK(%rbx)
	movq	8(%rbp), %rax
	movq	%rax, FY_FRAME_CALLER(%rbx)
	movups	%xmm0, FY_FRAME_VECTOR+0(%rbx)
	movups	%xmm1, FY_FRAME_VECTOR+16(%rbx)
	movups	%xmm2, FY_FRAME_VECTOR+32(%rbx)
	movups	%xmm3, FY_FRAME_VECTOR+48(%rbx)
	movups	%xmm4, FY_FRAME_VECTOR+64(%rbx)
	movups	%xmm5, FY_FRAME_VECTOR+80(%rbx)
	movups	%xmm6, FY_FRAME_VECTOR+96(%rbx)
	movups	%xmm7, FY_FRAME_VECTOR+112(%rbx)
	movl	fy_state_bytes(%rip), %eax
	testl	%eax, %eax
	jnz	1f
	call	fy_state_init /* general registers only */
1:	movl	%eax, %edx
	movq	$0, FY_FRAME_OWN(%rbx)
	.if \own
	movq	fy_own_stack@gottpoff(%rip), %rcx
	movq	%fs:(%rcx), %rcx
	testq	%rcx, %rcx
	jz	7f
	xorl	%eax, %eax
	lock cmpxchgq %rbx, FY_OWN_FRAME(%rcx)
	jnz	7f
	movq	%rcx, FY_FRAME_OWN(%rbx) /* first: see is_left() of calls/stack.c */
	movq	%fs:0, %rax
	movq	%rax, FY_OWN_THREAD(%rcx)
	subq	%rdx, %rcx
	jmp	8f
	.endif
7:	subq	%rdx, %rsp
	movq	%rsp, %rcx
8:	movq	%rcx, FY_FRAME_STATE(%rbx)
	movl	fy_state_mask(%rip), %eax
	testl	%eax, %eax
	jz	2f
	xorl	%edx, %edx
	movq	%rdx, 512(%rcx) /* the header: xrstor wants zeros */
	movq	%rdx, 520(%rcx)
	movq	%rdx, 528(%rcx)
	movq	%rdx, 536(%rcx)
	movq	%rdx, 544(%rcx)
	movq	%rdx, 552(%rcx)
	movq	%rdx, 560(%rcx)
	movq	%rdx, 568(%rcx)
	xsave64	(%rcx)
	jmp	3f
2:	fxsave64 (%rcx)
3:	cld
.endm

/* Vector state and argument registers out of the frame at rbx; rsp unused. */
.macro LOAD_ALL
	movq	FY_FRAME_STATE(%rbx), %rcx
	movl	fy_state_mask(%rip), %eax
	testl	%eax, %eax
	jz	4f
	xorl	%edx, %edx
	xrstor64 (%rcx)
	jmp	5f
4:	fxrstor64 (%rcx)
5:	movq	FY_FRAME_INTEGER+0(%rbx), %rdi
	movq	FY_FRAME_INTEGER+8(%rbx), %rsi
	movq	FY_FRAME_INTEGER+16(%rbx), %rdx
	movq	FY_FRAME_INTEGER+24(%rbx), %rcx
	movq	FY_FRAME_INTEGER+32(%rbx), %r8
	movq	FY_FRAME_INTEGER+40(%rbx), %r9
	movq	FY_FRAME_RAX(%rbx), %rax
	movq	FY_FRAME_R10(%rbx), %r10
.endm

/* Lets go of the frame's own stack, and with it of the vector state; r11 only. */
.macro LEAVE_STACK
	movq	FY_FRAME_OWN(%rbx), %r11
	testq	%r11, %r11
	jz	9f
	movq	$0, FY_OWN_THREAD(%r11)
	movq	$0, FY_FRAME_OWN(%rbx)
	movq	$0, FY_OWN_FRAME(%r11)
9:
.endm

/* Back to the state before SAVE_ALL. */
.macro DROP_FRAME
	movq	-8(%rbp), %rbx
	.cfi_restore %rbx
	leave
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
.endm
/* clang-format on */

#endif
