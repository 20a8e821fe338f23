"""How fast the work folder is: writes 256 MiB with fsync, reads it back past the page cache, deletes it.

The folder is the first argument, else the current one. Nothing is written where less than twice the size is free.
"""

import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from telling import first_line, run, tell

SIZE = 256 << 20
PIECE = 4 << 20


def write(handle: int, size: int) -> float:
    """Seconds to write `size` bytes and have them on the device. Random bytes: some file systems compress."""
    piece = os.urandom(PIECE)
    began = time.monotonic()
    for _ in range(size // PIECE):
        left = memoryview(piece)
        while left:
            left = left[os.write(handle, left) :]
    os.fsync(handle)
    return time.monotonic() - began


def read(handle: int) -> tuple[int, float]:
    """Bytes and seconds. The cached pages are dropped first: they are clean after fsync, so the kernel lets them go."""
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.lseek(handle, 0, os.SEEK_SET)
    got, began = 0, time.monotonic()
    while piece := os.read(handle, PIECE):
        got += len(piece)
    return got, time.monotonic() - began


def measure(folder: str, size: int) -> None:
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    tell(path=folder, bytes=size, free_bytes=free)
    if free < 2 * size:
        tell(error=f"only {free} bytes are free: nothing was written")
        return
    with tempfile.TemporaryFile(dir=folder, prefix=".rig-disk-") as file:
        tell(asking=f"writing to {folder}")
        tell(write_bytes_per_s=round(size / write(file.fileno(), size)))
        tell(asking=f"reading from {folder}")
        got, seconds = read(file.fileno())
        tell(read_bytes_per_s=round(got / seconds), error=None if got == size else f"{size} bytes written, {got} read")


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else os.getcwd()
    try:
        measure(folder, SIZE)
    except OSError as error:
        tell(path=folder, error=first_line(error))
    tell(asking=None)


if __name__ == "__main__":
    run(main)
