"""One line of progress on stderr, and the one kind of failure that ends a build."""

import sys


class Refused(Exception):
    """What cannot be done, in one line with the way out. `code` is the exit status (sysexits.h)."""

    def __init__(self, text: str, code: int = 69) -> None:
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    """A line of progress; stdout stays free for results."""
    print(f"factory: {text}", file=sys.stderr, flush=True)
