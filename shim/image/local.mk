# SPDX-License-Identifier: Apache-2.0
libferry_la_SOURCES += \
	shim/image/head.c \
	shim/image/head.h \
	shim/image/image.h
libfyshimgen_la_SOURCES += \
	shim/image/base.c \
	shim/image/build.c \
	shim/image/build.h \
	shim/image/head.c \
	shim/image/head.h \
	shim/image/names.c \
	shim/image/names.h \
	shim/image/reach.c \
	shim/image/reach.h \
	shim/image/unwind.c
EXTRA_DIST += shim/image/README.md
