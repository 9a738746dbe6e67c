# SPDX-License-Identifier: Apache-2.0
# What runs on a real card, by hand; here, that it works at all, on the fake.
EXTRA_DIST += tests/gpu/README.md tests/gpu/arrays.py tests/gpu/calls.py \
	tests/gpu/card.py tests/gpu/fake.py tests/gpu/prepare.py tests/gpu/run \
	tests/gpu/small.py
dist_check_SCRIPTS += tests/gpu/choice.py tests/gpu/resident.py tests/gpu/special.py tests/gpu/tiny.py \
	tests/gpu/trouble.py tests/gpu/verify.py
TESTS += tests/gpu/choice.py tests/gpu/resident.py tests/gpu/special.py tests/gpu/verify.py
if HAVE_CHECK
# Programs of TESTS that scripts run, too.
UNITS_OF_OTHERS = tests/unit/test_cuda_device
endif
