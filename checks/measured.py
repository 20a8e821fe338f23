"""What a probe measured, for the checks that judge it."""

from checks import CannotTell
from rig.lean import Any, Mapping
from rig.snapshot import Snapshot


def told(now: Snapshot, name: str) -> Mapping[str, Any]:
    """What a probe that ended said. CannotTell where it did not: half of a measurement is none."""
    probe = now.probes.get(name)
    if probe is None:
        raise CannotTell(f"{name} did not run")
    if probe.state != "ok":
        raise CannotTell(f"{name}: {probe.state}{': ' if probe.error else ''}{probe.error}")
    return probe.data


def rates_of(rows: Any, key: str, name: str = "bus_id") -> dict[str, float]:
    """Name -> rate of the rows that have one."""
    return {row[name]: row[key] for row in rows or () if row.get(key)}


def rows_of(now: Snapshot, probe: str, key: str) -> Any:
    """Rows of a probe that measured something."""
    rows = told(now, probe).get(key)
    if not rows:
        raise CannotTell(f"{probe} measured nothing")
    return rows
