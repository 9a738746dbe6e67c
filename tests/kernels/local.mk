# SPDX-License-Identifier: Apache-2.0
# Kernels of the user, and maps: vector math with MKL's names.
check_LTLIBRARIES += tests/kernels/libvml.la
tests_kernels_libvml_la_SOURCES = tests/kernels/library.c tests/kernels/vml.h
# In place a loop reads what it writes; nothing may be reordered by guesses.
tests_kernels_libvml_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
tests_kernels_libvml_la_LDFLAGS = -avoid-version -rpath /nowhere
tests_kernels_libvml_la_LIBADD = -lm
check_PROGRAMS += tests/kernels/program
tests_kernels_program_SOURCES = tests/kernels/program.c tests/kernels/vml.h
tests_kernels_program_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
tests_kernels_program_LDADD = tests/kernels/libvml.la -lm
dist_check_SCRIPTS += tests/kernels/run.sh
EXTRA_DIST += tests/kernels/kernels.ferry tests/kernels/kernels.cu
EXTRA_DIST += tests/kernels/broken.cu tests/kernels/maps.ferry
EXTRA_DIST += tests/kernels/shared.cu tests/kernels/shared.ferry
