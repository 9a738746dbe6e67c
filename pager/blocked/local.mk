# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/blocked/algo.c \
	pager/blocked/algo.h \
	pager/blocked/call.c \
	pager/blocked/fft.c \
	pager/blocked/fft.h \
	pager/blocked/fft_steps.c \
	pager/blocked/inverse.c \
	pager/blocked/invert.c \
	pager/blocked/matrix.c \
	pager/blocked/nest.c \
	pager/blocked/nest.h \
	pager/blocked/nest_call.c \
	pager/blocked/nest_panels.c \
	pager/blocked/nests.c \
	pager/blocked/panels.c \
	pager/blocked/routines.c \
	pager/blocked/search.c
EXTRA_DIST += pager/blocked/README.md
