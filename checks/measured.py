"""What a probe measured, for the checks that judge it: all of it, or CannotTell. Half of a measurement is none.

What became of the probe itself (it hung, it crashed) is said by every_probe_answers; here it is only pointed at.
"""

from checks import CannotTell, known
from rig.lean import Any, Iterable, Mapping, NamedTuple
from rig.machine import Gpu
from rig.plan.hca import is_efa
from rig.snapshot import Probe, Snapshot

Row = Mapping[str, Any]

# Variables that change what every Python loads (PYTHONSTARTUP is read by interactive ones only), and where files are
# that are not the user's: the image's, and rig's own.
LOADING = ("PYTHONHOME", "PYTHONPATH")
NOT_THE_USERS = ("/opt/", "/usr/", "/lib/", "/lib64/")
PROBES = "/checks/probes/"


def told(now: Snapshot, name: str) -> Row:
    """What a probe that came to its end said. CannotTell where it did not, with its last words."""
    probe = now.probes.get(name)
    if probe is None:
        raise CannotTell(f"the probe {name} was not run")
    if probe.state != "ok":
        said = ", as every_probe_answers says" if probe.state in ("failed", "unresponsive") else ""
        raise CannotTell(f"the probe {name} is {probe.state}{said}: {last_words(probe)}")
    if probe.asking is not None:
        raise CannotTell(f"the probe {name} ended before its end: it was at {probe.asking}")
    if not any(value is not None for value in probe.data.values()):
        raise CannotTell(f"the probe {name} said nothing")
    return probe.data


def last_words(probe: Probe) -> str:
    """Why a probe did not come to its end, and what it was at."""
    error = probe.error or "without a word"
    return error if probe.asking is None or probe.asking in error else f"{error}, at {probe.asking}"


class Theirs(NamedTuple):
    """What of the user's own a program met: a file, or a variable with its value; and what to do about it."""

    what: str
    fix: str


def users_own(now: Snapshot, error: str, by_variable: bool = True) -> Theirs | None:
    """Of an error in a Python program: the user's file that it names, or what decides from where Python loads
    (`by_variable`: where that is set, it is the first to be left out). None where it is neither."""
    file = users_file(error)
    told = [f"{name}={now.environ[name]}" for name in LOADING if now.environ.get(name)]
    if not file and not (told and by_variable):
        return None
    names = " ".join(one.partition("=")[0] for one in told)
    words = [f"unset {names} ({', '.join(told)})"] if told else []
    words += [f"move {file} away"] if file else []
    return Theirs(file or told[0], f"{', or '.join(words)}; then check again")


def users_file(error: str) -> str | None:
    """The first file of Python code, or library, that an error names and neither the image nor rig brought."""
    for word in error.split():
        path = word.strip("\"'`:,;()[]")
        code = path.startswith("/") and (path.endswith(".py") or ".so" in path)
        if code and not path.startswith(NOT_THE_USERS) and PROBES not in path:
            return path
    return None


def rows_of(now: Snapshot, name: str, key: str) -> tuple[Row, ...]:
    """The rows of a list that a probe printed; CannotTell where there are none."""
    rows = told(now, name).get(key)
    if not rows:
        raise CannotTell(f"the probe {name} told of nothing ({key})")
    return tuple(rows)


def gpu_rows(now: Snapshot, name: str, key: str = "gpus") -> tuple[Row, ...]:
    """One row for each GPU that CUDA may see."""
    rows = [(str(row.get("bus_id")), row) for row in rows_of(now, name, key)]
    return _whole(name, rows, _seen(now, [one for one, _ in rows]))


def pair_rows(now: Snapshot, name: str, key: str = "pairs") -> tuple[Row, ...]:
    """One row for each ordered pair of the GPUs that CUDA may see."""
    rows = [(f"{row.get('a')} -> {row.get('b')}", row) for row in rows_of(now, name, key)]
    seen = _seen(now, [str(row.get("a")) for _, row in rows])
    return _whole(name, rows, [f"{a} -> {b}" for a in seen for b in seen if a != b])


def port_rows(now: Snapshot, name: str, key: str = "ports") -> tuple[Row, ...]:
    """One row for each RDMA port that is up (EFA's are not asked)."""
    rows = [(f"{row.get('hca')}:{row.get('port')}", row) for row in rows_of(now, name, key)]
    hcas = [hca for hca in now.machine.hcas if not is_efa(hca)]
    return _whole(name, rows, [port.name for hca in hcas for port in hca.ports if port.state == "ACTIVE"])


def all_ranks(now: Snapshot, name: str, key: str) -> Row:
    """What a probe with a rank for each GPU that CUDA may see (at least one) said; `key` holds their number."""
    data, want = told(now, name), max(1, may_see(now))
    codes = data.get("codes") or ()
    if data.get(key) != want or len(codes) != want:
        raise CannotTell(f"the probe {name} ran {data.get(key)} ranks, of which {len(codes)} ended; {want} belong here")
    return data


def may_see(now: Snapshot) -> int:
    """How many of the GPUs CUDA may see: what CUDA_VISIBLE_DEVICES leaves of them, up to its first entry that names
    none. Source: CUDA programming guide, "CUDA Environment Variables"."""
    gpus, words = now.machine.gpus, now.environ.get("CUDA_VISIBLE_DEVICES")
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
    return word.startswith("MIG-") or (word.isdigit() and int(word) < len(gpus))


def _seen(now: Snapshot, ids: list[str]) -> list[str]:
    """Bus ids of the GPUs of which a probe that told of `ids` should have told: of all, or of as many as the user left.
    Which ones these are CUDA decides."""
    every, most = [str(gpu.bus_id) for gpu in now.machine.gpus], may_see(now)
    mine = [one for one in every if one in ids]
    return mine if most < len(every) and len(mine) == most else every


def _whole(name: str, rows: Iterable[tuple[str, Row]], wanted: list[str]) -> tuple[Row, ...]:
    """One row for each of those wanted, in their order; CannotTell where one is missing. Others are left out."""
    by_name = dict(rows)
    missing = [one for one in wanted if one not in by_name]
    if missing or not wanted:
        raise CannotTell(f"the probe {name} told nothing of {', '.join(missing) or 'what is here'}")
    return tuple(by_name[one] for one in wanted)


def rates_of(rows: Iterable[Row], key: str, name: str = "bus_id") -> dict[str, float]:
    """Name -> rate; CannotTell where one is not known."""
    return {row[name]: known(row.get(key), f"{key} of {row[name]}") for row in rows}
