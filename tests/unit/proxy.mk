# SPDX-License-Identifier: Apache-2.0
# Unit tests of proxy/.
if HAVE_CHECK
UNIT_TESTS += tests/unit/test_placement
endif
tests_unit_test_placement_SOURCES = tests/unit/test_placement.c
tests_unit_test_placement_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_placement_LDADD = libfyproxy.la libfyannotations.la $(CHECK_LIBS)
