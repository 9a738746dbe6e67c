# SPDX-License-Identifier: Apache-2.0
libfypager_la_SOURCES += \
	pager/verify/run_verify.c \
	pager/verify/run_verify.h \
	pager/verify/child.c \
	pager/verify/child.h \
	pager/verify/chunks.c \
	pager/verify/compare.c \
	pager/verify/compare.h \
	pager/verify/copies.c \
	pager/verify/copies.h \
	pager/verify/guard.c \
	pager/verify/guard.h \
	pager/verify/image.c \
	pager/verify/image.h \
	pager/verify/invoke.c \
	pager/verify/invoke.h \
	pager/verify/maps.c \
	pager/verify/rerun.c \
	pager/verify/rerun.h \
	pager/verify/slabs.c \
	pager/verify/trial.c \
	pager/verify/trial.h \
	pager/verify/verify.c \
	pager/verify/verify.h
libfyverify_la_SOURCES += \
	pager/verify/report.c \
	pager/verify/tally.c \
	pager/verify/tally.h
EXTRA_DIST += pager/verify/README.md
