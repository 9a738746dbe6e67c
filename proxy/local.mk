# SPDX-License-Identifier: Apache-2.0
# Work near the storage: the session, the wire, the server side. Tool side
# only; nothing of it enters a host program.
noinst_LTLIBRARIES += libfyproxy.la
libfyproxy_la_SOURCES =
libfyproxy_la_CFLAGS = $(AM_CFLAGS) $(PROXY_CFLAGS)
libfyproxy_la_LIBADD = $(PROXY_LIBS)
EXTRA_DIST += proxy/PROTOCOL.md

include proxy/client/local.mk
include proxy/files/local.mk
include proxy/sandbox/local.mk
include proxy/server/local.mk
include proxy/storage/local.mk
include proxy/wire/local.mk
