# SPDX-License-Identifier: Apache-2.0
# The process next to the files.
libfyproxy_la_SOURCES += \
	proxy/files/server/answer.c \
	proxy/files/server/attributes.c \
	proxy/files/server/calls.c \
	proxy/files/server/data.c \
	proxy/files/server/fetch.c \
	proxy/files/server/linger.c \
	proxy/files/server/list.c \
	proxy/files/server/locks.c \
	proxy/files/server/names.c \
	proxy/files/server/object.c \
	proxy/files/server/own.c \
	proxy/files/server/path.c \
	proxy/files/server/queue.c \
	proxy/files/server/serve.c \
	proxy/files/server/serve.h \
	proxy/files/server/server.h \
	proxy/files/server/user.c \
	proxy/files/server/watch.c
EXTRA_DIST += proxy/files/server/README.md
