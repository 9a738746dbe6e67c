/* SPDX-License-Identifier: Apache-2.0 */
/* The anchor (shim/image/image.h) as the linker leaves it. */
#include "shim/arch/x86_64/layout.h"

	.section .rodata
	.balign 8
	.globl	ferry_image
	.type	ferry_image, @object
	.globl	fy_image
	.hidden	fy_image
	.type	fy_image, @object
ferry_image:
fy_image:
	.ascii	"ferryIMG"
	.long	FY_IMAGE_VERSION
	.long	fy_mode - fy_image
	.long	fy_thunk_miss - fy_image
	.long	fy_thunk_other - fy_image
	.long	fy_thunk_accept - fy_image
	.zero	48
	.size	fy_image, . - fy_image
	.size	ferry_image, . - ferry_image
	.section .note.GNU-stack,"",@progbits
