# SPDX-License-Identifier: Apache-2.0
# Each system call and each allocation of ferry's fails once. Called by ./check.
check_PROGRAMS += tests/faults/inject
tests_faults_inject_SOURCES = tests/faults/inject.c tests/faults/frames.h
tests_faults_inject_CFLAGS = $(AM_CFLAGS)

# ferry, whose allocations can fail.
check_PROGRAMS += tests/faults/ferry
tests_faults_ferry_SOURCES = tools/main.c tools/stack.c tests/faults/nomem.c tests/faults/frames.h
tests_faults_ferry_CFLAGS = $(AM_CFLAGS)
tests_faults_ferry_LDADD = $(FYTOOLS)

dist_check_SCRIPTS += tests/faults/table.py
TESTS += tests/faults/table.py
EXTRA_DIST += tests/faults/calls.c
