# SPDX-License-Identifier: Apache-2.0
"""How ./check has single failures of a script run once more: the options
--failed FILE and --again FILE of the judges, the programs and the pipelines."""


def options(parser):
    """Adds the two to a script's own."""
    parser.add_argument("--failed", metavar="FILE",
                        help="write the name of each failure there")
    parser.add_argument("--again", metavar="FILE",
                        help="only what FILE names so, one after the other")


def names(path):
    """What --again names; None without."""
    if path is None:
        return None
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def note(path, name):
    """Adds a name to --failed, if it is given."""
    if path is not None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(name + "\n")
