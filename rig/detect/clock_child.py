"""Asks the kernel how well its clock is kept, as a program of its own: adjtimex(2) is a system call and no file.

Prints `clock RETURN STATUS MAXERROR_US` where the kernel tells, else nothing. `modes` is 0: nothing is set, and no
privilege is needed. Source: adjtimex(2), include/uapi/linux/timex.h (struct timex; 208 bytes with 64-bit longs).
"""

import ctypes
import os
from typing import Any


class Timex(ctypes.Structure):
    """The beginning of struct timex, with room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    )


def answer(library: Any) -> str | None:
    """The line; None where this kernel or its seccomp filter refuses."""
    told = Timex()
    function = getattr(library, "adjtimex", None)
    state = -1 if function is None else int(function(ctypes.byref(told)))
    return None if state < 0 else f"clock {state} {told.status} {told.maxerror}"


def main() -> None:
    """Print what is known."""
    line = answer(ctypes.CDLL(None))
    if line is not None:
        os.write(1, (line + "\n").encode())


if __name__ == "__main__":
    main()
