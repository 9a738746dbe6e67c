# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/decide/calibrate.c \
	pager/decide/choice.c \
	pager/decide/choice.h \
	pager/decide/cost.c \
	pager/decide/cost.h \
	pager/decide/decision.c \
	pager/decide/decision.h \
	pager/decide/learn.c \
	pager/decide/learn.h
EXTRA_DIST += pager/decide/README.md
