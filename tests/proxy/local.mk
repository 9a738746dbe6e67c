# SPDX-License-Identifier: Apache-2.0
# Places, mounts, confinement: proxy/{place,transport,mounts,confine,tools}*.c.
UNIT_TESTS += tests/unit/test_place
UNIT_TESTS += tests/unit/test_mounts
UNIT_TESTS += tests/unit/test_absent
UNIT_TESTS += tests/unit/test_mappings
UNIT_TESTS += tests/unit/test_sandbox_check
UNIT_TESTS += tests/unit/test_sandbox_faults
UNIT_TESTS += tests/unit/test_tools

PLACE_TEST_LIBS = libfyproxy.la libfycommon.la $(CHECK_LIBS)

tests_unit_test_place_SOURCES = tests/unit/test_place.c
tests_unit_test_place_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_place_LDADD = $(PLACE_TEST_LIBS)

tests_unit_test_mounts_SOURCES = tests/unit/test_mounts.c
tests_unit_test_mounts_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_mounts_LDADD = $(PLACE_TEST_LIBS)

tests_unit_test_absent_SOURCES = tests/unit/test_absent.c
tests_unit_test_absent_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_absent_LDADD = $(PLACE_TEST_LIBS)
tests_unit_test_mappings_SOURCES = tests/unit/test_mappings.c $(NOCALL) $(NOMEM)
tests_unit_test_mappings_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_mappings_LDADD = $(PLACE_TEST_LIBS)
tests_unit_test_mappings_LDFLAGS = $(NOCALL_WRAP) $(NOMEM_WRAP)
tests_unit_test_sandbox_check_SOURCES = tests/unit/test_sandbox_check.c
tests_unit_test_sandbox_check_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_sandbox_check_LDADD = $(PLACE_TEST_LIBS)
tests_unit_test_sandbox_faults_SOURCES = tests/unit/test_sandbox_faults.c $(NOCALL) $(NOMEM)
tests_unit_test_sandbox_faults_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_sandbox_faults_LDADD = $(PLACE_TEST_LIBS)
tests_unit_test_sandbox_faults_LDFLAGS = $(NOCALL_WRAP) $(NOMEM_WRAP)

tests_unit_test_tools_SOURCES = tests/unit/test_tools.c
tests_unit_test_tools_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_tools_LDADD = $(PLACE_TEST_LIBS)

# sshfs on an sshd of its own.
check_PROGRAMS += tests/proxy/mounted
tests_proxy_mounted_SOURCES = tests/proxy/mounted.c
tests_proxy_mounted_LDADD = libfyproxy.la libfyannotations.la libfymodel.la libfycommon.la
dist_check_SCRIPTS += tests/proxy/sshfs.sh
TESTS += tests/proxy/sshfs.sh
