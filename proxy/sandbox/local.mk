# SPDX-License-Identifier: Apache-2.0
libfyproxy_la_SOURCES += \
	proxy/sandbox/absent.c \
	proxy/sandbox/asked.c \
	proxy/sandbox/cage.c \
	proxy/sandbox/confine.c \
	proxy/sandbox/confine.h \
	proxy/sandbox/confines.h \
	proxy/sandbox/filter.c \
	proxy/sandbox/group.c \
	proxy/sandbox/group.h \
	proxy/sandbox/names.c \
	proxy/sandbox/roots.c \
	proxy/sandbox/space.c \
	proxy/sandbox/strict.c \
	proxy/sandbox/walk.c \
	proxy/sandbox/walk.h
EXTRA_DIST += proxy/sandbox/README.md
