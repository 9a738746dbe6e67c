# SPDX-License-Identifier: Apache-2.0
"""What a test does of its cases in a time that it is given (--seconds): a sample in
an order drawn by a seed (--seed, else FERRY_SEED, else 1), which it prints."""
import hashlib
import math
import os
import threading
import time


class Sample:
    """Cases in an order that is drawn; without a time all of them, as they stand."""

    def __init__(self, seconds, seed=None):
        self.seconds, self.taken, self.all = seconds, 0, 0
        self.seed = seed if seed is not None else int(
            os.environ.get("FERRY_SEED", "1"))
        self.end = time.monotonic() + (self.seconds or 0)
        self.lock = threading.Lock()

    @staticmethod
    def arguments(parser):
        parser.add_argument("--seconds", type=float,
                            help="begin no case after so long; the order is drawn")

    def draw(self, cases, key=str, always=False):
        """The cases; each stands where it does whatever the others are. The time
        begins."""
        cases = self.order(cases, key, always)
        self.end = time.monotonic() + (self.seconds or 0)
        self.all += len(cases)
        return cases

    def order(self, cases, key=str, always=False):
        """The same without beginning the time."""
        cases = list(cases)
        if always or self.seconds is not None:
            cases.sort(key=lambda case: hashlib.sha256(
                ("%d %s" % (self.seed, key(case))).encode()).digest())
        return cases

    def late(self):
        return self.seconds is not None and time.monotonic() > self.end

    def left(self, after):
        """Seconds to so many after the end."""
        return math.inf if self.seconds is None else max(
            self.end + after - time.monotonic(), 1)

    def takes(self):
        """Whether there is time for one more case; in any thread."""
        with self.lock:
            late = self.late()
            self.taken += not late
        return not late

    def say(self):
        """What was drawn."""
        if self.seconds is not None:
            print("# seed %d: %d of %d cases in %.0f s" % (
                self.seed, self.taken, self.all, self.seconds), flush=True)
