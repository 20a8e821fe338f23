"""Where the results of `rig check` go: files that are written whole, pipes, and standard output."""

import argparse
import errno
import os
import stat
import sys
import time

from checks.formats import FORMATS
from checks.running import BadRequest
from entrypoint.say import printable
from entrypoint.state import write_file

SAVE = "save"  # the snapshot, beside the formats of a report
READER_S = 2.0  # so long is waited for somebody who opens the other end of a named pipe
DESCRIPTORS = {"/dev/stdout": 1, "/dev/stderr": 2}


def hold_streams() -> None:
    """Open /dev/null in the place of standard streams that are closed: else the next file that is opened gets the
    number of one, and a warning would be written into it."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def outputs(asked: argparse.Namespace) -> dict[str, str]:
    """Format (or SAVE) -> file, `-` for standard output, where there is text unless something else is asked for there.

    What cannot be written is said before anything is measured. BadRequest, one line.
    """
    words = {**{name: getattr(asked, f"to_{name}", None) for name in FORMATS}, SAVE: asked.save}
    told = {name: "-" if _descriptor(path) == 1 else path for name, path in words.items() if path is not None}
    there = [f"--{name}" for name, path in told.items() if path == "-"]
    if len(there) > 1:
        raise BadRequest(f"{' and '.join(there)}: only one format fits on standard output; give the others a FILE")
    taken: dict[str, str] = {}
    for name, path in told.items():
        if path != "-" and (why := _unwritable(path)):
            raise BadRequest(f"{path}: {why}")
        first = taken.setdefault(os.path.realpath(path), name)
        if first != name and path != "-" and not _swallows(path):
            raise BadRequest(f"--{first} and --{name}: both go to {path}; give each a FILE of its own")
    return told if there else {"text": "-", **told}


def _descriptor(path: str) -> int | None:
    """The number of the stream of ours that a path names: its file is written to, and never replaced."""
    folder, _, name = path.rpartition("/")
    if folder in ("/dev/fd", "/proc/self/fd") and name.isascii() and name.isdigit() and len(name) < 10:
        return int(name)
    return DESCRIPTORS.get(path)


def _swallows(path: str) -> bool:
    """Whether it is a character device (/dev/null): many texts fit into it."""
    return os.path.exists(path) and stat.S_ISCHR(os.stat(path).st_mode)


def _unwritable(path: str) -> str | None:
    if not path:
        return "an empty name is no file"
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = 0  # it will be made
    except OSError as error:  # links in a circle, a file in the place of a folder
        return error.strerror
    if stat.S_ISDIR(mode) or path.rpartition("/")[2] in ("", ".", ".."):
        return "is a folder, not a file"
    if _descriptor(path) is not None:
        return None if mode else "there is no such stream"
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        return "is no file, pipe or terminal"
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    replaced = not mode or stat.S_ISREG(mode)
    return None if os.access(folder if replaced else path, os.W_OK) else "cannot be written by this user"


def put(path: str, text: str) -> str | None:
    """Write a whole file or nothing, `-` for standard output; one line where that fails. Then an older file that was
    to be replaced is withdrawn: its verdict must not pass for this one."""
    try:
        if path == "-":
            _print(text)
        elif (stream := _descriptor(path)) is not None:
            _write(os.dup(stream), text)
        elif os.path.exists(path) and not os.path.isfile(path):  # a pipe, or /dev/null: never replaced
            _write(_open(path), text)
        elif why := write_file(os.path.realpath(path), text):
            return f"{path}: {why}{withdraw(os.path.realpath(path))}"
    except OSError as error:
        return f"{'standard output' if path == '-' else path}: {error.strerror}"
    return None


def withdraw(path: str) -> str:
    """Remove (or else empty) a file that could not be replaced; what to add to the line that tells so."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return ""
    except OSError:
        try:
            os.truncate(path, 0)
        except OSError as error:
            return f"; the older file is still there ({error.strerror}), and says nothing of this run"
        return "; the older file was emptied"
    return "; the older file was removed"


def complain(text: str) -> None:
    """One line on standard error; where nobody can get it, the exit code has to do."""
    if sys.stderr is None:
        return  # print would take standard output
    try:
        print(f"rig check: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:
        _silence(2)


def _open(path: str) -> int:
    """A pipe or a device, opened without waiting for ever. Raises OSError."""
    until = time.monotonic() + READER_S
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
            if time.monotonic() >= until:
                raise OSError(errno.ENXIO, "nobody reads from this pipe") from None
            time.sleep(0.01)
            continue
        os.set_blocking(handle, True)
        return handle


def _write(handle: int, text: str) -> None:
    with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


def _print(text: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    try:
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())
        sys.stdout.flush()
    except OSError:  # a full disk behind `> report`
        _silence(1)
        raise


def _silence(stream: int) -> None:
    """Or the interpreter would try once more at its end, and say it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
