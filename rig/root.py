"""The one door to the machine.

Everything that detection learns, it learns through a Root: a few questions with plain answers. `Live` asks the running
kernel, `rig.captured.Captured` asks a text file written by `rig capture`. Paths are absolute and named as on the
machine. An answer that cannot be had is None (or empty), never an exception: kernels refuse reads with EINVAL, EACCES
and EIO on healthy machines.
"""

import errno
import os

from rig.lean import NamedTuple, Protocol

READING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
READ_LIMIT = 1 << 20  # no kernel text that we parse is larger; a device or a bomb would be
IPV4_FILE = "/proc/net/rig_ipv4"  # where a folder or a capture keeps the answer of `ipv4`; no kernel has such a file


class Space(NamedTuple):
    """Size of the file system that holds a path."""

    total_bytes: int
    free_bytes: int


class Running(Protocol):
    """A program that was started and will be asked for its output later."""

    def collect(self) -> "Collected":
        """Wait until it ends or its time is over; a second call gives the same answer."""


class Collected(NamedTuple):
    """`state` is "ok", "failed" (absent, or ended with an error), "hung" (did not end in time, was ended or left),
    "cut" (the time of all was over before its own: rig.in_time) or "unasked" (this Root runs no programs); `output` is
    what it wrote until then."""

    state: str
    output: str = ""


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

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        """Start a program beside us. A first word of `rig.child.OWN` names one of our own (`rig-nvml`)."""

    def peek(self, path: str, offset: int, size: int) -> bytes | None:
        """Bytes of a binary file (PCI config space, config.gz), fewer at its end; None when missing or unreadable."""

    def ipv4(self) -> str | None:
        """IPv4 addresses in kernel order, a line each: `eth0 192.0.2.1/24`. No file of the kernel tells them exactly
        (fib_trie names no interface), so the running machine is asked by rtnetlink(7), as getifaddrs(3) does."""


class Answered(NamedTuple):
    """A `Running` whose answer is known already."""

    answer: Collected

    def collect(self) -> Collected:
        return self.answer


class Live:
    """The running machine, or a folder laid out like one (`prefix`)."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix.rstrip("/")

    def read(self, path: str) -> str | None:
        try:
            handle = os.open(self.prefix + path, READING)
        except (OSError, ValueError):
            return None
        try:
            text = os.read(handle, 4096)
            if len(text) < 4096 and path.startswith("/sys/"):
                return text.decode("utf-8", "replace")  # sysfs gives all it has at once, procfs may not
            parts, left = [text], READ_LIMIT - len(text)
            while text and left > 0 and (part := os.read(handle, min(left, 65536))):
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
        # The kernel resolves it in one call; realpath would ask for each part of the path.
        try:
            handle = os.open(self.prefix + path, os.O_PATH | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            real = os.readlink(f"/proc/self/fd/{handle}")
        except OSError:
            real = os.path.realpath(self.prefix + path)  # no /proc here
        finally:
            os.close(handle)
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

    def trusted(self, path: str) -> bool | None:
        """Whether only root or this process's user can write a file; None when it is missing. Not part of a Root: a
        capture knows no owners."""
        try:
            told = os.stat(self.prefix + path)
        except (OSError, ValueError):
            return None
        return told.st_uid in (0, os.geteuid()) and not told.st_mode & 0o002

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        if self.prefix:
            return None
        from rig.child import output  # imported here: most boots run no program

        return output(argv, timeout_s)

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        if self.prefix:
            return Answered(Collected("unasked"))
        from rig.child import start

        return start(argv, timeout_s)

    def peek(self, path: str, offset: int, size: int) -> bytes | None:
        try:
            handle = os.open(self.prefix + path, READING)
        except (OSError, ValueError):
            return None
        try:
            return os.pread(handle, min(size, READ_LIMIT), offset)
        except OSError:
            return None
        finally:
            os.close(handle)

    def ipv4(self) -> str | None:
        if self.prefix:
            return self.read(IPV4_FILE)
        from rig.netlink import ipv4_addresses

        return ipv4_addresses()
