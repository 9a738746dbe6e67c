# SPDX-License-Identifier: Apache-2.0

# Bytes moved over the bound; a plan needs the originals' addresses only.
noinst_PROGRAMS += bench/traffic
bench_traffic_SOURCES = bench/traffic.c tests/unit/calls.c tests/unit/calls.h
bench_traffic_LDADD = libfyannotations.la libfypager.la libfymodel.la \
	libfycommon.la -ldl -lm
EXTRA_DIST += bench/xlintstd
