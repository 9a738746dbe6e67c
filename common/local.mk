# SPDX-License-Identifier: Apache-2.0
# The leaf library: linked into the preload, the engine and the tools.
noinst_LTLIBRARIES += libfycommon.la
libfycommon_la_SOURCES = \
	common/arch/x86_64/sha256.c \
	common/buffer.c common/buffer.h \
	common/clock.c common/clock.h \
	common/environment.c common/environment.h \
	common/debug.c common/debug.h common/debug_words.c \
	common/hash.h \
	common/kernel.c common/kernel.h \
	common/lines.c common/lines.h \
	common/number.c \
	common/path.c common/path.h \
	common/plain.c common/plain.h \
	common/procmap.h \
	common/record.h \
	common/room.c common/room.h \
	common/sha256.c common/sha256.h \
	common/signals.h \
	common/settings.c common/settings.h \
	common/settings_hosts.c \
	common/snapshot.h \
	common/status.c common/status.h \
	common/trust.c common/trust.h \
	common/whole.c common/whole.h
libfycommon_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
EXTRA_DIST += common/README.md
