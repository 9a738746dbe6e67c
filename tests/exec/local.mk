# SPDX-License-Identifier: Apache-2.0
# The exec half of libferry.so: real launchers with and without it.
check_PROGRAMS += tests/exec/make_snapshot
tests_exec_make_snapshot_SOURCES = tests/exec/make_snapshot.c

dist_check_SCRIPTS += tests/exec/calls.sh tests/exec/launchers.sh
TESTS += tests/exec/launchers.sh
EXTRA_DIST += tests/exec/calls.c tests/exec/common.sh tests/exec/fake_stub.c
EXTRA_DIST += tests/exec/waits.c tests/exec/shared.c
