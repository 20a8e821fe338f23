"""Versions as checks compare them."""

from rig.lean import Any
from rig.snapshot import Snapshot


def release(text: str) -> tuple[int, ...]:
    """(2, 1, 2) of `2.1.2`, `2.1.2+cu121` and `2.1.2.post1`: the leading numbers."""
    numbers: list[int] = []
    for part in text.partition("+")[0].split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part))
    return tuple(numbers)


def is_of(version: str, pin: str) -> bool:
    """Whether a version is what a pin says, as far as the pin says it: 8.9.2.26 is of 8.9.2, 3.110 is not of 3.11."""
    want = release(pin)
    return release(version)[: len(want)] == want


def image_of(now: Snapshot) -> Any:
    """The image; checks that ask have the need IMAGE or PACKAGES."""
    return now.image


def looked_at(now: Snapshot, part: str) -> bool | None:
    """True where that part of the image could be read (rig.image.Image.read), else None: not known."""
    return True if now.image is not None and part in (now.image.read or ()) else None


def image_copies(now: Snapshot, name: str) -> list[Any]:
    """The copies of a library (rig.image.Library) that lie in the image; none where it was not looked at."""
    return [one for one in now.image.libraries if one.name == name] if now.image is not None else []
