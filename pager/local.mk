# SPDX-License-Identifier: Apache-2.0
noinst_LTLIBRARIES += libfypager.la
libfypager_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden $(FFI_CFLAGS)
libfypager_la_LIBADD = $(FFI_LIBS) -lpthread
libfypager_la_SOURCES =
EXTRA_DIST += pager/device.h pager/schedule.h pager/executor.h

libfypager_la_SOURCES += pager/device.c pager/device_copy.c pager/device_copy.h
libfypager_la_SOURCES += pager/host.c pager/host.h pager/host_internal.h
libfypager_la_SOURCES += pager/host_arena.c pager/host_arena.h
libfypager_la_SOURCES += pager/host_memory.c pager/host_memory.h
libfypager_la_SOURCES += pager/call.c pager/call.h pager/host_stream.c
libfypager_la_SOURCES += pager/cuda.c pager/cuda_internal.h
libfypager_la_SOURCES += pager/cuda_driver.c pager/cuda_driver.h
libfypager_la_SOURCES += pager/cuda_library.c pager/cuda_library.h
libfypager_la_SOURCES += pager/cuda_budget.c pager/cuda_share.c pager/cuda_share.h
libfypager_la_SOURCES += pager/cuda_memory.c pager/cuda_memory.h
libfypager_la_SOURCES += pager/cuda_copy.c pager/cuda_launch.c pager/cuda_fft.c pager/cuda_svd.c \
	pager/cuda_limits.c \
	pager/cuda_start.c \
	pager/cuda_places.c \
	pager/cuda_places.h
libfypager_la_SOURCES += pager/cuda_pieces.c pager/cuda_pieces.h
libfypager_la_SOURCES += pager/cuda_kernel.c
libfypager_la_SOURCES += pager/kernel_cache.c pager/kernel_compile.c
libfypager_la_SOURCES += pager/kernel_compile.h
libfypager_la_SOURCES += pager/cuda_ring.c pager/cuda_ring.h
libfypager_la_SOURCES += pager/cuda_register.c pager/cuda_register.h
libfypager_la_SOURCES += pager/cuda_users.c pager/cuda_users.h
libfypager_la_SOURCES += pager/watch.c pager/watch.h
libfypager_la_SOURCES += pager/own_thread.c pager/own_thread.h
libfypager_la_SOURCES += pager/cuda_stream.c pager/cuda_thread.c
libfypager_la_SOURCES += pager/executor.c pager/executor_lane.c
libfypager_la_SOURCES += pager/executor_lane.h pager/executor_undo.c
libfypager_la_SOURCES += pager/executor_undo.h
libfypager_la_SOURCES += pager/replica.c pager/replica.h
libfypager_la_SOURCES += pager/host_access.c pager/host_access.h
libfypager_la_SOURCES += pager/hostmem.c pager/hostmem.h
libfypager_la_SOURCES += pager/guard.c pager/guard.h
libfypager_la_SOURCES += pager/verify_child.c pager/verify_child.h

# What `ferry verify' itself needs: the counters and the report.
noinst_LTLIBRARIES += libfyverify.la
libfyverify_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libfyverify_la_SOURCES = pager/verify_tally.c pager/verify_tally.h
libfyverify_la_SOURCES += pager/verify_report.c

# Planner and engine.
libfypager_la_SOURCES += pager/device_call.c pager/device_call.h
libfypager_la_SOURCES += pager/bind.c pager/bind.h pager/bind_memory.c
libfypager_la_SOURCES += pager/raw.c pager/views.c
libfypager_la_SOURCES += pager/mapped.c pager/mapped.h
libfypager_la_SOURCES += pager/kernel_source.c pager/kernel_source.h
libfypager_la_SOURCES += pager/map_type.h
libfypager_la_SOURCES += pager/kernel_call.c pager/kernel_call.h
libfypager_la_SOURCES += pager/leaf.c pager/cuts.c
libfypager_la_SOURCES += pager/plan.h pager/plan_build.c pager/plan_build.h
libfypager_la_SOURCES += pager/query.c
libfypager_la_SOURCES += pager/plan_axes.c pager/plan_axes.h
libfypager_la_SOURCES += pager/plan_search.c pager/plan_memory.c
libfypager_la_SOURCES += pager/plan_traffic.c pager/plan_traffic.h
libfypager_la_SOURCES += pager/algo.c pager/algo.h
libfypager_la_SOURCES += pager/algo_call.c pager/algo_search.c
libfypager_la_SOURCES += pager/algo_inverse.c pager/algo_invert.c pager/algo_panels.c pager/algo_qr.c
libfypager_la_SOURCES += pager/algo_rank.c pager/algo_symm.c
libfypager_la_SOURCES += pager/algo_triangle.c pager/algo_cholesky.c
libfypager_la_SOURCES += pager/algo_lu.c
libfypager_la_SOURCES += pager/algo_fft.c pager/algo_fft.h
libfypager_la_SOURCES += pager/algo_fft_steps.c pager/twiddles.c
libfypager_la_SOURCES += pager/plan_bound.c
libfypager_la_SOURCES += pager/pool.c pager/pool.h
libfypager_la_SOURCES += pager/provider.c pager/provider.h
libfypager_la_SOURCES += pager/brief.h pager/libm.h
libfypager_la_SOURCES += pager/handles.c pager/handles.h
libfypager_la_SOURCES += pager/calibrate.c pager/cost.c pager/cost.h
libfypager_la_SOURCES += pager/choice.c pager/choice.h
libfypager_la_SOURCES += pager/learn.c pager/learn.h
libfypager_la_SOURCES += pager/explain.c pager/explain.h
libfypager_la_SOURCES += pager/checked.c pager/checked.h
libfypager_la_SOURCES += pager/shadow.c pager/shadow.h
libfypager_la_SOURCES += pager/defer.c pager/defer.h
libfypager_la_SOURCES += pager/defer_call.c pager/defer_call.h
libfypager_la_SOURCES += pager/defer_child.c pager/defer_child.h
libfypager_la_SOURCES += pager/defer_fuse.c pager/defer_fuse.h
libfypager_la_SOURCES += pager/defer_pages.c pager/defer_pages.h
libfypager_la_SOURCES += pager/defer_run.c pager/defer_run.h
libfypager_la_SOURCES += pager/defer_where.c pager/defer_where.h
libfypager_la_LIBADD += libfymodel.la libfycommon.la -lm

# `ferry verify' inside the program.
libfypager_la_SOURCES += pager/verify.c pager/verify.h
libfypager_la_SOURCES += pager/verify_chunks.c
libfypager_la_SOURCES += pager/verify_compare.c pager/verify_compare.h
libfypager_la_SOURCES += pager/verify_copies.c pager/verify_copies.h
libfypager_la_SOURCES += pager/verify_image.c pager/verify_image.h
libfypager_la_SOURCES += pager/verify_invoke.c pager/verify_invoke.h
libfypager_la_SOURCES += pager/map_value.c pager/map_value.h
libfypager_la_SOURCES += pager/verify_maps.c
libfypager_la_SOURCES += pager/verify_slabs.c
libfypager_la_SOURCES += pager/verify_trial.c pager/verify_trial.h
libfypager_la_LIBADD += libfyverify.la

pkglib_LTLIBRARIES += libferry-engine.la
libferry_engine_la_SOURCES = pager/engine.c pager/engine.h
libferry_engine_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libferry_engine_la_LDFLAGS = -module -avoid-version -no-undefined
libferry_engine_la_LIBADD = libfypager.la
