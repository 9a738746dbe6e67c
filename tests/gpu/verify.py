#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ferry run --verify on the host device and on the fake CUDA: the program has
the original's results to the bit, wrong ones of the device are found, said in
one line and switched off, and ill-conditioned calls raise no alarm. Run by make
check; prints TAP.
"""
import json
import os
import re
import subprocess
import sys

import fake
from fake import FERRY, HERE, calls, check

# dgemm with its transpositions mixed up, and one whose result means nothing.
WRONG = """
import "%(types)s";
function fortran void dgemm(char transa, char transb, integer m, integer n, integer k,
                            double alpha, const double *a, integer lda, const double *b,
                            integer ldb, double beta, double *c, integer ldc)
{
    require m > 0 && m == n && n == k && lda == m && ldb == m && ldc == m;
    axis m, n, k;
    in    a[m: 1, k: lda];
    in    b[k: 1, n: ldb];
    inout c[m: 1, n: ldc];
    %(more)s
    on cuda cublasDgemm_v2(cublas, %(ops)s, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}
"""

def environment(**extra):
    return fake.environment(FAKECUDA_STRICT="1", **extra)


class Run:
    """One run under ferry, and whether it printed what it prints without."""

    def __init__(self, folder, options, argv, **extra):
        path = os.path.join(folder, "report.json")
        plain = subprocess.run(argv, env=environment(), capture_output=True,
                               text=True, timeout=300, check=False)
        done = subprocess.run(
            [FERRY, "run", "--no-discover", "--force", "--report=" + path,
             *options, "--", *argv], env=environment(**extra),
            capture_output=True, text=True, timeout=300, check=False)
        self.same = (plain.stdout, plain.returncode) == (done.stdout,
                                                         done.returncode)
        self.text = done.stderr
        self.rows = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.rows = {x["name"]: x for x in json.load(file)[
                    "functions"]}
            os.unlink(path)

    def count(self, name, reason):
        row = self.rows.get(name, {"declined": {}})
        return row["declined"].get(reason, 0)

    def __str__(self):
        return "%s\n%s" % (self.text, json.dumps(self.rows, indent=1))


def on_the_host(folder):
    got = Run(folder, ["--device", "host,memory=64KiB", "--verify"], calls(
        "dgemm:70*3", "dgemv:90", "ddot:3000*2", "dgesv:140", "singular:130",
        "dpotrf:90", "dsyev:40"))
    check(got.same, "host: the program's output is the same", got)
    check(got.count("dgemm", "verified") == 3, "host: products", got)
    check(got.count("ddot", "verified") == 2, "host: a returned number", got)
    check(got.count("dgesv", "verified") >= 1, "host: info, pivots", got)
    check("0 different, 0 unverified" in got.text, "host: no alarm", got)
    check(got.text.count("\n") == 1, "host: one line", got)


def on_the_card(folder):
    options = ["--early", "--device", "cuda", "--verify"]
    got = Run(folder, options, calls("dgemm:70*3", "dgesv:150*2", "dpotrf:150",
                                     "hilbert:150*2"))
    check(got.same, "cuda: the program's output is the same", got)
    check(got.count("dgemm", "verified") == 3 and
          got.count("dpotrf", "verified") == 1, "cuda: verified", got)
    check(got.count("dgesv", "verified") == 2 and
          got.count("dgesv", "unverified") == 2,
          "cuda: an ill-conditioned system raises no alarm", got)
    check("0 different" in got.text, "cuda: no alarm", got)
    got = Run(folder, ["--early", "--device", "cuda"], calls("dgemm:70*3"))
    check(got.rows["dgemm"]["offloaded"] == 3 and not got.text,
          "without --verify all are offloaded, and nothing is said", got)


def wrong_functions(folder):
    options = ["--early", "--device", "cuda", "--verify"]
    got = Run(folder, options, calls("dgemm:70*4", "dpotrf:150"),
              FAKECUDA_WRONG="cublasDgemm_v2")
    lines = [x for x in got.text.splitlines() if "differs" in x]
    check(got.same, "wrong function: the program has the original's", got)
    check(got.count("dgemm", "different") == 1 and
          got.count("dgemm", "disabled") == 3, "wrong function: once", got)
    check(len(lines) == 1 and re.match(
        r"dgemm_ .*m=70 n=70 k=70 .*`c' differs: element \(0, 0\) is \S+ on "
        r"the device instead of \S+ \(allowed: \S+\)", lines[0]),
          "wrong function: one line", got)
    check(got.count("dpotrf", "verified") == 1,
          "wrong function: others go on", got)
    got = Run(folder, options, calls("dgesv:150*3"),
              FAKECUDA_WRONG="cusolverDnDgetrf")
    check(got.same and got.count("dgesv", "different") == 1 and
          got.count("dgesv", "disabled") == 2, "wrong factors", got)
    # The exit status is the program's.
    done = subprocess.run(
        [FERRY, "run", "--no-discover", "--force", *options, "--", "sh", "-c",
         '"$@"; exit 5', "-", *calls("dgemm:60")], capture_output=True,
        text=True, check=False, timeout=300,
        env=environment(FAKECUDA_WRONG="cublasDgemm_v2"))
    check(done.returncode == 5 and "1 different" in done.stderr,
          "wrong function: the exit status stays", done)


def wrong_annotations(folder):
    types = os.path.join(os.path.dirname(os.path.dirname(HERE)),
                         "annotations/lib/types.ferry")
    path = os.path.join(folder, "wrong.ferry")
    options = ["--early", "--device", "cuda", "--annotations", path, "--verify"]

    def write(ops, more):
        with open(path, "w", encoding="ascii") as file:
            file.write(WRONG % {"ops": ops, "more": more, "types": types})

    write("op(transb), op(transa)", "")
    got = Run(folder, options, calls("dgemm:50*3"))
    check(got.same and got.count("dgemm", "different") == 1 and
          got.count("dgemm", "disabled") == 2, "wrong annotation", got)
    # On the host device that line does not matter, and all is well.
    got = Run(folder, ["--device", "host", "--annotations", path, "--verify"],
              calls("dgemm:50*3"))
    check(got.same and got.count("dgemm", "verified") == 3,
          "wrong annotation: not on the host device", got)
    write("op(transb), op(transa)", "ambiguous c;")
    got = Run(folder, options + ["--explain"], calls("dgemm:50*2"))
    check(got.rows.get("dgemm", {}).get("offloaded") == 2 and
          "not verified, its results are ambiguous" in got.text,
          "ambiguous results are not compared", got)


def samples(folder):
    def run(rate):
        got = Run(folder, ["--early", "--device", "cuda", "--verify=" + rate],
                  calls("dgemm:20*40"))
        check(got.rows["dgemm"]["offloaded"] +
              got.count("dgemm", "verified") == 40,
              "--verify=%s: every call is one or the other" % rate, got)
        return got.count("dgemm", "verified")

    first = run("0.25")
    check(3 <= first <= 20, "--verify=0.25", first)
    check(run("0.25") == first, "the same ones in every run")
    check(run("0.25:7") != run("0.25:9") or run("0.25:11") != first,
          "others with another seed")
    check(run("0") == 0, "--verify=0 is none")
    for value in ("2", "x", "", "0.5:", "1e-3"):
        done = subprocess.run([FERRY, "run", "--verify=" + value, "true"],
                              capture_output=True, text=True, check=False)
        check(done.returncode == 2 and "--verify" in done.stderr,
              "--verify=%s is refused" % value, done)


def body(folder):
    for group in (on_the_host, on_the_card, wrong_functions,
                  wrong_annotations, samples):
        group(folder)


if __name__ == "__main__":
    sys.exit(fake.main("verify", body))
