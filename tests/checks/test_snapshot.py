"""A snapshot travels: written as JSON and read again it is the same, and judged again it says the same."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import LEVELS
from checks.catalogue import checks_of
from checks.running import evaluate_all
from rig.emit import to_json
from rig.expected import Expected
from rig.machine import Machine
from rig.snapshot import AT_MOST, Snapshot, SnapshotError, load_snapshot, read_snapshot
from tests.checks import snapshots
from tests.checks.test_twins import TWINS

HEALTHY = {name: getattr(snapshots, name) for name in ("h100", "a100", "roce", "rtx4090", "no_gpu")}
EVERY = checks_of(LEVELS[-1])


def travelled(now: Snapshot) -> Snapshot:
    return read_snapshot(to_json(now, depth=3))


@pytest.mark.parametrize("name", HEALTHY)
def test_what_was_written_is_read_again(name: str) -> None:
    now = HEALTHY[name]()
    assert to_json(travelled(now)) == to_json(now)
    assert travelled(now) == travelled(travelled(now))


@pytest.mark.parametrize("name", HEALTHY)
def test_every_record_is_a_record_again(name: str) -> None:
    now = HEALTHY[name]()
    again = travelled(now)
    assert again.machine == now.machine and again.host == now.host and again.image == now.image
    assert again.expected == now.expected
    assert [one.id for one in again.plan.findings] == [one.id for one in now.plan.findings]


@pytest.mark.parametrize("name", HEALTHY)
def test_judged_again_it_says_the_same(name: str) -> None:
    now = HEALTHY[name]()
    assert [one.result for one in evaluate_all(EVERY, travelled(now))] == [
        one.result for one in evaluate_all(EVERY, now)
    ]


def test_every_fixture_says_the_same_when_it_is_read() -> None:
    checks = {one.id: one for one in EVERY}
    for twin in TWINS:
        (before,), (after,) = (evaluate_all([checks[twin.id]], now) for now in (twin.broken, travelled(twin.broken)))
        assert before.result == after.result, twin.id


def without(data: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != name}


def test_fields_of_a_newer_rig_are_passed_over_and_missing_ones_have_their_defaults() -> None:
    now = snapshots.h100()
    data = json.loads(to_json(now))
    data["later"] = {"a": 1}
    data["machine"]["later"] = [1]
    data["machine"]["gpus"][0]["later"] = True
    assert read_snapshot(json.dumps(data)) == travelled(now)
    assert read_snapshot(json.dumps(without(data, "image"))).image is None


def test_null_is_the_default_where_a_record_knows_no_unknown() -> None:
    now = read_snapshot('{"machine": {"gpus": null, "limits": null}, "plan": null, "version": 1, "probes": {}}')
    assert now == Snapshot(Machine())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[]", "not a snapshot"),
        ("{}", "not a snapshot"),
        ('{"machine": 1}', "not a snapshot"),
        ('{"machine": {}, "version": 2}', "version 2"),
        ('{"machine": {}}', "version None"),
        ('{"machine": {}, "version": 1, "probes": []}', "probes must be an object"),
        ('{"machine": {}, "version": 1, "probes": {"a": 1}}', "probes.a: must be an object"),
        ('{"machine": {"gpus": 3}, "version": 1, "probes": {}}', "machine: gpus: must be a list"),
        ('{"machine": {"gpus": [3]}, "version": 1, "probes": {}}', "machine: gpus[0]: must be an object"),
        ('{"machine": {}, "version": 1, "taken_at": 5, "probes": {}}', "taken_at cannot be 5"),
        ('{"machine": {}, "version": 1, "probes": {"a": {"name": "a", "state": 1}}}', "probes.a: state cannot be 1"),
        ('{"machine": {"surroundings": {"hostname": []}}, "version": 1, "probes": {}}', "hostname cannot be ()"),
        ('{"machine": {}, "host": [], "version": 1, "probes": {}}', "host: must be an object"),
        *(
            (
                f'{{"machine": {{}}, "expected": {{"{name}": {wrong}}}, "version": 1, "probes": {{}}}}',
                f"{name} cannot be",
            )
            for name in Expected._fields
            for wrong in ('["8"]', "8.5", "{}", {"gdr": "1", "model": "8"}.get(name, "true"), '"eight"')
            if (name, wrong) != ("model", '"eight"')
        ),
    ],
)
def test_what_is_no_snapshot_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(SnapshotError) as error:
        read_snapshot(text, "node.json")
    told = str(error.value)
    assert told.startswith("node.json: ") and words in told and "\n" not in told


def test_a_file_is_read_and_what_is_no_file_of_a_snapshots_size_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "good").write_text(to_json(snapshots.h100()))
    assert load_snapshot(str(tmp_path / "good")) == travelled(snapshots.h100())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", AT_MOST + 1)
    (tmp_path / "deep").write_text("[" * 100_000)
    refused = {
        "/dev/zero": "not a regular file; copy what it holds into one",
        str(tmp_path): "Is a directory",
        str(tmp_path / "pipe"): "not a regular file",
        str(tmp_path / "none"): "No such file or directory",
        str(tmp_path / "sparse"): "larger than 64 MiB",
        str(tmp_path / "deep"): "nested too deep",
    }
    for path, words in refused.items():
        with pytest.raises(SnapshotError) as error:
            load_snapshot(path)
        told = str(error.value)
        assert told.startswith(f"{path}: ") and words in told and "\n" not in told


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))


@given(st.sampled_from(Snapshot._fields), JSON)
def test_any_value_is_read_or_refused_and_no_check_breaks_out(name: str, value: Any) -> None:
    data = {**json.loads(to_json(snapshots.no_gpu())), name: value}
    try:
        now = read_snapshot(json.dumps(data))
    except SnapshotError:
        return
    assert {one.result.outcome for one in evaluate_all(EVERY, now)} <= {"pass", "warn", "fail", "skip", "unknown"}
