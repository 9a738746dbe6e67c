# SPDX-License-Identifier: Apache-2.0
# shim/: real programs with and without the preload.
check_PROGRAMS += tests/preload/make_preload
tests_preload_make_preload_SOURCES = tests/preload/make_preload.c
tests_preload_make_preload_LDADD = libfyshimgen.la libfycommon.la
check_LTLIBRARIES += tests/preload/fake_engine.la
tests_preload_fake_engine_la_SOURCES = tests/preload/fake_engine.c
tests_preload_fake_engine_la_LDFLAGS = -module -avoid-version -rpath /nowhere
