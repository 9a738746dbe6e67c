# SPDX-License-Identifier: Apache-2.0
# Wrong annotations that ferry verify must notice.
dist_check_SCRIPTS += tests/verify/run tests/verify/drivers
EXTRA_DIST += tests/verify/mutants.py tests/verify/mutate.py
EXTRA_DIST += docs/verify-missed.md
# What a user's library does beside what its annotation says.
dist_check_SCRIPTS += tests/verify/library
EXTRA_DIST += tests/verify/wronglib.h tests/verify/wronglib.c tests/verify/wrong.c
TESTS += tests/verify/library
# What maps compute.
dist_check_SCRIPTS += tests/verify/maps

# All mutants of the shipped annotations (about ten minutes); writes those
# that are missed to docs/verify-missed.md.
.PHONY: verify-missed
verify-missed: ferry libferry.la libferry-engine.la tests/drive/drive
	PYTHONDONTWRITEBYTECODE=1 $(srcdir)/tests/verify/mutants.py --names \
		--missed $(srcdir)/docs/verify-missed.md --ferry ./ferry \
		--annotations $(srcdir)/annotations/lib -- \
		$(srcdir)/tests/verify/drivers tests/drive/drive 12
