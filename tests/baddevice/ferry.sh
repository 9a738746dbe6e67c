# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# baddevice_ferry FOLDER: makes FOLDER/ferry, a copy of ferry whose host device does wrong
# what the variable BADDEVICE says (tests/baddevice/device.h). Needs $builddir.
baddevice_ferry()
{
    mkdir -p "$1/.libs" "$1/tools"
    cp "$builddir/ferry" "$builddir/ferry-stub" "$1"
    cp "$builddir/tools/uninstalled" "$1/tools"
    cp "$builddir/.libs/libferry.so" "$builddir/tests/baddevice/.libs/libferry-engine.so" \
        "$1/.libs"
}
