# SPDX-License-Identifier: Apache-2.0
"""Chooses cases of a stage: those that failed, run again alone, or a sample.

FERRY_TEST_ONLY names a file with the names of the cases to run, one a line; to the
file that FERRY_TEST_FAILED names a stage appends the names of the cases that fail. A
failure that belongs to no case has the name "*", which chooses every case. With
FERRY_TEST_TIER=edit, which ./check sets, a long test runs a sample (few)."""
import os

EVERY = "*"
EDIT = os.environ.get("FERRY_TEST_TIER") == "edit"


def _read():
    path = os.environ.get("FERRY_TEST_ONLY")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        names = set(file.read().splitlines()) - {""}
    return None if EVERY in names or not names else names


ONLY = _read()


def chosen(name):
    """Returns true if the case NAME is to be run."""
    return ONLY is None or name in ONLY


def failed(name=EVERY):
    """Keeps the name of a case that failed; the default belongs to no case."""
    path = os.environ.get("FERRY_TEST_FAILED")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(name + "\n")


def few(cases, share=5):
    """Returns the cases as a list, or each SHARE-th of them in the tier edit."""
    return list(cases)[::share if EDIT else 1]


def close(passed, failures, skipped):
    """Prints the closing line and returns the exit status. A chosen case that gave no
    result has failed, because a name that no case has would pass unseen."""
    failures += max(len(ONLY or ()) - passed - failures - skipped, 0)
    print("%d passed, %d failed, %d skipped" % (passed, failures, skipped))
    return 1 if failures else 0
