"""Whether /dev/shm holds what it promises: allocates and touches up to 1 GiB of it, and gives it back.

statvfs(3) tells the size of the tmpfs, not whether there is memory behind it: the control group's limit, or other
tenants, may be in the way. Then a DataLoader dies of SIGBUS and NCCL cannot make its segments (NVIDIA/nccl#290,
#342).
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from telling import die_with_parent, first_line, run, tell

FOLDER = "/dev/shm"
WANTED = 1 << 30
PIECE = bytes(16 << 20)


def fill(folder: str, wanted: int, progress: Callable[[int], Any] = lambda touched: None) -> tuple[int, str | None]:
    """Bytes that could be written to a file without a name, and why no more. write(2) touches each page in the kernel,
    so an absent page is an error here, not the SIGBUS that a mapping would die of."""
    handle, touched = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600), 0
    try:
        while touched < wanted:
            touched += os.write(handle, PIECE[: min(len(PIECE), wanted - touched)])
            progress(touched)
    except OSError as error:
        return touched, os.strerror(error.errno or 0)
    finally:
        os.close(handle)
    return touched, None


def die_first() -> None:
    """Where the control group has less memory than it says, the kernel must end this process and nobody else's."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def fill_in_child(folder: str, wanted: int) -> tuple[int, str | None]:
    """The same in a process that may be killed for it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        die_first()
        touched, error = fill(folder, wanted, lambda done: os.write(theirs, f"{done}\n".encode()))
        os.write(theirs, f"{touched} {error or ''}\n".encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file:
        lines = file.read().splitlines()
    status = os.waitpid(child, 0)[1]
    number, _, words = (lines[-1] if lines else "0").partition(" ")
    if os.WIFSIGNALED(status):
        return int(number), f"killed by signal {os.WTERMSIG(status)}: there is no memory behind it"
    return int(number), words or None


def main() -> None:
    tell(asking=FOLDER)
    try:
        space = os.statvfs(FOLDER)
        wanted = min(WANTED, space.f_bavail * space.f_frsize)
        began = time.monotonic()
        touched, error = fill_in_child(FOLDER, wanted)
        tell(wanted_bytes=wanted, touched_bytes=touched, seconds=round(time.monotonic() - began, 3), error=error)
    except OSError as error:
        tell(wanted_bytes=None, touched_bytes=None, error=first_line(error))
    tell(asking=None)


if __name__ == "__main__":
    run(main)
