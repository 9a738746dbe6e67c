# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/plan/axes.c \
	pager/plan/axes.h \
	pager/plan/bound.c \
	pager/plan/build.c \
	pager/plan/build.h \
	pager/plan/cuts.c \
	pager/plan/device_call.c \
	pager/plan/device_call.h \
	pager/plan/kernel_call.c \
	pager/plan/kernel_call.h \
	pager/plan/launch.c \
	pager/plan/chunk_call.c \
	pager/plan/memory.c \
	pager/plan/plan.c \
	pager/plan/plan.h \
	pager/plan/query.c \
	pager/plan/result.c \
	pager/plan/search.c \
	pager/plan/traffic.c \
	pager/plan/traffic.h
EXTRA_DIST += pager/plan/README.md
