# SPDX-License-Identifier: Apache-2.0
libfyproxy_la_SOURCES += \
	proxy/client/ahead.c \
	proxy/client/alike.c \
	proxy/client/ask.c \
	proxy/client/barrier.c \
	proxy/client/carry.c \
	proxy/client/barrier.h \
	proxy/client/classify.c \
	proxy/client/classify.h \
	proxy/client/cost.c \
	proxy/client/cost.h \
	proxy/client/flow.c \
	proxy/client/gather.c \
	proxy/client/stub_client.c \
	proxy/client/holders.c \
	proxy/client/holders.h \
	proxy/client/input.c \
	proxy/client/link.c \
	proxy/client/mappings.c \
	proxy/client/mappings.h \
	proxy/client/order.c \
	proxy/client/part_words.c \
	proxy/client/parts.c \
	proxy/client/peer.c \
	proxy/client/peer.h \
	proxy/client/placement.c \
	proxy/client/prepare.c \
	proxy/client/client.h \
	proxy/client/connection.c \
	proxy/client/connection.h \
	proxy/client/session.c \
	proxy/client/session.h \
	proxy/client/snapshot.c \
	proxy/client/stage.c \
	proxy/client/stage.h \
	proxy/client/stage_end.c \
	proxy/client/stage_parts.c \
	proxy/client/stage_state.c \
	proxy/client/stage_stub.c \
	proxy/client/streams.c \
	proxy/client/stub.h
EXTRA_DIST += proxy/client/README.md
