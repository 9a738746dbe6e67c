# SPDX-License-Identifier: Apache-2.0
# The command that users type.
dist_bashcompletion_DATA = tools/completion/ferry
dist_zshcompletion_DATA = tools/completion/_ferry

dist_man_MANS += \
	docs/ferry.1 \
	docs/ferry-calibrate.1 \
	docs/ferry-check.1 \
	docs/ferry-doctor.1 \
	docs/ferry-explain.1 \
	docs/ferry-report.1 \
	docs/ferry-run.1 \
	docs/ferry-verify.1
EXTRA_DIST += docs/ARCHITECTURE.md
