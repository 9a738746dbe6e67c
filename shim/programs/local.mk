# SPDX-License-Identifier: Apache-2.0
libferry_la_SOURCES += \
	shim/programs/exec.c \
	shim/programs/exec.h \
	shim/programs/foretell.c \
	shim/programs/plan.c \
	shim/programs/popen.c \
	shim/programs/snapshot.c \
	shim/programs/spawn.c \
	shim/programs/system.c \
	shim/programs/touch.c
EXTRA_DIST += shim/programs/README.md
