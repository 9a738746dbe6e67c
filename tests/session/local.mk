# SPDX-License-Identifier: Apache-2.0
# The stub and the session: what stands in for a command, and what decides.
UNIT_TESTS += tests/unit/test_classify
UNIT_TESTS += tests/unit/test_holders
UNIT_TESTS += tests/unit/test_common
UNIT_TESTS += tests/unit/test_sha256
UNIT_TESTS += tests/unit/test_old_kernel

tests_unit_test_classify_SOURCES = tests/unit/test_classify.c
tests_unit_test_classify_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_classify_LDFLAGS = -Wl,--wrap=fy_mounts_below
tests_unit_test_classify_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_holders_SOURCES = tests/unit/test_holders.c $(NOCALL)
tests_unit_test_holders_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_holders_LDADD = $(PROXY_TEST_LIBS)
tests_unit_test_holders_LDFLAGS = $(NOCALL_WRAP)

tests_unit_test_common_SOURCES = tests/unit/test_common.c
tests_unit_test_common_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_common_LDADD = libfycommon.la $(CHECK_LIBS)
tests_unit_test_sha256_SOURCES = tests/unit/test_sha256.c
tests_unit_test_sha256_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_sha256_LDADD = libfycommon.la $(CHECK_LIBS)
tests_unit_test_old_kernel_SOURCES = tests/unit/test_old_kernel.c
tests_unit_test_old_kernel_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_old_kernel_LDADD = libfycommon.la $(CHECK_LIBS)

dist_check_SCRIPTS += tests/session/stub.py
TESTS += tests/session/stub.py

# Not a check program: who runs the tests by hand gets it from `make' too.
check_PROGRAMS += tests/session/drive
tests_session_drive_SOURCES = tests/session/drive.c
tests_session_drive_CFLAGS = $(AM_CFLAGS)
tests_session_drive_LDADD = libfyproxy.la libfyannotations.la libfymodel.la \
	libfycommon.la

# A transport that cuts, stalls, spoils or slows; who runs tests by hand gets it too.
check_PROGRAMS += tests/badlink/badlink
tests_badlink_badlink_SOURCES = tests/badlink/main.c tests/badlink/fault.c \
	tests/badlink/fault.h tests/badlink/fault_plan.h tests/badlink/fault_text.c
tests_badlink_badlink_CFLAGS = $(AM_CFLAGS)
tests_badlink_badlink_LDADD = libfyproxy.la libfycommon.la

dist_check_SCRIPTS += tests/session/pipes.py
EXTRA_DIST += tests/session/commands.ferry tests/session/common.sh
TESTS += tests/session/pipes.py

dist_check_SCRIPTS += tests/session/input.py

dist_check_SCRIPTS += tests/session/campaign

dist_check_SCRIPTS += tests/session/feeder.py
TESTS += tests/session/feeder.py

dist_check_SCRIPTS += tests/session/faults.sh

dist_check_SCRIPTS += tests/session/parts.sh
TESTS += tests/session/parts.sh

dist_check_SCRIPTS += tests/session/lost_input.py
TESTS += tests/session/lost_input.py

dist_check_SCRIPTS += tests/session/crossed.py
TESTS += tests/session/crossed.py
dist_check_SCRIPTS += tests/session/libraries.py
TESTS += tests/session/libraries.py

dist_check_SCRIPTS += tests/session/hung.py
TESTS += tests/session/hung.py
dist_check_SCRIPTS += tests/session/signals.py
dist_check_SCRIPTS += tests/session/attributes.py tests/session/unanswered.py
TESTS += tests/session/attributes.py tests/session/unanswered.py
TESTS += tests/session/signals.py

dist_check_SCRIPTS += tests/session/environment.py
TESTS += tests/session/environment.py

dist_check_SCRIPTS += tests/session/order.py
TESTS += tests/session/order.py

dist_check_SCRIPTS += tests/session/temporaries.sh
TESTS += tests/session/temporaries.sh

dist_check_SCRIPTS += tests/session/rights.py
EXTRA_DIST += tests/session/confine.c
TESTS += tests/session/rights.py

dist_check_SCRIPTS += tests/session/trips.py
TESTS += tests/session/trips.py

EXTRA_DIST += tests/session/rebuilt.py tests/session/wrong.c
dist_check_SCRIPTS += tests/session/folders.sh
TESTS += tests/session/folders.sh

dist_check_SCRIPTS += tests/session/kernels.sh
TESTS += tests/session/kernels.sh

dist_check_SCRIPTS += tests/session/carried.sh
TESTS += tests/session/carried.sh
