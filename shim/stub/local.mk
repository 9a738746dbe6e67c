# SPDX-License-Identifier: Apache-2.0
ferry_stub_SOURCES += \
	shim/stub/again.c \
	shim/stub/held.c \
	shim/stub/hello.c \
	shim/stub/late.c \
	shim/stub/local.h \
	shim/stub/serve.c \
	shim/stub/signal.c \
	shim/stub/spool.c \
	shim/stub/stub.c
EXTRA_DIST += shim/stub/README.md
