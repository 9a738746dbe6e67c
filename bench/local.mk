# SPDX-License-Identifier: Apache-2.0

# Bytes moved over the bound; a plan needs the originals' addresses only.
check_PROGRAMS += bench/traffic
bench_traffic_SOURCES = bench/traffic.c tests/unit/calls.c tests/unit/calls.h
bench_traffic_LDADD = libfyannotations.la libfypager.la libfymodel.la \
	libfycommon.la -ldl -lm
EXTRA_DIST += bench/xlintstd bench/residency bench/residency.c \
	bench/residency_numpy.py

# What the preload costs a call that is declined, and a program's start.
EXTRA_DIST += bench/decline.c bench/decline.sh bench/decline_target.c
EXTRA_DIST += bench/startup.c bench/startup.sh bench/exec.sh
bench-decline: libferry.la tests/preload/make_preload
	FERRY_BUILDDIR='$(abs_builddir)' $(SHELL) $(srcdir)/bench/decline.sh
bench-startup: all
	FERRY_BUILDDIR='$(abs_builddir)' $(SHELL) $(srcdir)/bench/startup.sh
# What the wire costs; by hand.
check_PROGRAMS += bench/wire
bench_wire_SOURCES = bench/wire.c
bench_wire_LDADD = libfyproxy.la libfycommon.la
bench-exec: libferry.la tests/exec/make_snapshot
	FERRY_BUILDDIR='$(abs_builddir)' bash $(srcdir)/bench/exec.sh
.PHONY: bench-decline bench-exec bench-startup
if HAVE_CHECK
check_PROGRAMS += bench/stage
endif
bench_stage_SOURCES = bench/stage.c tests/unit/proxy_client.c \
	tests/unit/proxy_client.h tests/unit/proxy_doubles.c
bench_stage_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
bench_stage_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)

# What commands on a remote mount cost; by hand, as root.
EXTRA_DIST += bench/pipeline
# What programs cost on `ferry mount'; by hand, as root.
EXTRA_DIST += bench/files
bench-pipeline: all
	FERRY_BUILDDIR='$(abs_builddir)' $(srcdir)/bench/pipeline
.PHONY: bench-pipeline

# What a card brings; by hand, on a machine that has one (tests/gpu/README.md).
check_PROGRAMS += bench/gpu_calls
bench_gpu_calls_SOURCES = bench/gpu_calls.c bench/gpu_calls.h bench/gpu_card.c \
	bench/gpu_card.h bench/gpu_check.c bench/gpu_hand.c bench/gpu_matrix.c \
	bench/gpu_matrix.h bench/gpu_ways.c
bench_gpu_calls_CFLAGS = $(AM_CFLAGS) -pthread
bench_gpu_calls_LDADD = -ldl -lm
EXTRA_DIST += bench/gpu bench/gpu_numpy.py bench/RESULTS.md

# Programs as users have them; their vector math is a library of its own.
check_PROGRAMS += bench/workloads
check_LTLIBRARIES += bench/libvml.la
bench_workloads_SOURCES = bench/workloads.c bench/vml.h
bench_workloads_LDADD = bench/libvml.la -ldl -lm
bench_workloads_LDFLAGS = $(AM_LDFLAGS) -no-install
bench_libvml_la_SOURCES = bench/vml.c bench/vml.h
bench_libvml_la_CFLAGS = $(AM_CFLAGS) -O3 -fopenmp -fno-math-errno
bench_libvml_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath /nowhere
bench_libvml_la_LIBADD = -lgomp -lmvec -lm
