# SPDX-License-Identifier: Apache-2.0
# The client side of `ferry mount': in the program ferry-mount only, which links libfuse3.
files_client_sources = \
	proxy/files/client/ahead.c \
	proxy/files/client/attributes.c \
	proxy/files/client/callers.c \
	proxy/files/client/calls.c \
	proxy/files/client/changes.c \
	proxy/files/client/client.h \
	proxy/files/client/contents.c \
	proxy/files/client/contents.h \
	proxy/files/client/control.c \
	proxy/files/client/control.h \
	proxy/files/client/controls.h \
	proxy/files/client/early.c \
	proxy/files/client/early.h \
	proxy/files/client/file.c \
	proxy/files/client/file.h \
	proxy/files/client/folders.c \
	proxy/files/client/foreseen.c \
	proxy/files/client/holds.c \
	proxy/files/client/holds.h \
	proxy/files/client/list.c \
	proxy/files/client/list.h \
	proxy/files/client/locks.c \
	proxy/files/client/locks.h \
	proxy/files/client/mount.c \
	proxy/files/client/mount.h \
	proxy/files/client/names.c \
	proxy/files/client/notifier.c \
	proxy/files/client/notifier.h \
	proxy/files/client/operations.h \
	proxy/files/client/reader.c \
	proxy/files/client/shadow.c \
	proxy/files/client/shadow.h \
	proxy/files/client/stream.c \
	proxy/files/client/stream.h \
	proxy/files/client/told.c \
	proxy/files/client/told.h \
	proxy/files/client/tree.c \
	proxy/files/client/tree.h \
	proxy/files/client/walks.c \
	proxy/files/client/walks.h
if HAVE_FUSE
noinst_LTLIBRARIES += libfyfiles.la
libfyfiles_la_SOURCES = $(files_client_sources)
libfyfiles_la_CFLAGS = $(AM_CFLAGS) $(FUSE_CFLAGS)
pkglibexec_PROGRAMS += ferry-mount
ferry_mount_SOURCES = tools/ferry_mount.c
ferry_mount_LDADD = libfyfiles.la libfyproxy.la libfycommon.la $(FUSE_LIBS)
else
EXTRA_DIST += $(files_client_sources) tools/ferry_mount.c
endif
EXTRA_DIST += proxy/files/client/README.md
