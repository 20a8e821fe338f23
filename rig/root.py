"""The one door to the machine.

Everything that detection learns, it learns through a Root: five questions with plain answers. `Live` asks the running
kernel, `rig.captured.Captured` asks a text file written by `rig capture`. Paths are absolute and named as on the machine.
An answer that cannot be had is None (or empty), never an exception: kernels refuse reads with EINVAL, EACCES and EIO on
healthy machines.
"""

import errno
import os

from rig.lean import NamedTuple, Protocol

READ_LIMIT = 1 << 20  # no kernel text that we parse is larger; a device or a bomb would be


class Space(NamedTuple):
    """Size of the file system that holds a path."""

    total_bytes: int
    free_bytes: int


class Root(Protocol):
    """What detection may ask of a machine."""

    def read(self, path: str) -> str | None:
        """Text of a file, at most READ_LIMIT bytes, trailing newline kept; None when missing or unreadable."""

    def ls(self, path: str) -> list[str]:
        """Sorted names in a folder; empty when it is missing or unreadable."""

    def link(self, path: str) -> str | None:
        """Absolute path with every symbolic link resolved; None when it does not exist."""

    def opens(self, path: str) -> bool | None:
        """Whether this process can open a device node for reading and writing; None when the node does not exist."""

    def space(self, path: str) -> Space | None:
        """Size and free bytes of the file system that holds path; None when it is missing."""

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        """Standard output of a program; None when it is absent, fails, or does not end in time (it is then left)."""


class Live:
    """The running machine, or a folder laid out like one (`prefix`)."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix.rstrip("/")

    def read(self, path: str) -> str | None:
        try:
            handle = os.open(self.prefix + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            parts, left = [], READ_LIMIT
            while left > 0 and (part := os.read(handle, min(left, 65536))):
                parts.append(part)
                left -= len(part)
        except OSError:
            return None
        finally:
            os.close(handle)
        return b"".join(parts).decode("utf-8", "replace")

    def ls(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.prefix + path))
        except (OSError, ValueError):
            return []

    def link(self, path: str) -> str | None:
        try:
            real = os.path.realpath(self.prefix + path, strict=True)
        except (OSError, ValueError):
            return None
        if self.prefix and real.startswith(self.prefix + "/"):
            return real[len(self.prefix) :]
        return real

    def opens(self, path: str) -> bool | None:
        try:
            os.close(os.open(self.prefix + path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            return None if error.errno == errno.ENOENT else False
        except ValueError:
            return None
        return True

    def space(self, path: str) -> Space | None:
        try:
            told = os.statvfs(self.prefix + path)
        except (OSError, ValueError):
            return None
        return Space(told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize)

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        if self.prefix:
            return None
        from rig.child import output  # imported here: most boots run no program

        return output(argv, timeout_s)
