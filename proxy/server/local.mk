# SPDX-License-Identifier: Apache-2.0
libfyproxy_la_SOURCES += \
	proxy/server/admit.c \
	proxy/server/carry.c \
	proxy/server/descent.c \
	proxy/server/end.c \
	proxy/server/exchange.c \
	proxy/server/facts.c \
	proxy/server/files.c \
	proxy/server/limits.c \
	proxy/server/proxy.h \
	proxy/server/pump.c \
	proxy/server/reap.c \
	proxy/server/request.c \
	proxy/server/result.c \
	proxy/server/run.c \
	proxy/server/run.h \
	proxy/server/run_end.c \
	proxy/server/server.c \
	proxy/server/server.h \
	proxy/server/split.c \
	proxy/server/split.h \
	proxy/server/split_parts.c \
	proxy/server/split_parts.h \
	proxy/server/split_sort.c \
	proxy/server/split_text.c \
	proxy/server/stage.c \
	proxy/server/start.c \
	proxy/server/touched.c \
	proxy/server/touched_answer.c \
	proxy/server/work.c
EXTRA_DIST += proxy/server/README.md
