# SPDX-License-Identifier: Apache-2.0
# libferry.so is preloaded into every program: libc only, few segments (each is
# a system call at every exec), lazily bound, no start files.
pkglib_LTLIBRARIES += libferry.la
# start.c comes first: what its constructor writes lies on a page that relocation has
# made the process's.
libferry_la_SOURCES = \
	shim/start/start.c \
	shim/arch/x86_64/call.S \
	shim/arch/x86_64/dl.S \
	shim/arch/x86_64/enter.S \
	shim/arch/x86_64/frame.h \
	shim/arch/x86_64/image.S \
	shim/arch/x86_64/imports.S \
	shim/arch/x86_64/jump.S \
	shim/arch/x86_64/layout.h \
	shim/arch/x86_64/raw.h \
	shim/arch/x86_64/state.c \
	shim/arch/x86_64/syscall.S \
	shim/arch/x86_64/valgrind.h \
	shim/arch/x86_64/unwind.c \
	common/debug.c \
	common/debug.h \
	common/lines.c \
	common/lines.h \
	common/plain.c \
	common/plain.h
# Both run on stacks that other programs have chosen.
FY_FRAMES = -Wframe-larger-than=6000
libferry_la_CFLAGS = -std=gnu11 -g $(FY_WARNINGS) $(FY_FRAMES) $(FY_COVERAGE) -fvisibility=hidden -fexceptions \
	-fno-optimize-sibling-calls -fno-tree-loop-distribute-patterns
libferry_la_LDFLAGS = -module -avoid-version -shared -Wc,-nostartfiles \
	-Wl,--version-script=$(srcdir)/shim/libferry.map \
	-Wl,-z,lazy -Wl,-z,norelro -Wl,-z,initfirst -Wl,-z,noseparate-code \
	-Wl,-z,defs -Wl,--hash-style=gnu -Wl,--build-id
EXTRA_libferry_la_DEPENDENCIES = shim/libferry.map
EXTRA_DIST += shim/libferry.map shim/arch/README.md

# Stands in for a command that may run elsewhere. Static: it must start fast,
# and be no program that the preloaded library enters.
pkglibexec_PROGRAMS += ferry-stub
ferry_stub_SOURCES = \
	common/clock.c \
	common/clock.h \
	common/environment.c \
	common/environment.h \
	common/arch/x86_64/sha256.c \
	common/sha256.c \
	common/sha256.h
ferry_stub_CFLAGS = -std=gnu11 -g -O2 $(FY_WARNINGS) $(FY_FRAMES) $(FY_COVERAGE)
ferry_stub_LDFLAGS = -all-static

# Tool side: makes the preloaded object.
noinst_LTLIBRARIES += libfyshimgen.la
libfyshimgen_la_SOURCES = \
	shim/arch/x86_64/predicate.c \
	shim/arch/x86_64/thunk.c \
	shim/arch/x86_64/thunk.h
libfyshimgen_la_CFLAGS = $(AM_CFLAGS) $(ELF_CFLAGS)
libfyshimgen_la_LIBADD = $(ELF_LIBS)

include shim/calls/local.mk
include shim/image/local.mk
include shim/programs/local.mk
include shim/start/local.mk
include shim/stub/local.mk
