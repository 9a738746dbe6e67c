# SPDX-License-Identifier: Apache-2.0
# Fuzzers of what proxies and sessions read from each other.
check_PROGRAMS += tests/fuzz/fuzz_spec tests/fuzz/fuzz_wire
TESTS += tests/fuzz/fuzz_spec tests/fuzz/fuzz_wire
tests_fuzz_fuzz_spec_SOURCES = tests/fuzz/fuzz_spec.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_spec_LDADD = libfyproxy.la libfycommon.la
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_wire_LDADD = libfyproxy.la libfycommon.la
