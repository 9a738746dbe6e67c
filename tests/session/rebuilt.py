# SPDX-License-Identifier: Apache-2.0
# rebuilt.py FOLDER NAME...: copies of programs into the folder, as if they were built again:
# only their build ids differ. Programs that are missing or have none are left out.
import os
import shutil
import sys

for name in sys.argv[2:]:
    path = shutil.which(name)
    if not path:
        continue
    with open(os.path.realpath(path), "rb") as f:
        program = bytearray(f.read())
    at = program.find(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")
    if at < 0:
        continue
    program[at + 16] ^= 0xff
    copy = os.path.join(sys.argv[1], name)
    with open(copy, "wb") as f:
        f.write(program)
    os.chmod(copy, 0o755)
