# SPDX-License-Identifier: Apache-2.0
# libfymodel.la: reading a compiled model, also inside host programs (no libc).
# libfyannotations.la: text to model, for the tools and the tests only.
noinst_LTLIBRARIES += libfymodel.la libfyannotations.la
libfymodel_la_SOURCES =
libfymodel_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden

libfyannotations_la_SOURCES =
nodist_libfyannotations_la_SOURCES =
libfyannotations_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libfyannotations_la_LIBADD = libfymodel.la libfycommon.la

# Rules of our own: automake's would need -y names and leave them in srcdir.

annotations/functions/parse.tab.c: annotations/functions/parse.y
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(YACC) -Werror -Wno-yacc -d -o annotations/functions/parse.tab.c \
		$(srcdir)/annotations/functions/parse.y
annotations/functions/parse.tab.h: annotations/functions/parse.tab.c
	@test -f $@ || { rm -f annotations/functions/parse.tab.c; \
		$(MAKE) $(AM_MAKEFLAGS) annotations/functions/parse.tab.c; }
annotations/functions/scan.lex.c: annotations/functions/scan.l annotations/functions/parse.tab.h
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(LEX) -o annotations/functions/scan.lex.c $(srcdir)/annotations/functions/scan.l

annotations/commands/parse.tab.c: annotations/commands/parse.y
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(YACC) -Werror -Wno-yacc -d -o annotations/commands/parse.tab.c \
		$(srcdir)/annotations/commands/parse.y
annotations/commands/parse.tab.h: annotations/commands/parse.tab.c
	@test -f $@ || { rm -f annotations/commands/parse.tab.c; \
		$(MAKE) $(AM_MAKEFLAGS) annotations/commands/parse.tab.c; }
annotations/commands/scan.lex.c: annotations/commands/scan.l annotations/commands/parse.tab.h
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	$(LEX) -o annotations/commands/scan.lex.c $(srcdir)/annotations/commands/scan.l

# The shipped annotations.
nobase_dist_pkgdata_DATA += \
	annotations/lib/blas1.ferry \
	annotations/lib/blas2.ferry \
	annotations/lib/blas3.ferry \
	annotations/lib/blocked.ferry \
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
	annotations/lib/vml.ferry
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

include annotations/base/local.mk
include annotations/commands/local.mk
include annotations/functions/local.mk
include annotations/model/local.mk
