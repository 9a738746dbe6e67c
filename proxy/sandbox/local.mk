# SPDX-License-Identifier: Apache-2.0
libfyproxy_la_SOURCES += \
	proxy/sandbox/absent.c \
	proxy/sandbox/exports.c \
	proxy/sandbox/enter.c \
	proxy/sandbox/carried.c \
	proxy/sandbox/check.c \
	proxy/sandbox/check.h \
	proxy/sandbox/sandbox.h \
	proxy/sandbox/policy.h \
	proxy/sandbox/filter.c \
	proxy/sandbox/names.c \
	proxy/sandbox/own.c \
	proxy/sandbox/roots.c \
	proxy/sandbox/namespace.c \
	proxy/sandbox/refuse.c \
	proxy/sandbox/walk.c \
	proxy/sandbox/walk.h
EXTRA_DIST += proxy/sandbox/README.md
