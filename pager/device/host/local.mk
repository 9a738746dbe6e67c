# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/device/host/host.c \
	pager/device/host/internal.h \
	pager/device/host/stream.c
EXTRA_DIST += pager/device/host/README.md
