# SPDX-License-Identifier: Apache-2.0
# libfymodel.la: reading a compiled model, also inside host programs (no libc).
# libfyannotations.la: text to model, for the tools and the tests only.
noinst_LTLIBRARIES += libfymodel.la
libfymodel_la_SOURCES = \
	annotations/eval.c annotations/eval.h \
	annotations/model.c annotations/model.h
libfymodel_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
