# SPDX-License-Identifier: Apache-2.0
# The host device, made to fail in a test, and in a whole program.
BADDEVICE = tests/baddevice/device.c tests/baddevice/device.h
BADDEVICE_LDFLAGS = -Wl,--wrap=fy_device_host
check_LTLIBRARIES += tests/baddevice/libferry-engine.la
tests_baddevice_libferry_engine_la_SOURCES = $(libferry_engine_la_SOURCES) \
	tests/baddevice/control.c \
	$(BADDEVICE) \
	tests/baddevice/engine.c
tests_baddevice_libferry_engine_la_CFLAGS = $(libferry_engine_la_CFLAGS)
tests_baddevice_libferry_engine_la_LDFLAGS = $(libferry_engine_la_LDFLAGS) -rpath /nowhere \
	$(BADDEVICE_LDFLAGS)
tests_baddevice_libferry_engine_la_LIBADD = $(libferry_engine_la_LIBADD)
EXTRA_DIST += tests/baddevice/ferry.sh
