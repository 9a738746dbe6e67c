# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/device/cuda/budget.c \
	pager/device/cuda/copy.c \
	pager/device/cuda/cuda.c \
	pager/device/cuda/driver.c \
	pager/device/cuda/driver.h \
	pager/device/cuda/fft.c \
	pager/device/cuda/internal.h \
	pager/device/cuda/kernel.c \
	pager/device/cuda/kernel_cache.c \
	pager/device/cuda/kernel_compile.c \
	pager/device/cuda/kernel_compile.h \
	pager/device/cuda/launch.c \
	pager/device/cuda/library.c \
	pager/device/cuda/library.h \
	pager/device/cuda/limits.c \
	pager/device/cuda/memory.c \
	pager/device/cuda/memory.h \
	pager/device/cuda/pieces.c \
	pager/device/cuda/pieces.h \
	pager/device/cuda/places.c \
	pager/device/cuda/places.h \
	pager/device/cuda/ring.c \
	pager/device/cuda/ring.h \
	pager/device/cuda/share.c \
	pager/device/cuda/share.h \
	pager/device/cuda/start.c \
	pager/device/cuda/stream.c \
	pager/device/cuda/users.c \
	pager/device/cuda/users.h
EXTRA_DIST += pager/device/cuda/README.md
