# SPDX-License-Identifier: Apache-2.0
# The shipped command annotations against the tools that are installed.
check_PROGRAMS += tests/commands/parse
tests_commands_parse_SOURCES = tests/commands/parse.c
tests_commands_parse_LDADD = libfyannotations.la

check_PROGRAMS += tests/commands/split
tests_commands_split_SOURCES = tests/commands/split.c
tests_commands_split_LDADD = libfyproxy.la libfyannotations.la libfymodel.la \
	libfycommon.la

# Loaded into the tools: built without sanitizers.
check_LTLIBRARIES += tests/commands/tables.la
tests_commands_tables_la_SOURCES = tests/commands/tables.c
tests_commands_tables_la_CFLAGS = -std=gnu11 -g $(FY_WARNINGS)
tests_commands_tables_la_LDFLAGS = -module -avoid-version -rpath /nowhere

check_LTLIBRARIES += tests/commands/asked.la
tests_commands_asked_la_SOURCES = tests/commands/asked.c
tests_commands_asked_la_CFLAGS = -std=gnu11 -g $(FY_WARNINGS)
tests_commands_asked_la_LDFLAGS = -module -avoid-version -rpath /nowhere

EXTRA_DIST += tests/commands/annotated.py tests/commands/strace.py
EXTRA_DIST += tests/commands/meanings.test
dist_check_SCRIPTS += tests/commands/options.py
dist_check_SCRIPTS += tests/commands/meanings.py
dist_check_SCRIPTS += tests/commands/parts.py
dist_check_SCRIPTS += tests/commands/touched.py
dist_check_SCRIPTS += tests/commands/environment.py
TESTS += tests/commands/meanings.py
if !SANITIZED
TESTS += tests/commands/options.py tests/commands/touched.py
endif
TESTS += tests/commands/environment.py
