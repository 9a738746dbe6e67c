# SPDX-License-Identifier: Apache-2.0
libfyannotations_la_SOURCES += \
	annotations/functions/axis.c \
	annotations/functions/blocked.c \
	annotations/functions/body.c \
	annotations/functions/cell.c \
	annotations/functions/compile.c \
	annotations/functions/compile.h \
	annotations/functions/device_call.c \
	annotations/functions/dump.c \
	annotations/functions/emit.c \
	annotations/functions/expression.c \
	annotations/functions/form.c \
	annotations/functions/form_copy.c \
	annotations/functions/form_copy.h \
	annotations/functions/head.c \
	annotations/functions/kernel.c \
	annotations/functions/map.c \
	annotations/functions/names.c \
	annotations/functions/operand.c \
	annotations/functions/parse.h \
	annotations/functions/types.c \
	annotations/functions/variants.c
nodist_libfyannotations_la_SOURCES += \
	annotations/functions/parse.tab.c \
	annotations/functions/parse.tab.h \
	annotations/functions/scan.lex.c
EXTRA_DIST += \
	annotations/functions/parse.y \
	annotations/functions/scan.l
BUILT_SOURCES += \
	annotations/functions/parse.tab.h
CLEANFILES += \
	annotations/functions/parse.tab.c \
	annotations/functions/parse.tab.h \
	annotations/functions/scan.lex.c
EXTRA_DIST += annotations/functions/README.md
