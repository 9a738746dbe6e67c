# SPDX-License-Identifier: Apache-2.0
# Do the tests see a wrong ferry? Called by ./check --full.
EXTRA_DIST += tests/standin/ferry
EXTRA_DIST += tests/standin/run
