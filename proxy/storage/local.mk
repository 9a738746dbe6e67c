# SPDX-License-Identifier: Apache-2.0
libfyproxy_la_SOURCES += \
	proxy/storage/closure.c \
	proxy/storage/closure.h \
	proxy/storage/configs.c \
	proxy/storage/control.c \
	proxy/storage/control.h \
	proxy/storage/ferry.c \
	proxy/storage/fresh.c \
	proxy/storage/fresh.h \
	proxy/storage/index.c \
	proxy/storage/index.h \
	proxy/storage/loaders.c \
	proxy/storage/logins.c \
	proxy/storage/logins.h \
	proxy/storage/mount_options.c \
	proxy/storage/mount_process.c \
	proxy/storage/mounts.c \
	proxy/storage/mounts.h \
	proxy/storage/needs.c \
	proxy/storage/needs.h \
	proxy/storage/sshfs.c \
	proxy/storage/store.c \
	proxy/storage/store.h \
	proxy/storage/tools.c \
	proxy/storage/tools.h \
	proxy/storage/work.c \
	proxy/storage/work.h
EXTRA_DIST += proxy/storage/README.md
