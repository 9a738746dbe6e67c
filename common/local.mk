# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += common/status.h common/record.h
