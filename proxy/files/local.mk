# SPDX-License-Identifier: Apache-2.0
# `ferry mount': the messages, the process next to the files, the mount.
libfyproxy_la_SOURCES += \
	proxy/files/message.c \
	proxy/files/message.h \
	proxy/files/record.c \
	proxy/files/record.h
EXTRA_DIST += proxy/files/README.md

include proxy/files/client/local.mk
include proxy/files/server/local.mk
