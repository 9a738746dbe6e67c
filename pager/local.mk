# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libfypager.la
libfypager_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden $(FFI_CFLAGS)
libfypager_la_LIBADD = $(FFI_LIBS) -lpthread
libfypager_la_SOURCES =

# What `ferry verify' itself needs: the counters and the report.
noinst_LTLIBRARIES += libfyverify.la
libfyverify_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libfyverify_la_SOURCES =

# Planner and engine.
libfypager_la_LIBADD += libfymodel.la libfycommon.la -lm

# `ferry verify' inside the program.
libfypager_la_LIBADD += libfyverify.la

pkglib_LTLIBRARIES += libferry-engine.la
libferry_engine_la_SOURCES =
libferry_engine_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libferry_engine_la_LDFLAGS = -module -avoid-version -no-undefined
libferry_engine_la_LIBADD = libfypager.la

include pager/base/local.mk
include pager/bind/local.mk
include pager/blocked/local.mk
include pager/decide/local.mk
include pager/device/local.mk
include pager/device/cuda/local.mk
include pager/device/host/local.mk
include pager/engine/local.mk
include pager/execute/local.mk
include pager/kernel/local.mk
include pager/memory/local.mk
include pager/plan/local.mk
include pager/verify/local.mk
