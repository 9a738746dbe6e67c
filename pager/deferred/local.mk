# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/deferred/call.c \
	pager/deferred/call.h \
	pager/deferred/child.c \
	pager/deferred/child.h \
	pager/deferred/defer.c \
	pager/deferred/defer.h \
	pager/deferred/fuse.c \
	pager/deferred/fuse.h \
	pager/deferred/pages.c \
	pager/deferred/pages.h \
	pager/deferred/run.c \
	pager/deferred/run.h \
	pager/deferred/where.c \
	pager/deferred/where.h
EXTRA_DIST += pager/deferred/README.md
