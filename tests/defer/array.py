# SPDX-License-Identifier: Apache-2.0
# NumPy arrays handed to vec.c's library by ctypes: `array.py LIBRARY' prints what
# it sees. Debian's python3 lies at a fixed address and takes malloc's. Run by
# run.sh where NumPy is there.
import ctypes
import sys

import numpy as np

library = ctypes.CDLL(sys.argv[1])
n = 300000
double = ctypes.POINTER(ctypes.c_double)


def call(name, *arrays):
    function = getattr(library, name)
    function.restype = None
    function(n, *(array.ctypes.data_as(double) for array in arrays))


a = np.arange(n, dtype=float)
a %= 1000
call("vec_add", a, a, np.empty(n))
for i in range(6):
    # Freed arrays in between: malloc is to go on mapping the next ones, once it
    # has been told to by the first call.
    b, t, r = a + i, np.empty(n), np.zeros(n)
    call("vec_add", a, b, t)
    call("vec_mul", t, a, r)
    call("vec_sqrt", r, r)
    print(r[::1000].tolist()[:3], float(r.max()).hex(), t[7].hex())
    a = r * 0.5
