# SPDX-License-Identifier: Apache-2.0
# Deferred calls: programs that must not notice them.
check_LTLIBRARIES += tests/defer/libvec.la
tests_defer_libvec_la_SOURCES = tests/defer/vec.c tests/defer/vec.h
tests_defer_libvec_la_LDFLAGS = -avoid-version -rpath /nowhere
tests_defer_libvec_la_LIBADD = -lm

check_PROGRAMS += tests/defer/touch tests/defer/random
tests_defer_touch_SOURCES = tests/defer/touch.c tests/defer/cases.h
tests_defer_touch_LDADD = tests/defer/libvec.la -lpthread -lm
tests_defer_touch_LDFLAGS = -no-install
tests_defer_random_SOURCES = tests/defer/random.c
tests_defer_random_LDADD = tests/defer/libvec.la
tests_defer_random_LDFLAGS = -no-install
check_PROGRAMS += tests/defer/fused
tests_defer_fused_SOURCES = tests/defer/fused.c tests/defer/cases.h
tests_defer_fused_LDADD = tests/defer/libvec.la
tests_defer_fused_LDFLAGS = -no-install
check_PROGRAMS += tests/defer/unloaded
tests_defer_unloaded_SOURCES = tests/defer/unloaded.c
tests_defer_unloaded_LDFLAGS = -no-install
dist_check_SCRIPTS += tests/defer/run.sh tests/defer/fused.sh
EXTRA_DIST += tests/defer/array.py
EXTRA_DIST += tests/defer/vec.ferry
TESTS += tests/defer/run.sh tests/defer/fused.sh
