# SPDX-License-Identifier: Apache-2.0
# Shells and their commands with the data on another host. Called by ./check.
EXTRA_DIST += tests/pipeline/delay.c
EXTRA_DIST += tests/pipeline/rig
EXTRA_DIST += tests/pipeline/rig.py
EXTRA_DIST += tests/pipeline/cases
EXTRA_DIST += tests/pipeline/found
EXTRA_DIST += tests/pipeline/cliffs
EXTRA_DIST += tests/pipeline/harness.py
EXTRA_DIST += tests/pipeline/worker.py
EXTRA_DIST += tests/pipeline/table
EXTRA_DIST += tests/pipeline/scripts
EXTRA_DIST += tests/pipeline/users
EXTRA_DIST += tests/pipeline/generate
EXTRA_DIST += tests/pipeline/bashsuite
EXTRA_DIST += tests/pipeline/stale
