# SPDX-License-Identifier: Apache-2.0
# The kernel's NFS, in an emulated machine. Called by ./check --full.
EXTRA_DIST += tests/nfs/guest
EXTRA_DIST += tests/nfs/run
EXTRA_DIST += tests/nfs/cases.py
