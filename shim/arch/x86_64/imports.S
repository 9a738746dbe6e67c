/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first call of a function that the preloaded object imports (calls/imports.c). The
 * PLT has pushed the number of the slot and a word for the dynamic linker. All arguments
 * reach the function as they came.
 */
	.text

	.globl	fy_imports_entry
	.hidden	fy_imports_entry
	.type	fy_imports_entry, @function
	.balign 16
fy_imports_entry:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	subq	$200, %rsp
	.cfi_adjust_cfa_offset 200
	movups	%xmm0, (%rsp)
	movups	%xmm1, 16(%rsp)
	movups	%xmm2, 32(%rsp)
	movups	%xmm3, 48(%rsp)
	movups	%xmm4, 64(%rsp)
	movups	%xmm5, 80(%rsp)
	movups	%xmm6, 96(%rsp)
	movups	%xmm7, 112(%rsp)
	movq	%rax, 128(%rsp)
	movq	%rcx, 136(%rsp)
	movq	%rdx, 144(%rsp)
	movq	%rsi, 152(%rsp)
	movq	%rdi, 160(%rsp)
	movq	%r8, 168(%rsp)
	movq	%r9, 176(%rsp)
	movq	208(%rsp), %rdi
	call	fy_imports_bind
	movq	%rax, %r11
	movups	(%rsp), %xmm0
	movups	16(%rsp), %xmm1
	movups	32(%rsp), %xmm2
	movups	48(%rsp), %xmm3
	movups	64(%rsp), %xmm4
	movups	80(%rsp), %xmm5
	movups	96(%rsp), %xmm6
	movups	112(%rsp), %xmm7
	movq	128(%rsp), %rax
	movq	136(%rsp), %rcx
	movq	144(%rsp), %rdx
	movq	152(%rsp), %rsi
	movq	160(%rsp), %rdi
	movq	168(%rsp), %r8
	movq	176(%rsp), %r9
	addq	$200, %rsp
	.cfi_adjust_cfa_offset -200
	testq	%r11, %r11
	jz	1f
	.cfi_remember_state
	addq	$16, %rsp
	.cfi_adjust_cfa_offset -16
	jmp	*%r11
	.cfi_restore_state
1:	jmp	*fy_imports_linker(%rip)
	.cfi_endproc
	.size	fy_imports_entry, . - fy_imports_entry

	.section .note.GNU-stack,"",@progbits
