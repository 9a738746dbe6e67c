# SPDX-License-Identifier: Apache-2.0
"""How long a test waits for an event before it gives up. ./check measures how many
times slower than a quiet, fast machine this one is (tests/speed), and puts the
factor, 1 to 20, into FERRY_PATIENCE. Used by Python tests; tests/patience.h and
`patient' of tests/tap.sh are the same for C and shell."""
import os


def patience():
    """The factor; 1 if FERRY_PATIENCE is unset or no number from 1 to 20."""
    try:
        factor = float(os.environ.get("FERRY_PATIENCE", "1"))
    except ValueError:
        return 1.0
    return factor if 1 <= factor <= 20 else 1.0


def patient(seconds):
    """Seconds to wait here for an event that takes SECONDS at most on a quiet machine."""
    return seconds * patience()
