"""Everything that a check may look at, as one value that travels: machine, plan, host, image, what probes measured.

A snapshot is JSON (rig.emit.to_json writes it, `read_snapshot` reads it): a check can be replayed on yesterday's node.
"""

from rig.expected import Expected
from rig.lean import TYPE_CHECKING, Any, Mapping, NamedTuple
from rig.machine import Machine
from rig.plan import Plan

if TYPE_CHECKING:
    from rig.host import Host
    from rig.image import Image

VERSION = 1
AT_MOST = 64 << 20  # bytes of a file with one; that of a host with eight GPUs has less than 1 MiB


class SnapshotError(ValueError):
    """The text is no snapshot: one line with the place and what is wrong."""


class Probe(NamedTuple):
    """What became of a probe program. `state`: ok, failed (it ended with an error: `error`), unresponsive (it did not
    end in time), absent (its program or library is not there), unasked (no time was left, or an earlier one is stuck).
    `data` is the JSON object that it printed; for one that did not end, what it had printed until then."""

    name: str
    state: str
    data: Mapping[str, Any] = {}  # noqa: RUF012
    error: str = ""
    seconds: float | None = None

    @property
    def cut(self) -> bool:
        """Unasked, but it had been started: it was ended when the time of all was over, and before its own."""
        return self.state == "unasked" and self.seconds is not None

    @property
    def asking(self) -> str | None:
        """What it was at when it ended or was ended: a GPU, a pair of them, a step."""
        told = self.data.get("asking")
        return None if told is None else str(told)


class Snapshot(NamedTuple):
    """A node at one moment. `host` and `image` are None where only the boot looked; `environ` holds the variables of
    the user that checks look at, without secrets; `pins` what the image is meant to hold (NAME -> version)."""

    machine: Machine
    plan: Plan = Plan()
    expected: Expected = Expected()
    environ: Mapping[str, str] = {}  # noqa: RUF012
    pins: Mapping[str, str] = {}  # noqa: RUF012
    host: "Host | None" = None
    image: "Image | None" = None
    probes: Mapping[str, Probe] = {}  # noqa: RUF012
    taken_at: str | None = None  # ISO 8601, UTC
    version: int = VERSION


def read_snapshot(text: str, name: str = "snapshot") -> Snapshot:
    """The snapshot in a JSON text. SnapshotError when it is none, or one of another version; unknown fields are
    ignored, so that a newer rig's snapshot can be read as far as it is known."""
    from rig.snapshot_reader import read  # a boot makes snapshots and reads none

    return read(text, name)


def load_snapshot(path: str) -> Snapshot:
    """The snapshot in a file. SnapshotError, in one line with the file, where it cannot be read, is no regular file,
    is larger than AT_MOST, or holds none."""
    from rig.regular import read_regular

    try:
        text = read_regular(path, AT_MOST, "surrogateescape")
    except ValueError as error:
        raise SnapshotError(str(error)) from None
    try:
        return read_snapshot(text, path)
    except RecursionError:
        raise SnapshotError(f"{path}: not a snapshot: it is nested too deep") from None
