"""Which checks and probes a run has, what its results come to, and how long it may take. Pure."""

from checks import LEVELS, Check, Result, evaluate
from checks.catalogue import FAMILIES, checks_of, family_checks
from checks.probing import ProbeProgram
from rig.finding import OUTCOMES
from rig.lean import Any, Iterable, Mapping, NamedTuple, Sequence
from rig.snapshot import Probe, Snapshot

# Seconds that a level may take, looking included; those that it starts are ended within two more. The boot has no
# probes: it reads files, and has its own budget.
BUDGET_S: Mapping[str, float | None] = {"boot": None, "quick": 10.0, "full": 60.0, "deep": 1800.0}
DEFAULT_LEVEL = "quick"
PASSED, FAILED, UNJUDGED, USAGE = 0, 1, 2, 3  # exit codes


class BadRequest(ValueError):
    """What was asked for does not exist: one line that names the nearest."""


class Selection(NamedTuple):
    """What a run does. `level` is that of its budget: of --only the highest that a check or its probe needs."""

    level: str
    checks: tuple[Check, ...]
    probes: tuple[ProbeProgram, ...]


class Judged(NamedTuple):
    """A check with what it said; `seconds` that its probe took, where it has one."""

    check: Check
    result: Result
    seconds: float | None = None


class Report(NamedTuple):
    """What a run came to: all that a writer needs. `machine` is one line of what was found, `taken_at` the time of the
    snapshot (ISO 8601, UTC), `seconds` that the run took, `partial` that it has not ended."""

    level: str
    judged: tuple[Judged, ...]
    probes: tuple[Probe, ...] = ()
    machine: str = ""
    hostname: str | None = None
    taken_at: str | None = None
    seconds: float | None = None
    strict: bool = False
    partial: bool = False

    @property
    def code(self) -> int:
        return exit_code(self.judged, self.strict)

    @property
    def counts(self) -> dict[str, int]:
        """Each of the five outcomes with the number of its checks."""
        found = [one.result.outcome for one in self.judged]
        return {outcome: found.count(outcome) for outcome in OUTCOMES}

    def with_outcome(self, outcome: str) -> list[Judged]:
        return [one for one in self.judged if one.result.outcome == outcome]


def select(level: str | None, only: Sequence[str], programs: Iterable[ProbeProgram]) -> Selection:
    """The checks of a level, or those that `only` names (ids, and families for their checks of the level), with the
    probes that they judge. BadRequest on a name that does not exist."""
    if level is not None and level not in LEVELS:
        raise BadRequest(f"there is no level {level!r}; the levels are {', '.join(LEVELS)}")
    checks = tuple(checks_of(level or DEFAULT_LEVEL))
    if only:
        checks = _named(only, checks)
    wanted = {name for one in checks for name in one.probes}
    probes = tuple(one for one in programs if one.name in wanted)
    levels = [level or DEFAULT_LEVEL, *(one.at for one in checks), *(one.at for one in probes)]
    return Selection(max(levels, key=LEVELS.index), checks, probes)


def _named(only: Sequence[str], of_level: Sequence[Check]) -> tuple[Check, ...]:
    every = checks_of(LEVELS[-1])
    ids = {one.id for one in every}
    for name in only:
        if name not in ids and name not in FAMILIES:
            raise BadRequest(f"there is no check {name!r}{nearest(name, (*ids, *FAMILIES))}; rig check --list has all")
    return tuple(one for one in every if one.id in only or (one.family in only and one in of_level))


def find_check(name: str) -> Check:
    """A check by its id; BadRequest where there is none."""
    every = {one.id: one for family in FAMILIES for one in family_checks(family)}
    if name not in every:
        raise BadRequest(f"there is no check {name!r}{nearest(name, every)}; rig check --list has all")
    return every[name]


def known_needs(names: Iterable[str]) -> frozenset[str]:
    """Names for --no-skip, as they are; BadRequest on one that no check has."""
    known = {need.name for one in checks_of(LEVELS[-1]) for need in one.needs}
    for name in names:
        if name not in known:
            raise BadRequest(f"no check needs {name!r}{nearest(name, known)}; they need {', '.join(sorted(known))}")
    return frozenset(names)


def nearest(name: str, known: Iterable[str]) -> str:
    """`, did you mean X?` as a part of a line; empty where nothing is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1, 0.5)
    return f" (did you mean {near[0]}?)" if near else ""


def evaluate_all(checks: Iterable[Check], now: Snapshot, no_skip: frozenset[str] = frozenset()) -> Iterable[Judged]:
    """Every check on the snapshot, one after another."""
    for one in checks:
        probe = now.probes.get(one.probe) if one.probe else None
        yield Judged(one, evaluate(one, now, no_skip), None if probe is None else probe.seconds)


def exit_code(judged: Iterable[Judged], strict: bool) -> int:
    """0: it passed, perhaps with warnings. 1: a check failed (strict: warned, or could not tell). 2: what would have
    been a failure could not be judged, or nothing was judged at all."""
    seen = [(one.result.outcome, one.check.severity) for one in judged]
    outcomes = {outcome for outcome, _ in seen}
    if "fail" in outcomes or (strict and outcomes & {"warn", "unknown"}):
        return FAILED
    if ("unknown", "fail") in seen or not outcomes & {"pass", "warn"}:
        return UNJUDGED
    return PASSED


def merged(output: str) -> dict[str, Any]:
    """What a probe printed: JSON objects, one a line, joined to one; lists are joined, other values replaced. Lines
    that are none (a library's words, a line that was broken off) are left out."""
    import json

    from rig.snapshot_reader import frozen

    told: dict[str, Any] = {}
    for line in output.splitlines():
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            told.update((key, _joined(told.get(key), value)) for key, value in data.items())
    return {key: frozen(value) for key, value in told.items()}


def _joined(old: Any, new: Any) -> Any:
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **new}
    return new
