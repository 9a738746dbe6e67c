# SPDX-License-Identifier: Apache-2.0
# Work near the storage: the session, the wire, the server side. Tool side
# only; nothing of it enters a host program.
noinst_LTLIBRARIES += libfyproxy.la
libfyproxy_la_SOURCES = \
	proxy/absent.c \
	proxy/asked.c \
	proxy/alike.c \
	proxy/ask.c \
	proxy/classify.c proxy/classify.h \
	proxy/compress.c proxy/compress.h \
	proxy/cage.c \
	proxy/configs.c \
	proxy/confine.c proxy/confine.h proxy/confines.h \
	proxy/cost.c proxy/cost.h \
	proxy/filter.c \
	proxy/fault.c proxy/fault.h proxy/fault_plan.h proxy/fault_text.c \
	proxy/flow.c \
	proxy/index.c proxy/index.h \
	proxy/input.c \
	proxy/observe.c \
	proxy/guest.c \
	proxy/ahead.c proxy/barrier.c proxy/barrier.h \
	proxy/fresh.c proxy/fresh.h \
	proxy/group.c proxy/group.h \
	proxy/history.c proxy/history.h \
	proxy/gluster.c \
	proxy/holders.c proxy/holders.h \
	proxy/link.c \
	proxy/mappings.c proxy/mappings.h \
	proxy/mount_process.c \
	proxy/mounts.c proxy/mounts.h \
	proxy/needs.c proxy/needs.h \
	proxy/place.c \
	proxy/part_words.c \
	proxy/order.c \
	proxy/placement.c \
	proxy/prepare.c \
	proxy/process.c proxy/process.h \
	proxy/protocol.h \
	proxy/proxy.h \
	proxy/reach.c proxy/reach.h \
	proxy/reason.c proxy/reason.h \
	proxy/rope.c proxy/rope.h \
	proxy/seal.c proxy/seal.h \
	proxy/run.c proxy/run.h proxy/run_end.c \
	proxy/server.c proxy/server.h \
	proxy/server_end.c \
	proxy/server_facts.c \
	proxy/server_pump.c \
	proxy/server_request.c \
	proxy/server_stage.c \
	proxy/server_start.c \
	proxy/server_work.c \
	proxy/server_touched.c \
	proxy/session.c proxy/session.h \
	proxy/snapshot.c \
	proxy/spec.c proxy/spec.h proxy/specs.h \
	proxy/spec_decode.c proxy/spec_encode.c \
	proxy/names.c \
	proxy/roots.c \
	proxy/space.c \
	proxy/sshfs.c \
	proxy/split.c proxy/split.h \
	proxy/split_parts.c proxy/split_parts.h \
	proxy/split_sort.c proxy/split_text.c \
	proxy/stage.c proxy/stage.h \
	proxy/stage_end.c proxy/stage_parts.c \
	proxy/strict.c \
	proxy/stub.h \
	proxy/tools.c \
	proxy/transport.c proxy/transport.h proxy/transports.h \
	proxy/transport_ssh.c \
	proxy/walk.c proxy/walk.h \
	proxy/wire.c proxy/wire.h \
	proxy/work.c proxy/work.h proxy/wires.h \
	proxy/wire_receive.c proxy/wire_send.c
libfyproxy_la_CFLAGS = $(AM_CFLAGS) $(PROXY_CFLAGS)
libfyproxy_la_LIBADD = $(PROXY_LIBS)
EXTRA_DIST += proxy/PROTOCOL.md
