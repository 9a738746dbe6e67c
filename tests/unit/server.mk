# SPDX-License-Identifier: Apache-2.0
# The storage host's side: a proxy and the stages it starts.
UNIT_TESTS += tests/unit/test_files_message
UNIT_TESTS += tests/unit/test_files_order
UNIT_TESTS += tests/unit/test_files_server
UNIT_TESTS += tests/unit/test_files_watch
UNIT_TESTS += tests/unit/test_files_wire
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

tests_unit_test_files_server_SOURCES = tests/unit/test_files_server.c \
	tests/unit/files_client.c tests/unit/files_client.h
tests_unit_test_files_server_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_files_server_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
tests_unit_test_files_message_SOURCES = tests/unit/test_files_message.c
tests_unit_test_files_message_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_files_message_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
tests_unit_test_files_order_SOURCES = tests/unit/test_files_order.c \
	tests/unit/files_client.c tests/unit/files_client.h
tests_unit_test_files_order_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_files_order_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
tests_unit_test_files_watch_SOURCES = tests/unit/test_files_watch.c \
	tests/unit/files_client.c tests/unit/files_client.h
tests_unit_test_files_watch_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_files_watch_LDADD = libfyproxy.la libfycommon.la $(CHECK_LIBS)
tests_unit_test_files_wire_SOURCES = tests/unit/test_files_wire.c
tests_unit_test_files_wire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_files_wire_LDADD = $(PROXY_TEST_LIBS)
