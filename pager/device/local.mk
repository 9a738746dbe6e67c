# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += \
	pager/device/device.h
libfypager_la_SOURCES += \
	pager/device/call.c \
	pager/device/call.h \
	pager/device/copy.c \
	pager/device/copy.h \
	pager/device/device.c \
	pager/device/host_access.c \
	pager/device/host_access.h \
	pager/device/host_arena.c \
	pager/device/host_arena.h \
	pager/device/host_memory.c \
	pager/device/host_memory.h \
	pager/device/mapped.c \
	pager/device/mapped.h \
	pager/device/own_thread.c \
	pager/device/own_thread.h \
	pager/device/queue.c \
	pager/device/queue.h \
	pager/device/view.c \
	pager/device/view.h
EXTRA_DIST += pager/device/README.md
