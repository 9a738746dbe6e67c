# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
	pager/execute/executor.h \
	pager/execute/schedule.h
libfypager_la_SOURCES += \
	pager/execute/executor.c \
	pager/execute/hostmem.c \
	pager/execute/hostmem.h \
	pager/execute/lane.c \
	pager/execute/lane.h \
	pager/execute/mirrors.c \
	pager/execute/mirrors.h \
	pager/execute/pool.c \
	pager/execute/pool.h \
	pager/execute/replica.c \
	pager/execute/replica.h \
	pager/execute/undo.c \
	pager/execute/undo.h
EXTRA_DIST += pager/execute/README.md
