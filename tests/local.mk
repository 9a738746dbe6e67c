# SPDX-License-Identifier: Apache-2.0
# Tests. Unit tests are Check programs (one per source file); others are
# scripts that print TAP. Every row stands on a line of its own. The exit
# status decides for `make check'; ./check sums up the single results.
# OpenBLAS 0.3.21 adds up wrongly in its own scasum for processors with AVX-512.
AM_TESTS_ENVIRONMENT = \
	FERRY_BUILDDIR='$(abs_top_builddir)' FERRY_SRCDIR='$(abs_top_srcdir)' \
	srcdir='$(srcdir)' CK_VERBOSITY=normal \
	CK_TIMEOUT_MULTIPLIER=$$(($(FY_PATIENCE) * $${FERRY_PATIENCE:-1})) FERRY_SANITIZED='$(FY_SANITIZE)'; \
	if grep -qs avx512 /proc/cpuinfo; then \
		: "$${OPENBLAS_CORETYPE=Haswell}"; export OPENBLAS_CORETYPE; \
	fi; \
	export FERRY_BUILDDIR FERRY_SRCDIR srcdir CK_VERBOSITY \
	CK_TIMEOUT_MULTIPLIER FERRY_SANITIZED;
# No test may hang: tests/limited ends it after FERRY_TEST_SECONDS (600) times
# FERRY_PATIENCE and says where it was.
LOG_COMPILER = $(top_srcdir)/tests/limited

# The longest first, so that no core has nothing to do at the end; those that
# mostly wait beside those that compute.
if !SANITIZED
TESTS += tests/preload/binding.sh
endif
TESTS += tests/session/input.py tests/gpu/tiny.py tests/kernels/run.sh
TESTS += tests/session/faults.sh tests/drive/run.sh
LONG_UNIT_TESTS = tests/unit/test_blas3 tests/unit/test_lapack
if HAVE_CHECK
TESTS += $(LONG_UNIT_TESTS)
endif
TESTS += tests/session/campaign tests/commands/parts.py tests/verify/run
TESTS += tests/exec/calls.sh tests/verify/maps tests/gpu/trouble.py

# Programs that are linked with libcheck.
UNIT_TESTS =

# Allocations that fail.
NOMEM = tests/unit/nomem.c tests/unit/nomem.h
NOMEM_WRAP = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=mmap

# System calls that fail.
NOCALL = tests/unit/nocall.c tests/unit/nocall.h
NOCALL_WRAP = -Wl,--wrap=fstat,--wrap=stat,--wrap=lstat,--wrap=fstatat,--wrap=statx,--wrap=access \
	-Wl,--wrap=faccessat,--wrap=readlink,--wrap=readlinkat,--wrap=read,--wrap=write \
	-Wl,--wrap=mkdir,--wrap=mkdirat,--wrap=symlinkat,--wrap=mount,--wrap=umount2 \
	-Wl,--wrap=unshare,--wrap=setns,--wrap=fork,--wrap=pipe2,--wrap=close_range,--wrap=poll \
	-Wl,--wrap=chdir,--wrap=fchdir,--wrap=flock,--wrap=getrlimit,--wrap=setrlimit \
	-Wl,--wrap=setpriority,--wrap=lseek,--wrap=fopen,--wrap=opendir,--wrap=fdopendir \
	-Wl,--wrap=open,--wrap=openat,--wrap=fcntl,--wrap=prctl,--wrap=syscall \
	-Wl,--wrap=ioctl,--wrap=syncfs,--wrap=getrandom,--wrap=readdir

include tests/baddevice/local.mk
include tests/commands/local.mk
include tests/drive/local.mk
include tests/exec/local.mk
include tests/fakecuda/local.mk
include tests/faults/local.mk
include tests/files/local.mk
include tests/gpu/local.mk
include tests/judges/local.mk
include tests/kernels/local.mk
include tests/pipeline/local.mk
include tests/nfs/local.mk
include tests/program/local.mk
include tests/preload/local.mk
include tests/verify/local.mk

include tests/fuzz/local.mk
include tests/lang/local.mk
include tests/unit/proxy.mk
include tests/unit/server.mk
include tests/security/local.mk
include tests/session/local.mk
include tests/standin/local.mk
include tests/proxy/local.mk

UNIT_TESTS += tests/unit/test_settings
UNIT_TESTS += tests/unit/test_report tests/unit/test_launch
UNIT_TESTS += tests/unit/test_device
UNIT_TESTS += tests/unit/test_replica
UNIT_TESTS += tests/unit/test_host
UNIT_TESTS += tests/unit/test_host_arena
UNIT_TESTS += tests/unit/test_hostmem
UNIT_TESTS += tests/unit/test_memory
UNIT_TESTS += tests/unit/test_objects tests/unit/test_mirrors
UNIT_TESTS += tests/unit/test_executor
UNIT_TESTS += tests/unit/test_fft
UNIT_TESTS += tests/unit/test_fft_plan
UNIT_TESTS += tests/unit/test_executor_undo
UNIT_TESTS += tests/unit/test_guard
UNIT_TESTS += tests/unit/test_verify
UNIT_TESTS += tests/unit/test_verify_compare
UNIT_TESTS += tests/unit/test_choice
UNIT_TESTS += tests/unit/test_cost
UNIT_TESTS += tests/unit/test_plan
UNIT_TESTS += tests/unit/test_plan_axes
UNIT_TESTS += tests/unit/test_plan_build
UNIT_TESTS += tests/unit/test_plan_method
UNIT_TESTS += tests/unit/test_traffic
UNIT_TESTS += tests/unit/test_engine
UNIT_TESTS += tests/unit/test_pool
UNIT_TESTS += tests/unit/test_brief
UNIT_TESTS += tests/unit/test_bind
UNIT_TESTS += tests/unit/test_shim_bind
UNIT_TESTS += tests/unit/test_cuda_device
UNIT_TESTS += tests/unit/test_cuda_driver tests/unit/test_cuda_places
UNIT_TESTS += tests/unit/test_kernel
UNIT_TESTS += tests/unit/test_cuda_engine
UNIT_TESTS += tests/unit/test_nest
UNIT_TESTS += tests/unit/test_cuda_pieces
UNIT_TESTS += tests/unit/test_cuda_process
UNIT_TESTS += tests/unit/test_cuda_share
UNIT_TESTS += tests/unit/test_cuda_start
UNIT_TESTS += tests/unit/test_cuda_trouble
UNIT_TESTS += tests/unit/test_device_call
if HAVE_CHECK
check_PROGRAMS += $(UNIT_TESTS) $(LONG_UNIT_TESTS)
TESTS += $(UNIT_TESTS)
else
# Without libcheck each of them is counted as skipped.
ABSENT_TESTS = $(UNIT_TESTS:=.absent) $(LONG_UNIT_TESTS:=.absent)
TESTS += $(ABSENT_TESTS)
$(ABSENT_TESTS):
	$(AM_V_GEN)$(MKDIR_P) $(@D) && \
	printf '#!/bin/sh\necho "needs libcheck (Debian: check)"\nexit 77\n' >$@ && chmod +x $@
CLEANFILES += $(ABSENT_TESTS)
endif

# The tests that run a source file, in at most a minute: make t FILE=proxy/storage/fresh.c
# Scripts need the programs that are no tests.
t: all
	@test -n '$(FILE)' || { echo 'usage: make t FILE=source-file' >&2; exit 2; }; \
	tests=$$(cd $(srcdir) && tests/near choose '$(abs_top_builddir)' $(FILE)) || exit; \
	programs=; for test in $$tests; do \
		case " $(check_PROGRAMS) " in \
			*" $$test "*) programs="$$programs $$test" ;; \
			*) programs="$$programs $(UNITS_OF_OTHERS) \
				$(filter-out $(TESTS),$(check_PROGRAMS))" ;; \
		esac; \
	done; \
	$(MAKE) check TESTS="$$tests" check_PROGRAMS="$$programs"
.PHONY: t

tests_unit_test_settings_SOURCES = tests/unit/test_settings.c
tests_unit_test_settings_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_settings_LDADD = libfycommon.la $(CHECK_LIBS)

tests_unit_test_executor_SOURCES = tests/unit/test_executor.c
tests_unit_test_executor_SOURCES += tests/unit/product.c tests/unit/product.h
tests_unit_test_executor_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_executor_SOURCES += $(BADDEVICE)
tests_unit_test_executor_LDFLAGS = $(BADDEVICE_LDFLAGS)
tests_unit_test_executor_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_fft_SOURCES = tests/unit/test_fft.c
tests_unit_test_fft_SOURCES += tests/unit/product.c tests/unit/product.h
tests_unit_test_fft_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_fft_SOURCES += $(BADDEVICE)
tests_unit_test_fft_LDFLAGS = $(BADDEVICE_LDFLAGS)
tests_unit_test_fft_LDADD = libfypager.la $(CHECK_LIBS) -lm

tests_unit_test_device_SOURCES = tests/unit/test_device.c
tests_unit_test_device_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_device_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_memory_SOURCES = tests/unit/test_memory.c
tests_unit_test_memory_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_memory_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_objects_SOURCES = tests/unit/test_objects.c
tests_unit_test_objects_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_objects_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_mirrors_SOURCES = tests/unit/test_mirrors.c $(BADDEVICE)
tests_unit_test_mirrors_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_mirrors_LDFLAGS = $(BADDEVICE_LDFLAGS)
tests_unit_test_mirrors_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_hostmem_SOURCES = tests/unit/test_hostmem.c
tests_unit_test_hostmem_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_hostmem_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_replica_SOURCES = tests/unit/test_replica.c
tests_unit_test_replica_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_replica_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_host_arena_SOURCES = tests/unit/test_host_arena.c
tests_unit_test_host_arena_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_host_arena_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_host_SOURCES = tests/unit/test_host.c
tests_unit_test_host_SOURCES += tests/baddevice/control.c
tests_unit_test_host_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_host_SOURCES += $(BADDEVICE)
tests_unit_test_host_LDFLAGS = $(BADDEVICE_LDFLAGS)
tests_unit_test_host_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_guard_SOURCES = tests/unit/test_guard.c
tests_unit_test_guard_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_guard_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_verify_SOURCES = tests/unit/test_verify.c
tests_unit_test_verify_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_verify_LDADD = libfypager.la libfyannotations.la $(CHECK_LIBS)

tests_unit_test_verify_compare_SOURCES = tests/unit/test_verify_compare.c
tests_unit_test_verify_compare_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_verify_compare_LDADD = libfypager.la libfyannotations.la $(CHECK_LIBS)

# The sources themselves, the manuals, the scripts.
dist_check_SCRIPTS += tests/style/sources.sh tests/style/scripts.sh
dist_check_SCRIPTS += tests/style/manuals.sh tests/style/tidy.sh
dist_check_SCRIPTS += tests/style/names.py tests/style/check.sh
dist_check_SCRIPTS += tests/style/layers.py tests/style/words.py
EXTRA_DIST += tests/style/LAYERS tests/style/LAYERS.today tests/style/WORDS.today
EXTRA_DIST += .clang-tidy bench/.clang-tidy demo/.clang-tidy \
	tests/.clang-tidy tools/.clang-tidy
EXTRA_DIST += tests/unit/lauum.ferry tests/sample.py tests/chosen.py tests/patience.py tests/patience.h tests/tap.sh tests/limited tests/speed tests/skips tests/near tests/unit/runner.h tests/unit/possible.h tests/unit/random.h tests/unit/stage.h
EXTRA_DIST += tests/mutants tests/mutants.named tests/mutants.same tests/machine
EXTRA_DIST += tests/coverage/counters.c tests/coverage/counters.ld
if !SANITIZED
TESTS += tests/style/sources.sh tests/style/scripts.sh
TESTS += tests/style/manuals.sh tests/style/names.py tests/style/check.sh
TESTS += tests/style/layers.py tests/style/words.py
endif

# Calls of installed libraries by their shipped annotations.
PLAN_TEST_LIBS = libfyannotations.la libfypager.la libfymodel.la libfycommon.la \
	$(CHECK_LIBS) -ldl -lm

tests_unit_test_blas3_SOURCES = tests/unit/test_blas3.c tests/unit/calls.c tests/unit/calls.h tests/unit/vendor.c tests/unit/vendor.h
tests_unit_test_blas3_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_blas3_LDADD = $(PLAN_TEST_LIBS)

# The command line.
tests_unit_test_report_SOURCES = tests/unit/test_report.c
tests_unit_test_report_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_report_LDADD = $(FYTOOLS) $(CHECK_LIBS)
tests_unit_test_launch_SOURCES = tests/unit/test_launch.c
tests_unit_test_launch_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_launch_LDADD = $(FYTOOLS) $(CHECK_LIBS)
dist_check_SCRIPTS += tests/cli/line.sh tests/cli/jobs.py
dist_check_SCRIPTS += tests/cli/mount.sh tests/cli/mounted.sh tests/cli/proxy.sh tests/cli/tools.sh
dist_check_SCRIPTS += tests/cli/odds.py tests/cli/leftovers.sh tests/cli/stack.sh
TESTS += tests/cli/odds.py tests/cli/leftovers.sh tests/cli/stack.sh
dist_check_SCRIPTS += tests/cli/debug.sh
TESTS += tests/cli/debug.sh
dist_check_SCRIPTS += tests/cli/examples.sh
TESTS += tests/cli/examples.sh
check_PROGRAMS += tests/cli/debugged
tests_cli_debugged_SOURCES = tests/cli/debugged.c
tests_cli_debugged_LDADD = -ldl
TESTS += tests/cli/line.sh tests/cli/jobs.py tests/cli/mount.sh tests/cli/mounted.sh tests/cli/proxy.sh tests/cli/tools.sh
tests_unit_test_bind_SOURCES = tests/unit/test_bind.c
tests_unit_test_bind_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_bind_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_shim_bind_SOURCES = tests/unit/test_shim_bind.c shim/calls/bind.c shim/calls/lock.c
tests_unit_test_shim_bind_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_shim_bind_LDFLAGS = -Wl,--wrap=mmap
tests_unit_test_shim_bind_LDADD = libfycommon.la $(CHECK_LIBS)

# A user's own library and annotations.
dist_check_SCRIPTS += tests/user/run tests/user/command
EXTRA_DIST += tests/user/userlib.h tests/user/userlib.c tests/user/use.c
EXTRA_DIST += tests/user/throwlib.cc tests/user/throw.cc
EXTRA_DIST += tests/user/throwlib.ferry
EXTRA_DIST += tests/user/userlib.ferry tests/user/offloaded.py
EXTRA_DIST += tests/user/tree.c tests/user/tree.ferry
TESTS += tests/user/run tests/user/command

tests_unit_test_lapack_SOURCES = tests/unit/test_lapack.c tests/unit/calls.c tests/unit/calls.h tests/unit/vendor.c tests/unit/vendor.h
tests_unit_test_lapack_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_lapack_LDADD = $(PLAN_TEST_LIBS)

tests_unit_test_fft_plan_SOURCES = tests/unit/test_fft_plan.c tests/unit/calls.c tests/unit/calls.h
tests_unit_test_fft_plan_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_fft_plan_LDADD = $(PLAN_TEST_LIBS)

tests_unit_test_choice_SOURCES = tests/unit/test_choice.c tests/unit/calls.c tests/unit/calls.h
tests_unit_test_choice_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_choice_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_cost_SOURCES = tests/unit/test_cost.c tests/unit/calls.c tests/unit/calls.h
tests_unit_test_cost_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cost_LDADD = $(PLAN_TEST_LIBS)

tests_unit_test_plan_SOURCES = tests/unit/test_plan.c
tests_unit_test_plan_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_plan_SOURCES += $(BADDEVICE) $(NOMEM)
tests_unit_test_plan_LDFLAGS = $(BADDEVICE_LDFLAGS) $(NOMEM_WRAP)
tests_unit_test_plan_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_plan_axes_SOURCES = tests/unit/test_plan_axes.c
tests_unit_test_plan_axes_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_plan_axes_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_nest_SOURCES = tests/unit/test_nest.c
tests_unit_test_nest_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_nest_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_plan_method_SOURCES = tests/unit/test_plan_method.c
tests_unit_test_plan_method_SOURCES += tests/unit/calls.c tests/unit/calls.h
tests_unit_test_plan_method_SOURCES += $(NOMEM)
tests_unit_test_plan_method_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_plan_method_LDFLAGS = $(NOMEM_WRAP)
tests_unit_test_plan_method_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_plan_build_SOURCES = tests/unit/test_plan_build.c $(NOMEM)
tests_unit_test_plan_build_LDFLAGS = $(NOMEM_WRAP)
tests_unit_test_plan_build_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_plan_build_LDADD = $(PLAN_TEST_LIBS)

# engine.c is in no convenience library: it is the module itself.
ENGINE_RIG = tests/unit/engine_rig.c tests/unit/engine_rig.h pager/engine/engine.c pager/engine/fork.c
ENGINE_RIG += tests/unit/calls.c tests/unit/calls.h

tests_unit_test_brief_SOURCES = tests/unit/test_brief.c
tests_unit_test_brief_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_brief_LDADD = libfypager.la $(CHECK_LIBS)
tests_unit_test_pool_SOURCES = tests/unit/test_pool.c
tests_unit_test_pool_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_pool_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_engine_SOURCES = tests/unit/test_engine.c $(ENGINE_RIG)
tests_unit_test_engine_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_engine_SOURCES += $(BADDEVICE)
tests_unit_test_engine_LDFLAGS = $(BADDEVICE_LDFLAGS)
tests_unit_test_engine_LDADD = $(PLAN_TEST_LIBS)

tests_unit_test_executor_undo_SOURCES = tests/unit/test_executor_undo.c
tests_unit_test_executor_undo_SOURCES += tests/unit/product.c tests/unit/product.h
tests_unit_test_executor_undo_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_executor_undo_SOURCES += $(BADDEVICE) $(NOMEM)
tests_unit_test_executor_undo_LDFLAGS = $(BADDEVICE_LDFLAGS) $(NOMEM_WRAP)
tests_unit_test_executor_undo_LDADD = libfypager.la $(CHECK_LIBS)
tests_unit_test_traffic_SOURCES = tests/unit/test_traffic.c tests/unit/calls.c tests/unit/calls.h
tests_unit_test_traffic_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_traffic_LDADD = $(PLAN_TEST_LIBS)

# The CUDA device on the fake CUDA.
tests_unit_test_cuda_device_SOURCES = tests/unit/test_cuda_device.c
tests_unit_test_cuda_device_SOURCES += tests/unit/cuda_rig.c tests/unit/cuda_rig.h
tests_unit_test_cuda_device_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_device_LDADD = libfypager.la $(CHECK_LIBS)

tests_unit_test_cuda_pieces_SOURCES = tests/unit/test_cuda_pieces.c
tests_unit_test_cuda_pieces_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_pieces_LDADD = libfypager.la $(CHECK_LIBS)
CUDA_RUN = tests/unit/cuda_rig.c tests/unit/cuda_rig.h
CUDA_RUN += tests/unit/cuda_run.c tests/unit/cuda_run.h
tests_unit_test_cuda_process_SOURCES = tests/unit/test_cuda_process.c $(CUDA_RUN)
tests_unit_test_cuda_process_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_process_LDADD = libfypager.la $(CHECK_LIBS) -ldl
tests_unit_test_cuda_process_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_test_cuda_process_DEPENDENCIES = libfypager.la tests/unit/constructor.la
check_LTLIBRARIES += tests/unit/constructor.la
tests_unit_constructor_la_SOURCES = tests/unit/constructor.c
tests_unit_constructor_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
tests_unit_test_cuda_engine_SOURCES = tests/unit/test_cuda_engine.c $(CUDA_RUN) $(ENGINE_RIG)
tests_unit_test_cuda_engine_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_engine_LDFLAGS = -Wl,--wrap=fy_clock_ns
tests_unit_test_cuda_engine_LDADD = $(PLAN_TEST_LIBS) -ldl
tests_unit_test_device_call_SOURCES = tests/unit/test_device_call.c
tests_unit_test_device_call_SOURCES += tests/unit/calls.c tests/unit/calls.h
tests_unit_test_device_call_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_device_call_LDADD = $(PLAN_TEST_LIBS)
tests_unit_test_cuda_share_SOURCES = tests/unit/test_cuda_share.c $(CUDA_RUN)
tests_unit_test_cuda_share_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_share_LDADD = libfypager.la $(CHECK_LIBS) -ldl
tests_unit_test_cuda_start_SOURCES = tests/unit/test_cuda_start.c tests/unit/folder.c tests/unit/folder.h
tests_unit_test_cuda_start_SOURCES += tests/unit/cuda_rig.c tests/unit/cuda_rig.h
tests_unit_test_cuda_start_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_start_LDADD = libfypager.la $(CHECK_LIBS) -ldl
tests_unit_test_cuda_start_DEPENDENCIES = libfypager.la tests/unit/constructor.la
tests_unit_test_cuda_trouble_SOURCES = tests/unit/test_cuda_trouble.c $(CUDA_RUN)
tests_unit_test_cuda_trouble_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_trouble_LDADD = libfypager.la $(CHECK_LIBS) -ldl
tests_unit_test_kernel_SOURCES = tests/unit/test_kernel.c
tests_unit_test_kernel_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_kernel_LDADD = libfypager.la libfyannotations.la $(CHECK_LIBS)
tests_unit_test_cuda_driver_SOURCES = tests/unit/test_cuda_driver.c
tests_unit_test_cuda_driver_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_driver_LDADD = $(CHECK_LIBS)
tests_unit_test_cuda_places_SOURCES = tests/unit/test_cuda_places.c tests/unit/folder.c tests/unit/folder.h
tests_unit_test_cuda_places_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_cuda_places_LDADD = libfypager.la $(CHECK_LIBS) -ldl
tests_unit_test_cuda_places_DEPENDENCIES = libfypager.la tests/unit/constructor.la
