# SPDX-License-Identifier: Apache-2.0
# A target for each decoder of what another user, host or file says. Here gcc runs
# the seeds and, for a moment, changes of them; `make fuzz' has clang's libFuzzer
# search (tests/fuzz/run), where FUZZ_LIBS is -fsanitize=fuzzer.
FUZZ_LIBS =
FUZZ_DRIVER = tests/fuzz/driver.c tests/fuzz/target.h tests/fuzz/fuzz.h
FUZZ_TARGETS =
check_PROGRAMS += tests/fuzz/fuzz_spec tests/fuzz/fuzz_wire $(FUZZ_TARGETS)
TESTS += tests/fuzz/fuzz_spec tests/fuzz/fuzz_wire $(FUZZ_TARGETS)
tests_fuzz_fuzz_spec_SOURCES = tests/fuzz/fuzz_spec.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_spec_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c tests/fuzz/fuzz.h
tests_fuzz_fuzz_wire_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

dist_check_SCRIPTS += tests/fuzz/run
fuzz:
	FERRY_SRCDIR='$(abs_srcdir)' '$(srcdir)/tests/fuzz/run'
fuzz-targets: $(BUILT_SOURCES) annotations/functions/parse.tab.h tests/fuzz/fuzz_annotations \
	tests/fuzz/fuzz_commands tests/fuzz/fuzz_spec tests/fuzz/fuzz_wire $(FUZZ_TARGETS)
fuzz-list:
	@echo tests/fuzz/fuzz_annotations tests/fuzz/fuzz_commands \
		tests/fuzz/fuzz_spec tests/fuzz/fuzz_wire $(FUZZ_TARGETS)
.PHONY: fuzz fuzz-targets fuzz-list

FUZZ_TARGETS += tests/fuzz/fuzz_compress
tests_fuzz_fuzz_compress_SOURCES = tests/fuzz/fuzz_compress.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_compress_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_elf
tests_fuzz_fuzz_elf_SOURCES = tests/fuzz/fuzz_elf.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_elf_LDADD = libfyproxy.la libfyshimgen.la libfyannotations.la libfymodel.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_files
tests_fuzz_fuzz_files_SOURCES = tests/fuzz/fuzz_files.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_files_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_frames
tests_fuzz_fuzz_frames_SOURCES = tests/fuzz/fuzz_frames.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_frames_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_hello
tests_fuzz_fuzz_hello_SOURCES = tests/fuzz/fuzz_hello.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_hello_LDADD = libfyproxy.la libfyannotations.la libfymodel.la libfycommon.la $(FUZZ_LIBS)


FUZZ_TARGETS += tests/fuzz/fuzz_kernels
tests_fuzz_fuzz_kernels_SOURCES = tests/fuzz/fuzz_kernels.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_kernels_LDADD = libfypager.la $(FUZZ_LIBS)


FUZZ_TARGETS += tests/fuzz/fuzz_mounts
tests_fuzz_fuzz_mounts_SOURCES = tests/fuzz/fuzz_mounts.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_mounts_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_names
tests_fuzz_fuzz_names_SOURCES = tests/fuzz/fuzz_names.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_names_LDADD = libfyannotations.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_needs
tests_fuzz_fuzz_needs_SOURCES = tests/fuzz/fuzz_needs.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_needs_LDADD = libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_place
tests_fuzz_fuzz_place_SOURCES = tests/fuzz/fuzz_place.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_place_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_process
tests_fuzz_fuzz_process_SOURCES = tests/fuzz/fuzz_process.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_process_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_rates
tests_fuzz_fuzz_rates_SOURCES = tests/fuzz/fuzz_rates.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_rates_LDADD = libfypager.la -lm $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_report
tests_fuzz_fuzz_report_SOURCES = tests/fuzz/fuzz_report.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_report_LDADD = libfytools.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_rope
tests_fuzz_fuzz_rope_SOURCES = tests/fuzz/fuzz_rope.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_rope_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_settings
tests_fuzz_fuzz_settings_SOURCES = tests/fuzz/fuzz_settings.c tools/config.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_settings_LDADD = libfycommon.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_share
tests_fuzz_fuzz_share_SOURCES = tests/fuzz/fuzz_share.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_share_LDADD = libfypager.la $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_snapshot
tests_fuzz_fuzz_snapshot_SOURCES = tests/fuzz/fuzz_snapshot.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_snapshot_LDADD = $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_stub
tests_fuzz_fuzz_stub_SOURCES = tests/fuzz/fuzz_stub.c shim/stub/held.c shim/stub/late.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_stub_LDADD = $(FUZZ_LIBS)

FUZZ_TARGETS += tests/fuzz/fuzz_text
tests_fuzz_fuzz_text_SOURCES = tests/fuzz/fuzz_text.c $(FUZZ_DRIVER)
tests_fuzz_fuzz_text_LDADD = libfyproxy.la libfycommon.la $(FUZZ_LIBS)
