/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where thunks go when they do not jump to the original: everything a call can
 * carry is saved in a struct fy_frame, C decides, and either the results are
 * loaded or everything is put back and the original gets the call as it came.
 * Entered with the binding (or a symbol's row) in r11. Any thread.
 */
#include "shim/arch/x86_64/frame.h"

	.text

/* Calls `decide(frame)': 0, the original runs; 1, the results are there. */
.macro DECIDE decide
	SAVE_ALL own=1
	movq	%rbx, %rdi
	call	\decide
	testl	%eax, %eax
	jz	6f
	movq	FY_FRAME_RESULT+0(%rbx), %rax
	movq	FY_FRAME_RESULT+8(%rbx), %rdx
	movups	FY_FRAME_VECTOR_RESULT+0(%rbx), %xmm0
	movups	FY_FRAME_VECTOR_RESULT+16(%rbx), %xmm1
	LEAVE_STACK
	.cfi_remember_state
	DROP_FRAME
	ret
	.cfi_restore_state
6:	LOAD_ALL
	LEAVE_STACK
	movq	FY_FRAME_R11(%rbx), %r11
	DROP_FRAME
	jmp	*FY_BINDING_ORIGINAL(%r11)
.endm

/* An even mode: never (0) or always. rax is pushed. */
	.globl	fy_thunk_other
	.hidden	fy_thunk_other
	.type	fy_thunk_other, @function
	.balign 16
fy_thunk_other:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	popq	%rax
	.cfi_def_cfa_offset 8
	cmpb	$0, fy_mode(%rip)
	jne	fy_thunk_accept
	jmp	*FY_BINDING_ORIGINAL(%r11) /* uncounted: no clock is asked */
	.cfi_endproc
	.size	fy_thunk_other, . - fy_thunk_other

/*
 * The call is worth asking about, unless it comes from inside another: an accepted
 * one, when it comes on ferry's stack or below that one's frame. Above it, the
 * accepted one may have been left by a jump, which C finds out.
 */
	.globl	fy_thunk_accept
	.hidden	fy_thunk_accept
	.type	fy_thunk_accept, @function
	.balign 16
fy_thunk_accept:
	.cfi_startproc
	.cfi_personality 0x1b, fy_personality /* pcrel, sdata4 */
	pushq	%rax
	.cfi_def_cfa_offset 16
	movq	fy_inside@gottpoff(%rip), %rax
	cmpl	$0, %fs:(%rax)
	popq	%rax
	.cfi_def_cfa_offset 8
	je	19f
	pushq	%rax
	.cfi_def_cfa_offset 16
	movq	fy_accepted@gottpoff(%rip), %rax
	addq	%fs:0, %rax
	cmpq	$0, (%rax)
	je	29f
	cmpq	(%rax), %rsp
	jb	29f
	pushq	%rcx
	.cfi_def_cfa_offset 24
	movq	%rsp, %rcx
	subq	8(%rax), %rcx
	cmpq	16(%rax), %rcx
	popq	%rcx
	.cfi_def_cfa_offset 16
	jb	29f
	.cfi_remember_state
	popq	%rax
	.cfi_def_cfa_offset 8
19:	DECIDE	fy_dispatch
	.cfi_restore_state
29:	popq	%rax
	.cfi_def_cfa_offset 8
	jmp	*FY_BINDING_TARGET(%r11)
	.cfi_endproc
	.size	fy_thunk_accept, . - fy_thunk_accept

/*
 * The target of every binding in the counting modes: a declined call. Once the
 * counters are mapped, only general registers are used, so only they are kept.
 */
	.globl	fy_thunk_declined
	.hidden	fy_thunk_declined
	.type	fy_thunk_declined, @function
	.balign 16
fy_thunk_declined:
	.cfi_startproc
	cmpb	$FY_RECORD_READY, fy_record_state(%rip)
	jne	fy_thunk_declined_first
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq	%rbx
	.cfi_offset %rbx, -24
	subq	$(FY_FRAME_BYTES + 8), %rsp
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
	movq	%rbx, %rdi
	call	fy_count_declined
	movq	FY_FRAME_R11(%rbx), %r11
	testq	%rax, %rax
	js	3f
	leaq	1(%rax), %rcx /* words, and one more when that is odd */
	andq	$-2, %rcx
1:	subq	$2, %rcx
	js	2f
	pushq	24(%rbp,%rcx,8)
	pushq	16(%rbp,%rcx,8)
	jmp	1b
2:	movq	FY_FRAME_INTEGER+0(%rbx), %rdi
	movq	FY_FRAME_INTEGER+8(%rbx), %rsi
	movq	FY_FRAME_INTEGER+16(%rbx), %rdx
	movq	FY_FRAME_INTEGER+24(%rbx), %rcx
	movq	FY_FRAME_INTEGER+32(%rbx), %r8
	movq	FY_FRAME_INTEGER+40(%rbx), %r9
	movq	FY_FRAME_RAX(%rbx), %rax
	movq	FY_FRAME_R10(%rbx), %r10
	call	*FY_BINDING_ORIGINAL(%r11)
	movq	%rax, FY_FRAME_RESULT+0(%rbx)
	movq	%rdx, FY_FRAME_RESULT+8(%rbx)
	movq	%rbx, %rdi
	movq	%rbx, %rsp /* the frame is lowest: the words are done with */
	call	fy_count_time
	movq	FY_FRAME_RESULT+0(%rbx), %rax
	movq	FY_FRAME_RESULT+8(%rbx), %rdx
	.cfi_remember_state
	DROP_FRAME
	ret
	.cfi_restore_state
3:	movq	FY_FRAME_INTEGER+0(%rbx), %rdi
	movq	FY_FRAME_INTEGER+8(%rbx), %rsi
	movq	FY_FRAME_INTEGER+16(%rbx), %rdx
	movq	FY_FRAME_INTEGER+24(%rbx), %rcx
	movq	FY_FRAME_INTEGER+32(%rbx), %r8
	movq	FY_FRAME_INTEGER+40(%rbx), %r9
	movq	FY_FRAME_RAX(%rbx), %rax
	movq	FY_FRAME_R10(%rbx), %r10
	DROP_FRAME
	jmp	*FY_BINDING_ORIGINAL(%r11)
	.cfi_endproc
	.size	fy_thunk_declined, . - fy_thunk_declined

/* The same with everything kept: maps the counters, or finds there are none. */
	.type	fy_thunk_declined_first, @function
	.balign 16
fy_thunk_declined_first:
	.cfi_startproc
	DECIDE	fy_dispatch_declined
	.cfi_endproc
	.size	fy_thunk_declined_first, . - fy_thunk_declined_first

/*
 * The first binding of symbol r11 is not the caller's: look at the others,
 * then let C find the original. rax is pushed.
 */
	.globl	fy_thunk_miss
	.hidden	fy_thunk_miss
	.type	fy_thunk_miss, @function
	.balign 16
fy_thunk_miss:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	pushq	%rcx
	.cfi_def_cfa_offset 24
	leaq	fy_image(%rip), %rax
	movslq	FY_IMAGE_SLOTS(%rax), %rcx
	addq	%rcx, %rax
	movq	(%rax,%r11,8), %rcx
1:	testq	%rcx, %rcx
	jz	2f
	movq	16(%rsp), %rax
	subq	FY_BINDING_LOW(%rcx), %rax
	cmpq	FY_BINDING_SIZE(%rcx), %rax
	jb	3f
	movq	FY_BINDING_NEXT(%rcx), %rcx
	jmp	1b
3:	movq	%rcx, %r11
	.cfi_remember_state
	popq	%rcx
	.cfi_def_cfa_offset 16
	jmp	*FY_BINDING_BOUND(%r11)
	.cfi_restore_state
2:	popq	%rcx
	.cfi_def_cfa_offset 16
	popq	%rax
	.cfi_def_cfa_offset 8
	SAVE_ALL
	movq	%rbx, %rdi
	call	fy_bind_call
	movq	%rax, FY_FRAME_R11(%rbx)
	LOAD_ALL
	LEAVE_STACK
	movq	FY_FRAME_R11(%rbx), %r11
	DROP_FRAME
	pushq	%rax
	.cfi_def_cfa_offset 16
	jmp	*FY_BINDING_BOUND(%r11)
	.cfi_endproc
	.size	fy_thunk_miss, . - fy_thunk_miss

	.section .note.GNU-stack,"",@progbits
