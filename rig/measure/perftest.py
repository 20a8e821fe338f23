"""What perftest's bandwidth programs (ib_write_bw and its kin) print -> a rate, or why there is none.

Source: perftest src/perftest_parameters.h (RESULT_FMT, RESULT_FMT_G: the table), 4.x to 6.x.
"""

from rig.lean import NamedTuple

# Of a column's head: what one of it is in Gb/s. MB/sec of old versions are MiB too (perftest_parameters.h).
UNITS = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9, "MiB/sec": 8 * 2**20 / 1e9}
COMPLAINTS = ("unable", "couldn't", "failed", "error", "unrecognized", "did not detect", "mismatch", "completion with")


class Bandwidth(NamedTuple):
    """The last line of the table: the largest message."""

    message_bytes: int
    iterations: int
    peak_gbps: float | None  # None: not taken, perftest prints 0
    average_gbps: float


def read_bandwidth(text: str) -> Bandwidth | None:
    """The table's last row; None where there is no table, or no row below its head."""
    unit, found = None, None
    for line in text.splitlines():
        words = line.split()
        if "#bytes" in words and "average[" in line:
            unit = UNITS.get(line.partition("average[")[2].partition("]")[0])
        elif unit is not None and len(words) >= 4 and words[0].isdigit() and words[1].isdigit():
            peak, average = _number(words[2]), _number(words[3])
            if average is not None:
                found = Bandwidth(int(words[0]), int(words[1]), (peak or 0) * unit or None, average * unit)
    return found


def complaint(text: str) -> str:
    """The first line that says what went wrong; empty where none does."""
    for line in text.splitlines():
        if any(word in line.lower() for word in COMPLAINTS):
            return " ".join(line.split())
    return ""


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
