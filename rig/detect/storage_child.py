"""Asks file systems for their space, as a program of its own with a deadline: one on a dead server never answers.

    rig-storage [--ssh FOLDER] PATH...

Prints `asking PATH` before each, then `space TOTAL FREE INODES INODES_FREE WRITABLE PATH` (bytes; WRITABLE is 1 or 0,
for this user). A path that does not exist yet is answered for the folder in which it would be made, after a line
`absent PATH`. With --ssh:
`mode KIND OCTAL UID PATH` for the home folder, its .ssh and the files in there that ssh(1) and sshd(8) judge by their
permissions; no content is read. `end` comes last. Source: statvfs(3), access(2), stat(2).
"""

import os
import stat
import sys
from collections.abc import Iterator

PUBLIC = (".pub", "known_hosts", "known_hosts.old", "config", "environment", "rc", "agent")
FILES_AT_MOST = 64


def existing(path: str) -> str:
    """The path, or the nearest folder above it that exists."""
    while path not in ("", "/") and not os.path.exists(path):
        path = os.path.dirname(path)
    return path or "/"


def space(path: str) -> str | None:
    """The line of one path; None where statvfs is refused."""
    place = existing(path)
    try:
        told = os.statvfs(place)
    except OSError:
        return None
    rights = os.W_OK | os.X_OK if os.path.isdir(place) else os.W_OK
    numbers = (told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize, told.f_files, told.f_favail)
    return f"space {' '.join(map(str, numbers))} {int(os.access(place, rights))} {path}"


def kind_of(name: str) -> str | None:
    """What a file in .ssh is to ssh; None where it may be read by all."""
    if name == "authorized_keys":
        return "authorized"
    return None if name.endswith(PUBLIC[0]) or name in PUBLIC[1:] or not name.startswith("id") else "key"


def modes(home: str) -> Iterator[str]:
    """The lines of a home folder and its .ssh."""
    folder = os.path.join(home, ".ssh")
    try:
        names = sorted(os.listdir(folder))[:FILES_AT_MOST]
    except OSError:
        return
    found = [("home", home), ("folder", folder)]
    found += [(kind, os.path.join(folder, name)) for name in names if (kind := kind_of(name))]
    for kind, path in found:
        try:
            told = os.stat(path)
        except OSError:
            continue
        yield f"mode {kind} {stat.S_IMODE(told.st_mode):o} {told.st_uid} {path}"


def lines(arguments: list[str]) -> Iterator[str]:
    """All lines, each as soon as it is known."""
    if arguments[:1] == ["--ssh"]:
        home, arguments = arguments[1], arguments[2:]
        yield f"asking {home}"
        yield from modes(home)
    for path in arguments:
        yield f"asking {path}"
        told = space(path)
        if existing(path) != path:
            yield f"absent {path}"
        if told is not None:
            yield told
    yield "end"


def main() -> None:
    """Print the lines."""
    for line in lines(sys.argv[1:]):
        os.write(1, (line + "\n").encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()
