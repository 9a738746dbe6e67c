# SPDX-License-Identifier: Apache-2.0
# The storage host's side: a proxy and the stages it starts.
UNIT_TESTS += tests/unit/test_requests
UNIT_TESTS += tests/unit/test_run
UNIT_TESTS += tests/unit/test_run_streams
UNIT_TESTS += tests/unit/test_server

SERVER_TEST_SOURCES = tests/unit/proxy_client.c tests/unit/proxy_client.h \
	tests/unit/proxy_doubles.c
tests_unit_test_server_SOURCES = tests/unit/test_server.c $(SERVER_TEST_SOURCES)
tests_unit_test_server_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_server_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
tests_unit_test_run_SOURCES = tests/unit/test_run.c $(SERVER_TEST_SOURCES)
tests_unit_test_run_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_run_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
tests_unit_test_run_streams_SOURCES = tests/unit/test_run_streams.c \
	$(SERVER_TEST_SOURCES)
tests_unit_test_run_streams_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_run_streams_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS) $(PROXY_LIBS)
tests_unit_test_requests_SOURCES = tests/unit/test_requests.c $(SERVER_TEST_SOURCES)
tests_unit_test_requests_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_requests_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
