# SPDX-License-Identifier: Apache-2.0
libferry_la_SOURCES += \
	shim/start/asan.c \
	shim/start/count.c \
	shim/start/engine.c \
	shim/start/handler.c \
	shim/start/libc.c \
	shim/start/quiet.c \
	shim/start/settings.c
EXTRA_DIST += shim/start/README.md
