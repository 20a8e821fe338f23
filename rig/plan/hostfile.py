"""DeepSpeed's hostfile: its grammar as launcher/runner.py of 0.12.6 reads it. The writer is rig.emit.hostfile."""

from rig.lean import NamedTuple


class Entry(NamedTuple):
    """One line that names a host. `rest` is what follows the slots and is ignored by DeepSpeed."""

    line: int
    host: str
    slots: int
    rest: str = ""


class BadLine(NamedTuple):
    """A line that DeepSpeed refuses with "Hostfile contains a bad entry"."""

    line: int
    text: str


class Hostfile(NamedTuple):
    """The entries in file order, duplicates included, and the lines that are refused."""

    entries: tuple[Entry, ...]
    bad: tuple[BadLine, ...]


def read_hostfile(text: str) -> Hostfile:
    """Entries as DeepSpeed sees them.

    After a strip, empty lines and lines that begin with # are skipped; others must be a word, blanks, `slots=` and
    digits, and anything may follow. A byte order mark becomes part of the name, as there.
    """
    entries, bad = [], []
    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        entry = _entry(number, line)
        if entry is None:
            bad.append(BadLine(number, line))
        else:
            entries.append(entry)
    return Hostfile(tuple(entries), tuple(bad))


def _entry(number: int, line: str) -> Entry | None:
    host, _, rest = _split(line)
    if not rest.startswith("slots="):
        return None
    rest = rest[6:]
    count = 0
    while count < len(rest) and rest[count] in "0123456789":
        count += 1
    if not 0 < count < 10:
        return None
    return Entry(number, host, int(rest[:count]), rest[count:])


def _split(line: str) -> tuple[str, str, str]:
    """First word, blanks, rest."""
    words = line.split(None, 1)
    return (words[0], " ", words[1]) if len(words) == 2 else (line, "", "")
