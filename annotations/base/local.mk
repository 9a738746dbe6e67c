# SPDX-License-Identifier: Apache-2.0
libfyannotations_la_SOURCES += \
	annotations/base/arena.c \
	annotations/base/arena.h \
	annotations/base/ast.h \
	annotations/base/diagnostics.c \
	annotations/base/diagnostics.h
EXTRA_DIST += annotations/base/README.md
