# SPDX-License-Identifier: Apache-2.0
# Unit tests of proxy/.
PROXY_TEST_LIBS = libfyproxy.la libfyannotations.la libfymodel.la libfycommon.la \
	$(CHECK_LIBS)
UNIT_TESTS += tests/unit/test_placement
UNIT_TESTS += tests/unit/test_placement_stage
UNIT_TESTS += tests/unit/test_compress
UNIT_TESTS += tests/unit/test_control
UNIT_TESTS += tests/unit/test_fault
UNIT_TESTS += tests/unit/test_files_record
UNIT_TESTS += tests/unit/test_flow
UNIT_TESTS += tests/unit/test_link
UNIT_TESTS += tests/unit/test_fresh
UNIT_TESTS += tests/unit/test_peer tests/unit/test_prepare
UNIT_TESTS += tests/unit/test_stage_end
UNIT_TESTS += tests/unit/test_protocol
UNIT_TESTS += tests/unit/test_spec
UNIT_TESTS += tests/unit/test_spec_decode
UNIT_TESTS += tests/unit/test_wire
UNIT_TESTS += tests/unit/test_wire_receive
UNIT_TESTS += tests/unit/test_split
UNIT_TESTS += tests/unit/test_store
UNIT_TESTS += tests/unit/test_order
UNIT_TESTS += tests/unit/test_work

tests_unit_test_placement_SOURCES = tests/unit/test_placement.c
tests_unit_test_placement_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_placement_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_placement_stage_SOURCES = tests/unit/test_placement_stage.c
tests_unit_test_placement_stage_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_placement_stage_LDADD = $(PROXY_TEST_LIBS)


# Its doubles stand before the library's own.
tests_unit_test_link_SOURCES = tests/unit/test_link.c
tests_unit_test_link_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_link_LDADD = $(PROXY_TEST_LIBS)
tests_unit_test_flow_SOURCES = tests/unit/test_flow.c
tests_unit_test_flow_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_flow_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_peer_SOURCES = tests/unit/test_peer.c
tests_unit_test_peer_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_peer_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_prepare_SOURCES = tests/unit/test_prepare.c $(NOMEM)
tests_unit_test_prepare_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_prepare_LDADD = $(PROXY_TEST_LIBS)
tests_unit_test_prepare_LDFLAGS = $(NOMEM_WRAP)

tests_unit_test_stage_end_SOURCES = tests/unit/test_stage_end.c
tests_unit_test_stage_end_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_stage_end_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_fresh_SOURCES = tests/unit/test_fresh.c $(NOMEM)
tests_unit_test_fresh_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_fresh_LDADD = $(PROXY_TEST_LIBS)
tests_unit_test_fresh_LDFLAGS = $(NOMEM_WRAP)

tests_unit_test_split_SOURCES = tests/unit/test_split.c
tests_unit_test_split_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_split_LDADD = $(PROXY_TEST_LIBS)


tests_unit_test_spec_SOURCES = tests/unit/test_spec.c
tests_unit_test_spec_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_spec_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_spec_decode_SOURCES = tests/unit/test_spec_decode.c $(NOMEM)
tests_unit_test_spec_decode_LDFLAGS = $(NOMEM_WRAP)
tests_unit_test_spec_decode_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_spec_decode_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_wire_SOURCES = tests/unit/test_wire.c
tests_unit_test_wire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_wire_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_wire_receive_SOURCES = tests/unit/test_wire_receive.c
tests_unit_test_wire_receive_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_wire_receive_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_compress_SOURCES = tests/unit/test_compress.c
tests_unit_test_compress_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_compress_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_fault_SOURCES = tests/unit/test_fault.c \
	tests/badlink/fault.c tests/badlink/fault.h tests/badlink/fault_plan.h \
	tests/badlink/fault_text.c
tests_unit_test_fault_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_fault_LDADD = $(PROXY_TEST_LIBS) -lpthread

tests_unit_test_protocol_SOURCES = tests/unit/test_protocol.c
tests_unit_test_protocol_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_protocol_LDADD = $(PROXY_TEST_LIBS)

# The session around it is the test's own.
tests_unit_test_order_SOURCES = tests/unit/test_order.c proxy/client/order.c proxy/wire/signals.c
tests_unit_test_order_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_order_LDADD = $(CHECK_LIBS)

tests_unit_test_work_SOURCES = tests/unit/test_work.c
tests_unit_test_work_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_work_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_files_record_SOURCES = tests/unit/test_files_record.c
tests_unit_test_files_record_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_files_record_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_control_SOURCES = tests/unit/test_control.c
tests_unit_test_control_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_control_LDADD = $(PROXY_TEST_LIBS)

tests_unit_test_store_SOURCES = tests/unit/test_store.c
tests_unit_test_store_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_store_LDADD = $(PROXY_TEST_LIBS)
