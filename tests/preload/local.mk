# SPDX-License-Identifier: Apache-2.0
# shim/: real programs with and without the preload.
check_PROGRAMS += tests/preload/make_preload
tests_preload_make_preload_SOURCES = tests/preload/make_preload.c
tests_preload_make_preload_LDADD = libfyshimgen.la libfymodel.la libfycommon.la

# Loaded into programs that know no sanitizer: built without.
check_LTLIBRARIES += tests/preload/fake_engine.la
tests_preload_fake_engine_la_SOURCES = tests/preload/fake_engine.c
tests_preload_fake_engine_la_CFLAGS = -std=gnu11 -g $(FY_WARNINGS)
tests_preload_fake_engine_la_LDFLAGS = -module -avoid-version -rpath /nowhere

dist_check_SCRIPTS += tests/preload/binding.sh
dist_check_SCRIPTS += tests/preload/versions.sh
dist_check_SCRIPTS += tests/preload/dispatch.sh
dist_check_SCRIPTS += tests/preload/filter.sh
dist_check_SCRIPTS += tests/preload/kept.sh
dist_check_SCRIPTS += tests/preload/imports.sh
dist_check_SCRIPTS += tests/preload/own.sh
dist_check_SCRIPTS += tests/preload/valgrind.sh
TESTS += tests/preload/imports.sh
TESTS += tests/preload/valgrind.sh
TESTS += tests/preload/own.sh
TESTS += tests/preload/versions.sh
TESTS += tests/preload/dispatch.sh
TESTS += tests/preload/filter.sh
TESTS += tests/preload/kept.sh
EXTRA_DIST += \
	tests/preload/abi.c \
	tests/preload/caller.c \
	tests/preload/closing.c \
	tests/preload/depth.c \
	tests/preload/dispatch.c \
	tests/preload/filter.c \
	tests/preload/host.c \
	tests/preload/imports.c \
	tests/preload/imports_blas.c \
	tests/preload/kept.c \
	tests/preload/plugin_dl.c \
	tests/preload/provider.c \
	tests/preload/provider.h \
	tests/preload/steps.c \
	tests/preload/throw.cc \
	tests/preload/weak.c \
	tests/preload/wrapper.c

UNIT_TESTS += tests/unit/test_predicate tests/unit/test_elf
tests_unit_test_predicate_SOURCES = tests/unit/test_predicate.c
tests_unit_test_predicate_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_predicate_LDADD = libfyshimgen.la libfymodel.la libfycommon.la \
	$(CHECK_LIBS)
tests_unit_test_elf_SOURCES = tests/unit/test_elf.c
tests_unit_test_elf_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_elf_LDADD = libfyshimgen.la libfymodel.la libfycommon.la $(CHECK_LIBS)
