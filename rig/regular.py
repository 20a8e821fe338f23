"""Text from a path that somebody names: never waits for a pipe, never reads a device, never more than a limit."""

import os
from stat import S_ISDIR, S_ISREG


def read_regular(path: str, at_most: int, errors: str) -> str:
    """The text of a regular file of at most `at_most` bytes; `errors` as `open` has it. ValueError, in one line with
    the file, what is wrong and what to do."""
    try:
        _refuse(path, os.stat(path), at_most)  # first: to open a device can have effects
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe that came meanwhile
        with open(handle, encoding="utf-8", errors=errors) as file:
            _refuse(path, os.fstat(handle), at_most)
            text = file.read(at_most + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(text) > at_most:  # it grows, or it is one of the kernel's files, which have no size
        raise ValueError(_too_large(path, at_most))
    return text


def _refuse(path: str, about: os.stat_result, at_most: int) -> None:
    if S_ISDIR(about.st_mode):
        raise ValueError(f"{path}: Is a directory; name a file in it")
    if not S_ISREG(about.st_mode):
        raise ValueError(f"{path}: not a regular file; copy what it holds into one, and name that")
    if about.st_size > at_most:
        raise ValueError(_too_large(path, at_most))


def _too_large(path: str, at_most: int) -> str:
    return f"{path}: larger than {at_most >> 20} MiB, which none is that rig wrote; is it the right file?"
