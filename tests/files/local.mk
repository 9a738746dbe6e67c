# SPDX-License-Identifier: Apache-2.0
# Judges of `ferry mount'; README.md says which there are.
if !SANITIZED
TESTS += tests/files/ahead.py tests/files/differ.py tests/files/model.py tests/files/named.py
TESTS += tests/files/status.py
endif
check_PROGRAMS += tests/files/differ
tests_files_differ_SOURCES = tests/files/differ.c tests/files/differ.h
tests_files_differ_SOURCES += tests/files/compare.c tests/files/objects.c
tests_files_differ_SOURCES += tests/files/paths.c tests/files/rows.c
tests_files_differ_SOURCES += tests/files/scripts_io.c tests/files/scripts_lock.c
tests_files_differ_SOURCES += tests/files/scripts_map.c tests/files/scripts_mode.c
tests_files_differ_SOURCES += tests/files/scripts_name.c tests/files/scripts_users.c
check_PROGRAMS += tests/files/fsx
tests_files_fsx_SOURCES = tests/files/fsx.c
# Preloaded by room.py: built without sanitizers.
check_LTLIBRARIES += tests/files/odd.la
tests_files_odd_la_SOURCES = tests/files/odd.c
tests_files_odd_la_CFLAGS = -std=gnu11 -g -D_GNU_SOURCE $(FY_WARNINGS)
tests_files_odd_la_LDFLAGS = -module -avoid-version -rpath /nowhere
# ferry, whose proxy lies to the mount.
check_PROGRAMS += tests/files/liar
tests_files_liar_SOURCES = tools/main.c tools/stack.c tests/files/liar.c
tests_files_liar_CFLAGS = $(AM_CFLAGS)
tests_files_liar_LDFLAGS = -Wl,--wrap=fy_files_encode,--wrap=fy_files_entry_put
tests_files_liar_LDADD = $(FYTOOLS)

dist_check_SCRIPTS += tests/files/ahead.py tests/files/differ.py tests/files/model.py tests/files/named.py
dist_check_SCRIPTS += tests/files/status.py

dist_check_SCRIPTS += tests/files/early.py tests/files/held.py tests/files/late.py tests/files/liar.py tests/files/outside.py tests/files/room.py
dist_check_SCRIPTS += tests/files/run
EXTRA_DIST += tests/files/README.md tests/files/differences
EXTRA_DIST += tests/files/mounts.py tests/files/tap.py tests/files/worker.py
