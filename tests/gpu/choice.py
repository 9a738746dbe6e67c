#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the cost model decides on the fake CUDA, and what it learns: a card is
opened when that pays, its rates are measured once and kept, calls that turn out
slow on it come back. Times are only compared where they differ tenfold. Run by
make check; prints TAP.
"""
import json
import os
import subprocess
import sys

from fake import FERRY, calls, check, environment, main

# A card as fast as light.
FAST = """
cuda.device_flops_f64=1e15
cuda.in_bytes=1e13
cuda.out_bytes=1e13
cuda.call_seconds=1e-6
cuda.step_seconds=1e-7
"""

class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.cache = os.path.join(folder, "cache")
        for path in (self.cache, os.path.join(folder, "config/ferry")):
            os.makedirs(path, 0o700)

    def run(self, rates, *words, command="run", **extra):
        """(row of dgemm, what was said) with that calibration file."""
        path = os.path.join(self.folder, "rates.txt")
        report = os.path.join(self.folder, "report.json")
        with open(path, "w", encoding="ascii") as file:
            file.write(rates)
        with open(os.path.join(self.folder, "config/ferry/ferry.conf"), "w",
                  encoding="ascii") as file:
            file.write("calibration = %s\n" % path)
        env = environment(XDG_CACHE_HOME=self.cache, XDG_CONFIG_HOME=os.path.join(
            self.folder, "config"), **extra)
        if command == "calibrate":
            done = subprocess.run([FERRY, "calibrate"], env=env, timeout=600,
                                  capture_output=True, text=True, check=False)
            with open(path, encoding="ascii") as file:
                return done, file.read()
        done = subprocess.run(
            [FERRY, "run", "--no-discover", "--early", "--device", "cuda", "--explain",
             "--report=" + report, "--", *calls(*words)], env=env, timeout=600,
            capture_output=True, text=True, check=False)
        plain = subprocess.run(calls(*words), env=env, timeout=600,
                               capture_output=True, text=True, check=False)
        # The last word is a hash of results, whose last bits may differ.
        texts = [[line.split()[:-1] for line in one.stdout.splitlines()]
                 for one in (plain, done)]
        if plain.returncode != done.returncode or texts[0] != texts[1]:
            check(False, "the output of " + " ".join(words), (plain, done))
        with open(report, encoding="utf-8") as file:
            rows = {x["name"]: x for x in json.load(file)["functions"]}
        return rows["dgemm"], done.stderr

    def kept(self, opening=False):
        folder = os.path.join(self.cache, "ferry")
        return [os.path.join(folder, x) for x in sorted(os.listdir(folder))
                if x.startswith("rates-") and opening == (
                    x.startswith("rates-opening-"))]


def opening(bench):
    # 4.2e6 operations: 4 s here by these rates.
    row, said = bench.run("cpu_flops_f64=1e6\n" + FAST, "dgemm:128*2")
    check(row["offloaded"] >= 1, "what gains more than opening takes opens",
          (row, said))
    check(not bench.kept(), "rates that were calibrated are not measured",
          bench.kept())
    took = [x for path in bench.kept(True)
            for x in open(path, encoding="ascii").read().split()
            if x.startswith("cuda.open_seconds=")]
    check(len(took) == 1 and 0 < float(took[0].split("=")[1]) < 60,
          "what the opening took is kept", took)
    # 0.04 s each.
    row, said = bench.run("cpu_flops_f64=1e8\ncuda.open_seconds=0.3\n" + FAST,
                          "dgemm:128*2")
    check(row["offloaded"] == 0 and row["declined"] == {"unprofitable": 2} and
          "not open yet" in said, "what gains less does not", (row, said))


def measuring(bench):
    row, said = bench.run("cpu_flops_f64=1e5\n", "dgemm:128*2")
    kept = bench.kept()
    check(len(kept) == 1 and kept[0].endswith("-13000-0.1.0-3"),
          "a card's rates are kept by UUID, driver and version",
          (kept, row, said))
    if not kept:
        return
    with open(kept[0], encoding="ascii") as file:
        text = file.read()
    rates = dict(x.split("=") for x in text.split())
    check(len(rates) == 10 and all(float(x) > 0 for x in rates.values()),
          "all rates are there", text)
    check(not os.stat(kept[0]).st_mode & 0o022, "nobody else can write them")
    before = os.stat(kept[0]).st_mtime_ns
    bench.run("cpu_flops_f64=1e5\n", "dgemm:128*2")
    check(os.stat(kept[0]).st_mtime_ns == before, "they are measured once")
    # What is no such file is measured again.
    with open(kept[0], "w", encoding="ascii") as file:
        file.write("rubbish\n")
    bench.run("cpu_flops_f64=1e5\n", "dgemm:128*2")
    with open(kept[0], encoding="ascii") as file:
        check("cuda.in_bytes=" in file.read(), "rubbish is replaced")
    bench.run("cpu_flops_f64=1e5\n", "dgemm:128*2", FAKECUDA_DRIVER="13010")
    check(len(bench.kept()) == 2, "another driver has its own", bench.kept())


def learning(bench):
    # Each operation of the fake may be a tenth of a second late.
    row, said = bench.run("cpu_flops_f64=1e6\n" + FAST, "dgemm:128*14",
                          FAKECUDA_DELAY="100000", FAKECUDA_SEED="3")
    check(1 <= row["offloaded"] <= 9 and
          row["declined"].get("unprofitable", 0) >= 5,
          "calls that are slow there come back", (row, said))


def calibrating(bench):
    done, text = bench.run("", command="calibrate")
    check(done.returncode == 0 and "cuda.in_bytes=" in text and
          "cpu_flops_f64=" in text, "ferry calibrate measures the card",
          (done, text))
    done, text = bench.run("", command="calibrate", CUDA_VISIBLE_DEVICES="")
    check(done.returncode == 0 and "cuda." not in text and
          "no CUDA device was measured" in done.stdout,
          "ferry calibrate without a card", (done, text))


def body(folder):
    bench = Bench(folder)
    for group in (opening, measuring, learning, calibrating):
        group(bench)


if __name__ == "__main__":
    sys.exit(main("choice", body))
