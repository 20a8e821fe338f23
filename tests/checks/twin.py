"""A check's two fixtures: a snapshot in which it fails, and beside it a healthy one in which it passes."""

from typing import Any, NamedTuple

from rig.snapshot import Snapshot


class Twin(NamedTuple):
    """`broken` is a snapshot in which check `id` must speak, `healthy` one in which it must pass. Of its findings one
    has `outcome` and `domain`, `says` in its text or subject, and `fix` in its remedy. `reported` are the public
    reports that the fixture replays (repository#number)."""

    id: str
    broken: Snapshot
    healthy: Snapshot
    says: str
    fix: str
    domain: str
    outcome: str = "fail"
    reported: tuple[str, ...] = ()


def changed(now: Any, **values: Any) -> Any:
    """A copy of a record with other values. `a__b=value` reaches into a record, `a__0__b` into one of a tuple."""
    for path, value in values.items():
        now = _set(now, path.split("__"), value)
    return now


def _set(now: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if isinstance(now, dict):
        return {**now, first: _set(now.get(first), rest, value)}
    if first.isdigit():
        items = list(now)
        items[int(first)] = _set(items[int(first)], rest, value)
        return tuple(items)
    return now._replace(**{first: _set(getattr(now, first), rest, value)})
