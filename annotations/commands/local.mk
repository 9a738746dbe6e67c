# SPDX-License-Identifier: Apache-2.0
libfyannotations_la_SOURCES += \
	annotations/commands/ast.h \
	annotations/commands/check.c \
	annotations/commands/check.h \
	annotations/commands/command.c \
	annotations/commands/command.h \
	annotations/commands/condition.c \
	annotations/commands/declare.c \
	annotations/commands/declare_runs.c \
	annotations/commands/dump.c \
	annotations/commands/invocation.c \
	annotations/commands/lazy.c \
	annotations/commands/match.c \
	annotations/commands/match.h \
	annotations/commands/model.h \
	annotations/commands/names.c \
	annotations/commands/parse.h \
	annotations/commands/hidden.c \
	annotations/commands/resolve.c \
	annotations/commands/runs.c
nodist_libfyannotations_la_SOURCES += \
	annotations/commands/parse.tab.c \
	annotations/commands/parse.tab.h \
	annotations/commands/scan.lex.c
EXTRA_DIST += \
	annotations/commands/parse.y \
	annotations/commands/scan.l
BUILT_SOURCES += \
	annotations/commands/parse.tab.h
CLEANFILES += \
	annotations/commands/parse.tab.c \
	annotations/commands/parse.tab.h \
	annotations/commands/scan.lex.c
EXTRA_DIST += annotations/commands/README.md
