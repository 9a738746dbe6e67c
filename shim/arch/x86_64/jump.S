/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longjmp() family. __longjmp_chk() aborts on jumps to what looks like a deeper
 * frame, and ferry's own stacks may lie anywhere: out of one of them the jump goes on
 * from the stack that the call was made on, as if its caller had made it. All others
 * are jumped on to the original as they came. Any handler.
 */

	.text

/* The stack pointer in a jmp_buf is the seventh word (glibc's jmpbuf-offsets.h,
 * PTR_DEMANGLE of its pointer_guard.h). `which' is that of enum fy_wrapped. */
.macro JUMP name, which
	.globl	\name
	.type	\name, @function
	.balign 16
\name:
	.cfi_startproc
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movq	48(%rdi), %rdx
	rorq	$17, %rdx
	xorq	%fs:0x30, %rdx
	movl	$\which, %esi
	movq	%rsp, %rcx
	call	fy_jump
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rcx, %rcx
	cmovnzq	%rcx, %rsp /* to the call's return address */
	jmp	*%rax
	.cfi_endproc
	.size	\name, . - \name
.endm

	JUMP	longjmp, 14
	JUMP	_longjmp, 15
	JUMP	siglongjmp, 16
	JUMP	__longjmp_chk, 17

	.section .note.GNU-stack,"",@progbits
