# SPDX-License-Identifier: Apache-2.0
# The annotation language: its units, its .test files, its fuzzer.
LANG_TEST_FILES = \
	tests/lang/axes.test \
	tests/lang/blocked.test \
	tests/lang/commands.test \
	tests/lang/device.test \
	tests/lang/expressions.test \
	tests/lang/families.test \
	tests/lang/form.test \
	tests/lang/handles.test \
	tests/lang/kernel.test \
	tests/lang/map.test \
	tests/lang/imports.test \
	tests/lang/model.test \
	tests/lang/names.test \
	tests/lang/operands.test \
	tests/lang/runs.test \
	tests/lang/syntax.test \
	tests/lang/types.test \
	tests/lang/variants.test
EXTRA_DIST += $(LANG_TEST_FILES)

dist_check_SCRIPTS += tests/lang/messages.py
TESTS += tests/lang/messages.py
check_PROGRAMS += tests/lang/run tests/fuzz/fuzz_annotations \
	tests/fuzz/fuzz_commands
TESTS += tests/lang/run tests/fuzz/fuzz_annotations tests/fuzz/fuzz_commands
tests_lang_run_SOURCES = tests/lang/run.c
tests_lang_run_LDADD = libfyannotations.la
tests_fuzz_fuzz_annotations_SOURCES = tests/fuzz/fuzz_annotations.c
tests_fuzz_fuzz_annotations_LDADD = libfyannotations.la $(FUZZ_LIBS)
tests_fuzz_fuzz_commands_SOURCES = tests/fuzz/fuzz_commands.c
tests_fuzz_fuzz_commands_LDADD = libfyannotations.la $(FUZZ_LIBS)

UNIT_TESTS += tests/unit/test_eval
UNIT_TESTS += tests/unit/test_model
UNIT_TESTS += tests/unit/test_compile
UNIT_TESTS += tests/unit/test_command
UNIT_TESTS += tests/unit/test_command_getopt

tests_unit_test_eval_SOURCES = tests/unit/test_eval.c
tests_unit_test_eval_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_eval_LDADD = libfyannotations.la $(CHECK_LIBS)

tests_unit_test_model_SOURCES = tests/unit/test_model.c
tests_unit_test_model_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_model_LDADD = libfyannotations.la $(CHECK_LIBS)

tests_unit_test_compile_SOURCES = tests/unit/test_compile.c
tests_unit_test_compile_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_compile_LDADD = libfyannotations.la $(CHECK_LIBS)

tests_unit_test_command_SOURCES = tests/unit/test_command.c
tests_unit_test_command_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_command_LDADD = libfyannotations.la $(CHECK_LIBS)

tests_unit_test_command_getopt_SOURCES = tests/unit/test_command_getopt.c
tests_unit_test_command_getopt_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_test_command_getopt_LDADD = libfyannotations.la $(CHECK_LIBS)
