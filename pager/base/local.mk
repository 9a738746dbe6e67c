# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/base/brief.h \
	pager/base/explain.c \
	pager/base/explain.h \
	pager/base/lasting.c \
	pager/base/lasting.h \
	pager/base/libm.h \
	pager/base/pick.h
EXTRA_DIST += pager/base/README.md
