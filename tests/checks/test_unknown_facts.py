"""A fact on which a check's verdict hangs, made unknown, is no pass: also where its siblings tell it.

The facts are found, not listed: those in which a twin's broken snapshot differs from its healthy one.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from checks import evaluate
from tests.checks.test_twins import CHECKS, TWINS
from tests.checks.twin import Twin

# Checks with a second source for the same fact, or for which its absence is an answer.
ANSWERED = {
    "application_clocks_are_the_default": "a GPU without a model is asked by its clocks all the same",
    "devices_know_their_numa_node": "the node of a GPU is in the PCI tree too",
    "driver_started_every_gpu": "the kind and the GPU of the event are told",
    "fabric_manager_runs": "cuInit's code tells",
    "files_are_not_for_everybody_to_write": "root may write everywhere, so it is not asked",
    "gpus_are_idle": "processes tell",
    "gpus_stay_with_the_container": "an error that is not there is none",
    "inodes_are_left": "some file systems count none",
    "nccl_gets_one_rank_a_card": "what has no bus id has no double",
    "nouveau_is_not_loaded": "/sys/module tells",
    "temporary_files_can_be_written": "whether it can be written tells",
    "topology_file_is_of_this_machine": "there is none to compare",
}


def differences(healthy: Any, broken: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the facts that differ: names of fields, places in tuples of records."""
    if healthy == broken:
        return
    if hasattr(healthy, "_fields") and type(healthy) is type(broken):
        for name in healthy._fields:
            yield from differences(getattr(healthy, name), getattr(broken, name), (*path, name))
    elif _records(healthy) and _records(broken) and len(healthy) == len(broken):
        for at, (one, other) in enumerate(zip(healthy, broken, strict=True)):
            yield from differences(one, other, (*path, at))
    else:
        yield path


def _records(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and all(hasattr(one, "_fields") for one in value)


def forgotten(now: Any, path: tuple[Any, ...]) -> Any:
    """The snapshot without that fact; None where the record knows no unknown there."""
    first, rest = path[0], path[1:]
    if not rest:
        optional = hasattr(now, "_fields") and now._field_defaults.get(first, 0) is None
        return now._replace(**{first: None}) if optional else None
    inner = forgotten(now[first] if isinstance(first, int) else getattr(now, first), rest)
    if inner is None:
        return None
    return (*now[:first], inner, *now[first + 1 :]) if isinstance(first, int) else now._replace(**{first: inner})


def told_by_one_fact() -> Iterator[tuple[Twin, Any]]:
    """Twins that differ in one fact of the machine, the host or the image, and the healthy one without it. Of a model
    that is not known gpus_are_of_one_kind speaks."""
    for twin in TWINS:
        paths = list(differences(twin.healthy, twin.broken))
        if len(paths) != 1 or paths[0][0] not in ("machine", "host", "image") or twin.id in ANSWERED:
            continue
        if paths[0][-1] != "model":
            without = forgotten(twin.healthy, paths[0])
            if without is not None:
                yield twin, without


CASES = list(told_by_one_fact())


def test_there_is_something_to_try() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize(("twin", "without"), CASES, ids=[f"{twin.id}-{at}" for at, (twin, _) in enumerate(CASES)])
def test_an_unknown_fact_does_not_pass(twin: Twin, without: Any) -> None:
    assert evaluate(CHECKS[twin.id], without).outcome != "pass"
