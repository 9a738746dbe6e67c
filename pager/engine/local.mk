# SPDX-License-Identifier: Apache-2.0
libferry_engine_la_SOURCES += \
	pager/engine/engine.c \
	pager/engine/engine.h \
	pager/engine/fork.c \
	pager/engine/fork.h \
	pager/engine/state.h
EXTRA_DIST += pager/engine/README.md
