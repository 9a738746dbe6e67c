# SPDX-License-Identifier: Apache-2.0
libfyproxy_la_SOURCES += \
	proxy/wire/compress.c \
	proxy/wire/compress.h \
	proxy/wire/loop.c \
	proxy/wire/loop.h \
	proxy/wire/place.c \
	proxy/wire/process.c \
	proxy/wire/process.h \
	proxy/wire/protocol.h \
	proxy/wire/reason.c \
	proxy/wire/reason.h \
	proxy/wire/rope.c \
	proxy/wire/rope.h \
	proxy/wire/signals.c \
	proxy/wire/signals.h \
	proxy/wire/spec.c \
	proxy/wire/spec.h \
	proxy/wire/spec_decode.c \
	proxy/wire/spec_encode.c \
	proxy/wire/specs.h \
	proxy/wire/temporary.c \
	proxy/wire/temporary.h \
	proxy/wire/transport.c \
	proxy/wire/transport.h \
	proxy/wire/transport_ssh.c \
	proxy/wire/transports.h \
	proxy/wire/wire.c \
	proxy/wire/wire.h \
	proxy/wire/wire_receive.c \
	proxy/wire/wire_send.c \
	proxy/wire/wires.h
EXTRA_DIST += proxy/wire/README.md
