/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall(2): execve, execveat, seccomp, prctl(PR_SET_SECCOMP), unshare, setns, mremap and
 * userfaultfd go to C, every other number is jumped on to the original as it came, stack and registers
 * included (it may return twice, or on another stack).
 */
	.text
	.globl	syscall
	.type	syscall, @function
	.balign 16
syscall:
	.cfi_startproc
	cmpq	$59, %rdi /* SYS_execve */
	je	fy_syscall_exec
	cmpq	$322, %rdi /* SYS_execveat */
	je	fy_syscall_exec
	cmpq	$317, %rdi /* SYS_seccomp */
	je	fy_syscall_filter
	cmpq	$157, %rdi /* SYS_prctl */
	je	2f
	cmpq	$272, %rdi /* SYS_unshare */
	je	fy_syscall_alone
	cmpq	$308, %rdi /* SYS_setns */
	je	fy_syscall_alone
	cmpq	$25, %rdi /* SYS_mremap */
	je	fy_syscall_memory
	cmpq	$323, %rdi /* SYS_userfaultfd */
	je	fy_syscall_memory
3:	movq	original(%rip), %rax
	testq	%rax, %rax
	jz	1f
	jmp	*%rax
1:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%r9
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	movl	$8, %edi /* FY_SYSCALL */
	call	fy_original
	movq	%rax, original(%rip)
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r9
	.cfi_adjust_cfa_offset -8
	popq	%r8
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
2:	cmpl	$22, %esi /* PR_SET_SECCOMP */
	je	fy_syscall_filter
	jmp	3b
	.cfi_endproc
	.size	syscall, . - syscall

	.local	original
	.comm	original,8,8
	.section .note.GNU-stack,"",@progbits
