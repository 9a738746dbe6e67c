# SPDX-License-Identifier: Apache-2.0
# Small programs compiled and run by tests/program/run, called by ./check.
