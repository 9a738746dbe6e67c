# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/memory/compare.c \
	pager/memory/compare.h \
	pager/memory/memory.c \
	pager/memory/memory.h \
	pager/memory/objects.c \
	pager/memory/objects.h \
	pager/memory/remap.c \
	pager/memory/remap.h \
	pager/memory/watch.c \
	pager/memory/watch.h
EXTRA_DIST += pager/memory/README.md
