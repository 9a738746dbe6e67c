# SPDX-License-Identifier: Apache-2.0
# Attacks on what pipelines rest on: a client that lies, a stage that runs any
# code, a proxy that lies.
UNIT_TESTS += tests/security/test_escape
UNIT_TESTS += tests/security/test_git
UNIT_TESTS += tests/security/test_runs
UNIT_TESTS += tests/security/test_refresh

tests_security_test_escape_SOURCES = tests/security/test_escape.c
tests_security_test_escape_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_security_test_escape_LDADD = libfyproxy.la libfyannotations.la \
	libfymodel.la libfycommon.la $(CHECK_LIBS)

tests_security_test_git_SOURCES = tests/security/test_git.c
tests_security_test_git_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_security_test_git_LDADD = libfyproxy.la libfyannotations.la \
	libfymodel.la libfycommon.la $(CHECK_LIBS)

tests_security_test_refresh_SOURCES = tests/security/test_refresh.c
tests_security_test_refresh_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_security_test_refresh_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)

tests_security_test_runs_SOURCES = tests/security/test_runs.c
tests_security_test_runs_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_security_test_runs_LDADD = libfyproxy.la libfyannotations.la \
	libfymodel.la libfycommon.la $(CHECK_LIBS)

dist_check_SCRIPTS += tests/security/settings.sh
TESTS += tests/security/settings.sh
dist_check_SCRIPTS += tests/security/repositories.py
TESTS += tests/security/repositories.py

# Loaded into a proxy: built without sanitizers.
check_LTLIBRARIES += tests/security/liar.la
tests_security_liar_la_SOURCES = tests/security/liar.c
tests_security_liar_la_CFLAGS = -std=gnu11 -g $(FY_WARNINGS) $(NGHTTP2_CFLAGS)
tests_security_liar_la_LDFLAGS = -module -avoid-version -rpath /nowhere
dist_check_SCRIPTS += tests/security/liar.py
TESTS += tests/security/liar.py
