# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/bind/bind.c \
	pager/bind/bind.h \
	pager/bind/handles.c \
	pager/bind/handles.h \
	pager/bind/memory.c \
	pager/bind/provider.c \
	pager/bind/provider.h \
	pager/bind/raw.c \
	pager/bind/views.c
EXTRA_DIST += pager/bind/README.md
