"""Where the results of `rig check` go: files that are written whole, and standard output."""

import argparse
import errno
import os
import sys

from checks.formats import FORMATS
from checks.running import BadRequest
from entrypoint.state import write_file


def outputs(asked: argparse.Namespace) -> dict[str, str]:
    """Format -> file, `-` for standard output, where there is text unless another format is asked for there.

    What cannot be written is said before anything is measured.
    """
    told = {name: path for name in FORMATS if (path := getattr(asked, f"to_{name}", None)) is not None}
    there = [f"--{name}" for name, path in told.items() if path == "-"]
    if len(there) > 1:
        raise BadRequest(f"{' and '.join(there)}: only one format fits on standard output; give the others a FILE")
    for path in (*told.values(), *([asked.save] if asked.save is not None else [])):
        if path != "-" and (why := _unwritable(path)):
            raise BadRequest(f"{path}: {why}")
    return told if there else {"text": "-", **told}


def _unwritable(path: str) -> str | None:
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path) or not path:
        return "is a folder, not a file" if path else "an empty name is no file"
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    there = os.path.exists(path) and not os.path.isfile(path)  # a pipe, or /dev/null
    return None if os.access(path if there else folder, os.W_OK) else "cannot be written by this user"


def put(path: str, text: str) -> str | None:
    """Write a whole file or nothing, `-` for standard output; one line where that fails."""
    try:
        if path == "-":
            _print(text)
        elif os.path.exists(path) and not os.path.isfile(path):  # a pipe, or /dev/null: never replaced
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        elif why := write_file(os.path.realpath(path), text):
            return f"{path}: {why}"
    except OSError as error:
        return f"{'standard output' if path == '-' else path}: {error.strerror}"
    return None


def _print(text: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    try:
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())
        sys.stdout.flush()
    except OSError:  # a full disk behind `> report`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter would try once more, and say it again
        raise
