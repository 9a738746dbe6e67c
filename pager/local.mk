# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libfypager.la
libfypager_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden $(FFI_CFLAGS)
libfypager_la_LIBADD = $(FFI_LIBS) -lpthread
libfypager_la_SOURCES =
EXTRA_DIST += pager/device.h pager/schedule.h pager/executor.h

libfypager_la_SOURCES += pager/device.c pager/device_copy.c pager/device_copy.h
libfypager_la_SOURCES += pager/host.c pager/host.h pager/host_internal.h
libfypager_la_SOURCES += pager/host_arena.c pager/host_arena.h
libfypager_la_SOURCES += pager/host_call.c pager/host_stream.c
libfypager_la_SOURCES += pager/executor.c pager/executor_lane.c
libfypager_la_SOURCES += pager/executor_lane.h pager/executor_undo.c
libfypager_la_SOURCES += pager/executor_undo.h
libfypager_la_SOURCES += pager/replica.c pager/replica.h
libfypager_la_SOURCES += pager/hostmem.c pager/hostmem.h
libfypager_la_SOURCES += pager/guard.c pager/guard.h
libfypager_la_SOURCES += pager/verify_child.c pager/verify_child.h

# What `ferry verify' itself needs: the counters and the report.
noinst_LTLIBRARIES += libfyverify.la
libfyverify_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libfyverify_la_SOURCES = pager/verify_tally.c pager/verify_tally.h
libfyverify_la_SOURCES += pager/verify_report.c
