# SPDX-License-Identifier: Apache-2.0
# tests/fakecuda/: CUDA's libraries, run by the CPU, hostile.  Loaded into
# programs that know no sanitizer as well: built with AM_CFLAGS, so that under
# --enable-sanitizers they are checked with the tests that load them.
FAKECUDA_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden -pthread
FAKECUDA_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere -Wl,-z,nodelete

FAKECUDA_MADE = tests/fakecuda/names tests/fakecuda/driver_rows.h tests/fakecuda/driver_calls.c \
	tests/fakecuda/cublas_rows.h tests/fakecuda/cublas_calls.c \
	tests/fakecuda/cublas_routines.c \
	tests/fakecuda/cusolver_rows.h tests/fakecuda/cusolver_calls.c \
	tests/fakecuda/cusolver_routines.c \
	tests/fakecuda/cufft_rows.h tests/fakecuda/cufft_calls.c \
	tests/fakecuda/nvrtc_rows.h tests/fakecuda/nvrtc_calls.c
CLEANFILES += $(FAKECUDA_MADE)
EXTRA_DIST += tests/fakecuda/generate.py tests/fakecuda/driver.rows \
	tests/fakecuda/cublas.rows tests/fakecuda/cublas_routines.rows \
	tests/fakecuda/cusolver.rows tests/fakecuda/cusolver_routines.rows tests/fakecuda/cufft.rows \
	tests/fakecuda/nvrtc.rows

FAKECUDA_GENERATE = $(AM_V_GEN)$(MKDIR_P) tests/fakecuda && \
	python3 $(srcdir)/tests/fakecuda/generate.py

tests/fakecuda/driver_rows.h: tests/fakecuda/driver.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) header $(srcdir)/tests/fakecuda/driver.rows >$@
tests/fakecuda/driver_calls.c: tests/fakecuda/driver.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/driver.rows >$@
tests/fakecuda/cublas_rows.h: tests/fakecuda/cublas.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) header $(srcdir)/tests/fakecuda/cublas.rows >$@
tests/fakecuda/cublas_calls.c: tests/fakecuda/cublas.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/cublas.rows >$@
tests/fakecuda/cublas_routines.c: tests/fakecuda/cublas_routines.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/cublas_routines.rows >$@
tests/fakecuda/cusolver_rows.h: tests/fakecuda/cusolver.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) header $(srcdir)/tests/fakecuda/cusolver.rows >$@
tests/fakecuda/cusolver_calls.c: tests/fakecuda/cusolver.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/cusolver.rows >$@
tests/fakecuda/cusolver_routines.c: tests/fakecuda/cusolver_routines.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/cusolver_routines.rows >$@
tests/fakecuda/cufft_rows.h: tests/fakecuda/cufft.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) header $(srcdir)/tests/fakecuda/cufft.rows >$@
tests/fakecuda/cufft_calls.c: tests/fakecuda/cufft.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/cufft.rows >$@
tests/fakecuda/nvrtc_rows.h: tests/fakecuda/nvrtc.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) header $(srcdir)/tests/fakecuda/nvrtc.rows >$@
tests/fakecuda/nvrtc_calls.c: tests/fakecuda/nvrtc.rows tests/fakecuda/generate.py
	$(FAKECUDA_GENERATE) source $(srcdir)/tests/fakecuda/nvrtc.rows >$@

FAKECUDA_ROWS = tests/fakecuda/driver.rows tests/fakecuda/cublas.rows \
	tests/fakecuda/cublas_routines.rows tests/fakecuda/cusolver.rows \
	tests/fakecuda/cusolver_routines.rows tests/fakecuda/cufft.rows \
	tests/fakecuda/nvrtc.rows
tests/fakecuda/names: $(FAKECUDA_ROWS) tests/fakecuda/generate.py
	$(AM_V_GEN)$(MKDIR_P) tests/fakecuda && for rows in $(FAKECUDA_ROWS); do \
		python3 $(srcdir)/tests/fakecuda/generate.py names $(srcdir)/$$rows || exit 1; \
	done >$@

check_LTLIBRARIES += tests/fakecuda/libcuda.la tests/fakecuda/libcublas.la
check_LTLIBRARIES += tests/fakecuda/libcusolver.la tests/fakecuda/libcufft.la
check_LTLIBRARIES += tests/fakecuda/libnvrtc.la
# Simulated time, preloaded: also called by the shim, which has saved no vectors.
check_LTLIBRARIES += tests/fakecuda/libfakeclock.la
tests_fakecuda_libfakeclock_la_SOURCES = tests/fakecuda/clock.c tests/fakecuda/clock.h
tests_fakecuda_libfakeclock_la_CFLAGS = $(FAKECUDA_CFLAGS) -mgeneral-regs-only
tests_fakecuda_libfakeclock_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -avoid-version
tests_fakecuda_libfakeclock_la_LIBADD = -ldl
check_LTLIBRARIES += tests/fakecuda/libhostblas.la
tests_fakecuda_libhostblas_la_SOURCES = tests/fakecuda/clock.h tests/fakecuda/hostblas.c
tests_fakecuda_libhostblas_la_CFLAGS = $(FAKECUDA_CFLAGS)
tests_fakecuda_libhostblas_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -avoid-version

nodist_tests_fakecuda_libcuda_la_SOURCES = tests/fakecuda/driver_calls.c tests/fakecuda/driver_rows.h
tests_fakecuda_libcuda_la_SOURCES = \
	tests/fakecuda/capture.c \
	tests/fakecuda/clock.h \
	tests/fakecuda/core.h \
	tests/fakecuda/driver.c \
	tests/fakecuda/driver_abi.h \
	tests/fakecuda/driver_copy.c \
	tests/fakecuda/driver_memory.c \
	tests/fakecuda/driver_module.c \
	tests/fakecuda/driver_stream.c \
	tests/fakecuda/gate.c \
	tests/fakecuda/image.h \
	tests/fakecuda/machine.h \
	tests/fakecuda/memory.c \
	tests/fakecuda/model.c \
	tests/fakecuda/model.h \
	tests/fakecuda/object.c \
	tests/fakecuda/pinned.c \
	tests/fakecuda/race.c \
	tests/fakecuda/share.c \
	tests/fakecuda/stream.c \
	tests/fakecuda/virtual.c
tests_fakecuda_libcuda_la_CFLAGS = $(FAKECUDA_CFLAGS)
tests_fakecuda_libcuda_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -version-info 1:0:0
tests_fakecuda_libcuda_la_LIBADD = -ldl

nodist_tests_fakecuda_libcublas_la_SOURCES = tests/fakecuda/cublas_calls.c \
	tests/fakecuda/cublas_routines.c tests/fakecuda/cublas_rows.h
tests_fakecuda_libcublas_la_SOURCES = \
	tests/fakecuda/arguments.c \
	tests/fakecuda/blas.c \
	tests/fakecuda/blas.h \
	tests/fakecuda/blas_table.c \
	tests/fakecuda/cublas_abi.h \
	tests/fakecuda/netlib.c \
	tests/fakecuda/netlib.h
tests_fakecuda_libcublas_la_CFLAGS = $(FAKECUDA_CFLAGS) $(FFI_CFLAGS)
tests_fakecuda_libcublas_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -version-info 13:0:0
tests_fakecuda_libcublas_la_LIBADD = tests/fakecuda/libcuda.la $(FFI_LIBS) -ldl

nodist_tests_fakecuda_libcusolver_la_SOURCES = tests/fakecuda/cusolver_calls.c \
	tests/fakecuda/cusolver_routines.c tests/fakecuda/cusolver_rows.h
tests_fakecuda_libcusolver_la_SOURCES = \
	tests/fakecuda/cublas_abi.h \
	tests/fakecuda/cusolver_abi.h \
	tests/fakecuda/netlib.c \
	tests/fakecuda/netlib.h \
	tests/fakecuda/solver.c \
	tests/fakecuda/solver.h \
	tests/fakecuda/solver_routines.c
tests_fakecuda_libcusolver_la_CFLAGS = $(FAKECUDA_CFLAGS)
tests_fakecuda_libcusolver_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -version-info 12:0:0
tests_fakecuda_libcusolver_la_LIBADD = tests/fakecuda/libcuda.la -ldl

nodist_tests_fakecuda_libcufft_la_SOURCES = tests/fakecuda/cufft_calls.c \
	tests/fakecuda/cufft_rows.h
tests_fakecuda_libcufft_la_SOURCES = \
	tests/fakecuda/cublas_abi.h \
	tests/fakecuda/cufft_abi.h \
	tests/fakecuda/fft.c \
	tests/fakecuda/fft.h \
	tests/fakecuda/fft_plan.c
tests_fakecuda_libcufft_la_CFLAGS = $(FAKECUDA_CFLAGS)
tests_fakecuda_libcufft_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -version-info 12:0:0
tests_fakecuda_libcufft_la_LIBADD = tests/fakecuda/libcuda.la -lm

nodist_tests_fakecuda_libnvrtc_la_SOURCES = tests/fakecuda/nvrtc_calls.c \
	tests/fakecuda/nvrtc_rows.h
tests_fakecuda_libnvrtc_la_SOURCES = \
	tests/fakecuda/image.h \
	tests/fakecuda/nvrtc.c \
	tests/fakecuda/nvrtc_abi.h
tests_fakecuda_libnvrtc_la_CFLAGS = $(FAKECUDA_CFLAGS)
tests_fakecuda_libnvrtc_la_LDFLAGS = $(FAKECUDA_LDFLAGS) -version-info 13:0:0
tests_fakecuda_libnvrtc_la_LIBADD = tests/fakecuda/libcuda.la

# Headers made before any source that needs them.
$(tests_fakecuda_libcuda_la_OBJECTS): tests/fakecuda/driver_rows.h
$(tests_fakecuda_libcublas_la_OBJECTS): tests/fakecuda/cublas_rows.h
$(tests_fakecuda_libnvrtc_la_OBJECTS): tests/fakecuda/nvrtc_rows.h
$(tests_fakecuda_libcufft_la_OBJECTS): tests/fakecuda/cufft_rows.h
$(tests_fakecuda_libcusolver_la_OBJECTS): tests/fakecuda/cusolver_rows.h

# The same libraries as CUDA 12 calls them.
tests/fakecuda/cuda12/made: Makefile
	$(AM_V_GEN)$(MKDIR_P) tests/fakecuda/cuda12 && cd tests/fakecuda/cuda12 && \
	ln -sf ../.libs/libcuda.so.1 libcuda.so.1 && \
	ln -sf ../.libs/libcublas.so.13 libcublas.so.12 && \
	ln -sf ../.libs/libcusolver.so.12 libcusolver.so.11 && \
	ln -sf ../.libs/libcufft.so.12 libcufft.so.11 && \
	ln -sf ../.libs/libnvrtc.so.13 libnvrtc.so.12 && : >made
CLEANFILES += tests/fakecuda/cuda12/made tests/fakecuda/cuda12/*.so.*

EXTRA_DIST += tests/fakecuda/README.md
dist_check_SCRIPTS += tests/fakecuda/arguments.py tests/fakecuda/headers.sh tests/fakecuda/libraries.py \
	tests/fakecuda/model.py
TESTS += tests/fakecuda/arguments.py tests/fakecuda/headers.sh tests/fakecuda/libraries.py \
	tests/fakecuda/model.py
UNIT_TESTS += tests/fakecuda/test_fakecuda
tests_fakecuda_test_fakecuda_SOURCES = tests/fakecuda/test_fakecuda.c
tests_fakecuda_test_fakecuda_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_fakecuda_test_fakecuda_LDADD = $(CHECK_LIBS) -ldl
EXTRA_tests_fakecuda_test_fakecuda_DEPENDENCIES = tests/fakecuda/names \
	tests/fakecuda/cuda12/made \
	tests/fakecuda/libcuda.la tests/fakecuda/libcublas.la \
	tests/fakecuda/libcusolver.la tests/fakecuda/libcufft.la \
	tests/fakecuda/libnvrtc.la
