# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/kernel/map_type.h \
	pager/kernel/map_value.c \
	pager/kernel/map_value.h \
	pager/kernel/source.c \
	pager/kernel/source.h
EXTRA_DIST += pager/kernel/README.md
