# SPDX-License-Identifier: Apache-2.0
# libfymodel.la: reading a compiled model, also inside host programs (no libc).
# libfyannotations.la: text to model, for the tools and the tests only.
noinst_LTLIBRARIES += libfymodel.la libfyannotations.la
libfymodel_la_SOURCES = \
	annotations/eval.c annotations/eval.h \
	annotations/model.c annotations/model.h \
	annotations/validate.c
libfymodel_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

libfyannotations_la_SOURCES = \
	annotations/annotations.h \
	annotations/arena.c annotations/arena.h \
	annotations/ast.h \
	annotations/axis.c \
	annotations/body.c \
	annotations/cell.c \
	annotations/command.c annotations/command.h \
	annotations/command_ast.h \
	annotations/command_check.c annotations/command_check.h \
	annotations/command_condition.c \
	annotations/command_declare.c \
	annotations/command_declare_runs.c \
	annotations/command_dump.c \
	annotations/command_invocation.c \
	annotations/command_match.c annotations/command_match.h \
	annotations/command_model.h \
	annotations/command_lazy.c \
	annotations/command_names.c \
	annotations/command_parse.h \
	annotations/command_reach.c \
	annotations/command_resolve.c \
	annotations/command_runs.c \
	annotations/variants.c \
	annotations/compile.c annotations/compile.h \
	annotations/diagnostics.c annotations/diagnostics.h \
	annotations/dump.c \
	annotations/emit.c \
	annotations/expression.c \
	annotations/device_call.c \
	annotations/head.c \
	annotations/kernel.c \
	annotations/map.c \
	annotations/names.c \
	annotations/operand.c \
	annotations/parse.h \
	annotations/types.c
nodist_libfyannotations_la_SOURCES = \
	annotations/command_parse.tab.c annotations/command_parse.tab.h \
	annotations/command_scan.lex.c \
	annotations/parse.tab.c annotations/parse.tab.h \
	annotations/scan.lex.c
libfyannotations_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libfyannotations_la_LIBADD = libfymodel.la libfycommon.la

# Rules of our own: automake's would need -y names and leave them in srcdir.
EXTRA_DIST += annotations/parse.y annotations/scan.l \
	annotations/command_parse.y annotations/command_scan.l
BUILT_SOURCES += annotations/parse.tab.h annotations/command_parse.tab.h
CLEANFILES += annotations/parse.tab.c annotations/parse.tab.h \
	annotations/scan.lex.c annotations/command_parse.tab.c \
	annotations/command_parse.tab.h annotations/command_scan.lex.c

annotations/parse.tab.c: annotations/parse.y
	$(AM_V_GEN)$(MKDIR_P) annotations && \
	$(YACC) -Werror -Wno-yacc -d -o annotations/parse.tab.c \
		$(srcdir)/annotations/parse.y
annotations/parse.tab.h: annotations/parse.tab.c
	@test -f $@ || { rm -f annotations/parse.tab.c; \
		$(MAKE) $(AM_MAKEFLAGS) annotations/parse.tab.c; }
annotations/scan.lex.c: annotations/scan.l annotations/parse.tab.h
	$(AM_V_GEN)$(MKDIR_P) annotations && \
	$(LEX) -o annotations/scan.lex.c $(srcdir)/annotations/scan.l

annotations/command_parse.tab.c: annotations/command_parse.y
	$(AM_V_GEN)$(MKDIR_P) annotations && \
	$(YACC) -Werror -Wno-yacc -d -o annotations/command_parse.tab.c \
		$(srcdir)/annotations/command_parse.y
annotations/command_parse.tab.h: annotations/command_parse.tab.c
	@test -f $@ || { rm -f annotations/command_parse.tab.c; \
		$(MAKE) $(AM_MAKEFLAGS) annotations/command_parse.tab.c; }
annotations/command_scan.lex.c: annotations/command_scan.l annotations/command_parse.tab.h
	$(AM_V_GEN)$(MKDIR_P) annotations && \
	$(LEX) -o annotations/command_scan.lex.c $(srcdir)/annotations/command_scan.l

# The shipped annotations.
nobase_dist_pkgdata_DATA += \
	annotations/lib/blas1.ferry \
	annotations/lib/blas2.ferry \
	annotations/lib/blas3.ferry \
	annotations/lib/cblas1.ferry \
	annotations/lib/cblas2.ferry \
	annotations/lib/cblas3.ferry \
	annotations/lib/fftw3.ferry \
	annotations/lib/fftw3_execute.ferry \
	annotations/lib/fftw3_new_array.ferry \
	annotations/lib/lapack.ferry \
	annotations/lib/lapack_eigen.ferry \
	annotations/lib/lapacke.ferry \
	annotations/lib/lapacke_eigen.ferry \
	annotations/lib/types.ferry \
	annotations/lib/vml.ferry \
	annotations/lib/vml_forms.ferry
nobase_dist_pkgdata_DATA += \
	annotations/lib/commands/archive.ferry \
	annotations/lib/commands/encode.ferry \
	annotations/lib/commands/files.ferry \
	annotations/lib/commands/git.ferry \
	annotations/lib/commands/image.ferry \
	annotations/lib/commands/order.ferry \
	annotations/lib/commands/programs.ferry \
	annotations/lib/commands/search.ferry \
	annotations/lib/commands/sums.ferry \
	annotations/lib/commands/text.ferry
EXTRA_DIST += annotations/lib/README.md annotations/lib/commands/README.md

dist_man_MANS += docs/ferry-annotations.5
