"""The RIG_* variables are read from one table; what cannot be is said in one line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.expected import Expected
from rig.settings import VARIABLES, Settings, SettingsError, read_settings, unknown_names


def test_nothing_told_gives_the_defaults_of_the_table() -> None:
    told = {variable.name: variable.default for variable in VARIABLES}
    assert read_settings({}) == Settings() == read_settings(told)


def test_the_manual_has_a_row_for_each_variable() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "entrypoint.md").read_text()
    rows = [line for line in manual.splitlines() if line.startswith("| `RIG_")]
    wanted = [f"| `{one.name}` | {one.allowed} | {one.default or '-'} | {one.meaning} |" for one in VARIABLES]
    assert rows == wanted


def test_every_field_has_its_variable() -> None:
    assert sorted(v.field for v in VARIABLES if v.field is not None) == sorted(Settings._fields)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("RIG_CHECKS", "enforce", "checks", "enforce"),
        ("RIG_FILL", "0", "fill", False),
        ("RIG_CPU_RANKS", "4", "cpu_ranks", 4),
        ("RIG_GRACE", "2.5", "grace_s", 2.5),
        ("RIG_GRACE", "0", "grace_s", 0.0),
        ("RIG_ROOT", "/data/tree.txt", "root", "/data/tree.txt"),
        ("RIG_CHECKS", "", "checks", "report"),
    ],
)
def test_a_value_is_read(name: str, text: str, field: str, value: object) -> None:
    assert getattr(read_settings({name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RIG_QUIET", "yes"),
        ("RIG_CHECKS", "maybe"),
        ("RIG_CHECKS", "Report"),
        ("RIG_FILL", "2"),
        ("RIG_CPU_RANKS", "two"),
        ("RIG_CPU_RANKS", "0"),
        ("RIG_CPU_RANKS", "-1"),
        ("RIG_CPU_RANKS", "²"),
        ("RIG_GRACE", "nan"),
        ("RIG_GRACE", "inf"),
        ("RIG_GRACE", "-1"),
        ("RIG_ROOT", "tree.txt"),
        ("RIG_SLOTS", "eight"),
        ("RIG_SLOTS", "0"),
        ("RIG_SLOTS", "1025"),
        ("RIG_SLOTS", "9" * 5000),
        ("RIG_NODE_RANK", "first"),
        ("RIG_NODE_RANK", "-1"),
        ("RIG_NODE_RANK", "65536"),
        ("RIG_NNODES", "two"),
        ("RIG_NNODES", "0"),
        ("RIG_NNODES", "999999999"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(name: str, text: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({name: text})
    allowed = next(v.allowed for v in VARIABLES if v.name == name)
    shown = text if len(text) <= 80 else text[:77] + "..."
    assert str(error.value) == f"{name}={shown}: must be {allowed}"
    assert error.value.code == 64


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu-[01-", "brackets do not match"),
        ("a[3-1]", "'3-1' is not a range"),
        ("n[1-999999999]", "more than 65536 nodes"),
        ("a,a;reboot", "';'"),
        ("a,-oProxyCommand=x", "dash"),
        ("a,b,a", "'a' stands there twice"),
        (" ,, ", "names no node"),
    ],
)
def test_a_list_of_nodes_is_refused_with_its_part(text: str, why: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"RIG_NODES": text})
    assert str(error.value).startswith(f"RIG_NODES={text}: must be names and ranges") and why in str(error.value)


def test_what_was_sold_is_read_into_its_parts() -> None:
    assert read_settings({"RIG_EXPECT": "gpus=8, gdr=1"}).expected == Expected(gpus=8, gdr=True)


@pytest.mark.parametrize("text", ["gpus", "gpus=many", "gpu=8", "gdr=yes", "model=", "image=sha256:7"])
def test_what_cannot_be_sold_is_refused_with_its_word(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings({"RIG_EXPECT": f"hcas=8,{text}"})
    assert str(error.value).startswith(f"RIG_EXPECT=hcas=8,{text}: must be words") and f"({text}" in str(error.value)


def test_a_variable_of_the_job_that_is_right_is_left_to_the_reader_of_the_job() -> None:
    told = {"RIG_NODES": "gpu-[01-16]", "RIG_SLOTS": "8", "RIG_NODE_RANK": "0", "RIG_NNODES": "16", "RIG_QUIET": "1"}
    assert read_settings(told) == Settings()


@given(st.sampled_from([v.name for v in VARIABLES]), st.text(max_size=20))
def test_any_text_is_read_or_refused_by_name(name: str, text: str) -> None:
    try:
        read_settings({name: text})
    except SettingsError as error:
        assert name in str(error)


def test_a_strange_name_is_given_with_the_closest_one() -> None:
    assert unknown_names({"RIG_CPU_RANK": "2", "RIG_FILL": "1", "PATH": "/bin"}) == [("RIG_CPU_RANK", "RIG_CPU_RANKS")]
    assert unknown_names({"RIG_ZZZZ_QQQQ": "1"}) == [("RIG_ZZZZ_QQQQ", None)]
    assert unknown_names({"HOME": "/"}) == []
