"""What a probe measured, for the checks that judge it: all of it, or CannotTell. Half of a measurement is none.

What became of the probe itself (it hung, it crashed) is said by every_probe_answers; here it is only pointed at.
"""

from checks import CannotTell
from rig.lean import Any, Iterable, Mapping
from rig.machine import Gpu
from rig.plan.hca import is_efa
from rig.snapshot import Probe, Snapshot

Row = Mapping[str, Any]


def told(now: Snapshot, name: str) -> Row:
    """What a probe that came to its end said. CannotTell where it did not, with its last words."""
    probe = now.probes.get(name)
    if probe is None:
        raise CannotTell(f"the probe {name} was not run")
    if probe.state != "ok":
        said = ", as every_probe_answers says" if probe.state in ("failed", "unresponsive") else ""
        raise CannotTell(f"the probe {name} is {probe.state}{said}: {last_words(probe)}")
    if probe.data.get("asking") is not None:
        raise CannotTell(f"the probe {name} ended before its end: it was at {probe.data['asking']}")
    if not any(value is not None for value in probe.data.values()):
        raise CannotTell(f"the probe {name} said nothing")
    return probe.data


def last_words(probe: Probe) -> str:
    """Why a probe did not come to its end, and what it was at."""
    asking, error = probe.data.get("asking"), probe.error or "without a word"
    return error if asking is None or str(asking) in error else f"{error}, at {asking}"


def rows_of(now: Snapshot, name: str, key: str) -> tuple[Row, ...]:
    """The rows of a list that a probe printed; CannotTell where there are none."""
    rows = told(now, name).get(key)
    if not rows:
        raise CannotTell(f"the probe {name} told of nothing ({key})")
    return tuple(rows)


def gpu_rows(now: Snapshot, name: str, key: str = "gpus") -> tuple[Row, ...]:
    """One row for each GPU that CUDA may see."""
    rows = rows_of(now, name, key)
    _same(
        name, [str(row.get("bus_id")) for row in rows], _seen(now, len(rows), [str(row.get("bus_id")) for row in rows])
    )
    return rows


def pair_rows(now: Snapshot, name: str, key: str = "pairs") -> tuple[Row, ...]:
    """One row for each ordered pair of the GPUs that CUDA may see."""
    rows = rows_of(now, name, key)
    ids = list(dict.fromkeys(str(row.get("a")) for row in rows))
    seen = _seen(now, len(ids), ids)
    wanted = [f"{a} -> {b}" for a in seen for b in seen if a != b]
    _same(name, [f"{row.get('a')} -> {row.get('b')}" for row in rows], wanted)
    return rows


def port_rows(now: Snapshot, name: str, key: str = "ports") -> tuple[Row, ...]:
    """One row for each RDMA port that is up (EFA's are not asked)."""
    rows = rows_of(now, name, key)
    ports = [port for hca in now.machine.hcas if not is_efa(hca) for port in hca.ports if port.state == "ACTIVE"]
    _same(name, [f"{row.get('hca')}:{row.get('port')}" for row in rows], [port.name for port in ports])
    return rows


def may_see(now: Snapshot) -> int | None:
    """How many of the GPUs CUDA may see: what CUDA_VISIBLE_DEVICES leaves of them, up to its first entry that names
    none. None where that cannot be said: a GPU in MIG mode shows what was made of it, and one whose device node is not
    known may not be this container's. Source: CUDA programming guide, "CUDA Environment Variables"."""
    gpus = now.machine.gpus
    if any(gpu.mig for gpu in gpus) or any(gpu.node is None for gpu in gpus):
        return None
    words = now.environ.get("CUDA_VISIBLE_DEVICES")
    if words is None:
        return len(gpus)
    seen = 0
    for word in words.split(","):
        if not _names_one(word.strip(), gpus):
            break
        seen += 1
    return seen


def _names_one(word: str, gpus: tuple[Gpu, ...]) -> bool:
    if word.startswith("GPU-"):
        return any((gpu.uuid or "").startswith(word) for gpu in gpus)
    return word.isdigit() and int(word) < len(gpus)


def _seen(now: Snapshot, count: int, ids: list[str]) -> list[str]:
    """Bus ids of the GPUs of which a probe should have told, which told of `ids`."""
    every, most = [str(gpu.bus_id) for gpu in now.machine.gpus], may_see(now)
    mine = [one for one in every if one in ids]
    return mine if most is None or (most < len(every) and most == count == len(mine)) else every


def _same(name: str, got: Iterable[str], want: Iterable[str]) -> None:
    """CannotTell where a probe told of other things than of those that are here, or of one twice."""
    got, want = sorted(got), sorted(want)
    if got != want:
        missing, strange = sorted(set(want) - set(got)), sorted(set(got) - set(want))
        words = [f"nothing of {', '.join(missing)}"] if missing else []
        words += [f"of {', '.join(strange)}, which is not here"] if strange else []
        raise CannotTell(f"the probe {name} told {' and '.join(words) or 'of one twice'}")


def rates_of(rows: Any, key: str, name: str = "bus_id") -> dict[str, float]:
    """Name -> rate of the rows that have one."""
    return {row[name]: row[key] for row in rows or () if row.get(key)}
