# SPDX-License-Identifier: Apache-2.0
# Calls every function that annotations/lib describes; see drive.h.
check_PROGRAMS += tests/drive/drive
tests_drive_drive_SOURCES = \
	tests/drive/arguments.c \
	tests/drive/blas1.c \
	tests/drive/blas2.c \
	tests/drive/blas3.c \
	tests/drive/drive.c tests/drive/drive.h \
	tests/drive/fftw.c \
	tests/drive/lapack.c \
	tests/drive/run.c
tests_drive_drive_CFLAGS = $(AM_CFLAGS) $(FFI_CFLAGS)
tests_drive_drive_LDADD = $(FFI_LIBS) -ldl -lm
dist_check_SCRIPTS += tests/drive/run.sh tests/drive/cuda.sh tests/drive/svd.py
EXTRA_DIST += tests/drive/covered.py
TESTS += tests/drive/cuda.sh tests/drive/svd.py
