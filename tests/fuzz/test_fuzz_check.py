"""A snapshot that somebody changed by hand is judged or refused: no value breaks a run, or a format of its results."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks.formats import FORMATS
from entrypoint import check
from rig.emit import to_json
from tests.checks.snapshots import h100

NODE = json.loads(to_json(h100()))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values below one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


PLACES = [place for place in places(NODE) if place]
TOP = [place for place in PLACES if len(place) <= 2 or place[0] == "probes"]


def changed(place: tuple[Any, ...], value: Any) -> Any:
    node = copy.deepcopy(NODE)
    inner = node
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return node


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from(TOP) | st.sampled_from(PLACES), value=JSON)
def test_any_value_in_a_snapshot_ends_in_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: tuple[Any, ...], value: Any
) -> None:
    path = tmp_path / "node.json"
    path.write_text(json.dumps(changed(place, value)))
    outputs = [word for name in FORMATS if name != "text" for word in (f"--{name}", str(tmp_path / name))]
    code = check.run(["--level", "deep", "--from", str(path), "--save", str(tmp_path / "again.json"), *outputs])
    told = capsys.readouterr()
    assert code in (0, 1, 2, 3) and len(told.err.splitlines()) == (code == 3)
    if code != 3:
        json.loads((tmp_path / "json").read_text())
