"""How rig talks: lines on standard error, because standard output belongs to the user's program."""

import os
import sys

from rig.finding import Finding
from rig.lean import Mapping

COLOURS = {"warning": "33", "error": "31"}


class Voice:
    """Prints lines. `quiet` leaves the page and warnings out; errors, and what was changed of the user's, stay."""

    def __init__(self, environ: Mapping[str, str], quiet: bool = False) -> None:
        terminal = sys.stderr is not None and sys.stderr.isatty()
        self.colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self.quiet = quiet

    def page(self, *lines: str) -> None:
        """What was found, chosen and started."""
        if not self.quiet:
            _write(lines)

    def notice(self, *lines: str) -> None:
        """What nobody may miss: something of the user's was changed, a rank ended."""
        _write(lines)

    def warning(self, text: str) -> None:
        if not self.quiet:
            _write((text,), self._mark("warning"))

    def error(self, text: str) -> None:
        _write((text,), self._mark("error"))

    def finding(self, finding: Finding) -> None:
        """One line: what is wrong and what to do."""
        if finding.outcome == "fail":
            self.error(sentence(finding))
        elif finding.outcome in ("warn", "unknown"):
            self.warning(sentence(finding))

    def _mark(self, word: str) -> str:
        return f"\033[{COLOURS[word]}m{word}\033[0m: " if self.colour else f"{word}: "


def sentence(finding: Finding) -> str:
    """A finding in one line: what it is about (where the text does not name it), what is wrong, what to do."""
    about = f"{finding.subject}: " if finding.subject and finding.subject not in finding.text else ""
    return about + finding.text + (f". {finding.fix}" if finding.fix else "")


def _write(lines: "tuple[str, ...]", mark: str = "") -> None:
    if not lines:
        return
    text = "".join(f"rig: {mark}{printable(line)}\n" for line in lines)
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return  # nobody listens; the program is started all the same


def printable(line: str) -> str:
    """Control characters of file names and values shown, not obeyed by a terminal."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
