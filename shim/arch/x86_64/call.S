/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that C makes with a frame's registers, or on another stack. */
#include "shim/arch/x86_64/frame.h"

	.text

/*
 * void fy_call_through(struct fy_frame *frame, void *target, size_t words):
 * calls target with the registers and `words' stack words of the frame, and
 * puts what it returns there. Exceptions and longjmp pass.
 */
	.globl	fy_call_through
	.hidden	fy_call_through
	.type	fy_call_through, @function
	.balign 16
fy_call_through:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	pushq	%r12
	.cfi_offset %r12, -32
	movq	%rdi, %rbx
	movq	%rsi, %r12
	leaq	15(,%rdx,8), %rax
	andq	$-16, %rax
	subq	%rax, %rsp
	movq	FY_FRAME_STACK(%rbx), %rsi
	movq	%rsp, %rdi
	movq	%rdx, %rcx
	cld
	rep movsq
	LOAD_ALL
	LEAVE_STACK
	call	*%r12
	movq	%rax, FY_FRAME_RESULT+0(%rbx)
	movq	%rdx, FY_FRAME_RESULT+8(%rbx)
	movups	%xmm0, FY_FRAME_VECTOR_RESULT+0(%rbx)
	movups	%xmm1, FY_FRAME_VECTOR_RESULT+16(%rbx)
	leaq	-16(%rbp), %rsp
	popq	%r12
	.cfi_restore %r12
	popq	%rbx
	.cfi_restore %rbx
	popq	%rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	fy_call_through, . - fy_call_through

/*
 * void fy_stack_call(void (*run)(void *), void *argument, void *top): calls it
 * on the stack that ends at top, a multiple of 16. Exceptions pass.
 */
	.globl	fy_stack_call
	.hidden	fy_stack_call
	.type	fy_stack_call, @function
	.balign 16
fy_stack_call:
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsp
	call	*%rax
	leave
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	fy_stack_call, . - fy_stack_call

	.section .note.GNU-stack,"",@progbits
