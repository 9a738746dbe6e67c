# SPDX-License-Identifier: Apache-2.0
libferry_la_SOURCES += \
	shim/calls/alone.c \
	shim/calls/bind.c \
	shim/calls/dispatch.c \
	shim/calls/dl.c \
	shim/calls/filter.c \
	shim/calls/imports.c \
	shim/calls/keep.c \
	shim/calls/lock.c \
	shim/calls/memory.c \
	shim/calls/object.c \
	shim/calls/object.h \
	shim/calls/patch.c \
	shim/calls/scope.c \
	shim/calls/shim.h \
	shim/calls/stack.c \
	shim/calls/symbol.c \
	shim/calls/write.c
EXTRA_DIST += shim/calls/README.md
