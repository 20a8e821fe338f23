"""Each file that rig writes has the form that its reader expects."""

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import Result
from rig import emit
from rig.finding import Finding
from rig.machine import Gpu, Machine
from rig.plan import Plan, Setting

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.integers(0, 4))
def test_json_reads_back_as_what_was_written(value: Any, depth: int) -> None:
    assert json.loads(emit.to_json(value, depth)) == value


def data(value: Any) -> Any:
    """What a record should read as."""
    if hasattr(value, "_asdict"):
        return {name: data(item) for name, item in value._asdict().items()}
    return [data(item) for item in value] if isinstance(value, tuple) else value


def test_records_become_objects_of_their_fields() -> None:
    machine = Machine(gpus=(Gpu(0, capability=(9, 0)),))
    told = json.loads(emit.facts_json(machine))
    assert told == data(machine)
    assert told["gpus"][0]["capability"] == [9, 0]


def test_what_json_cannot_hold_is_null_and_the_rest_is_refused() -> None:
    assert emit.to_json([float("nan"), float("inf")], 0) == "[null, null]"
    with pytest.raises(TypeError):
        emit.to_json({"a": object()})


def test_the_outer_levels_get_a_line_each() -> None:
    assert emit.to_json({"a": {"b": [1, 2]}, "c": []}, 2) == '{\n  "a": {\n    "b": [1, 2]\n  },\n  "c": []\n}'


def test_a_config_is_strict_json_with_a_key_a_line() -> None:
    config = {"zero_optimization": {"stage": 3, "reduce_bucket_size": 5 * 10**8}, "gradient_clipping": 1.0}
    text = emit.ds_config(config)
    assert json.loads(text) == config
    assert '    "reduce_bucket_size": 500000000\n' in text


def test_nccl_conf_has_no_equals_sign_but_that_of_its_variables() -> None:
    settings = [
        Setting("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "detection", "a = b"),
        Setting("NCCL_IB_GID_INDEX", 3, "d", "r"),
    ]
    lines = emit.nccl_conf(settings).splitlines()
    assert lines[0] == emit.NCCL_MARK and "=" not in lines[0]
    assert lines[1:] == ["NCCL_IB_HCA==mlx5_0,mlx5_1", "NCCL_IB_GID_INDEX=3"]
    assert emit.nccl_conf([]) == ""


def test_a_hostfile_names_slots() -> None:
    assert emit.hostfile([("gpu-01", 8), ("gpu-02", 4)]) == "gpu-01 slots=8\ngpu-02 slots=4\n"


def sourced(text: str, **environ: str) -> dict[str, str]:
    """The environment after a POSIX shell has sourced `text`."""
    told = subprocess.run(["/bin/sh", "-c", f"{text}\nenv -0"], env=environ, capture_output=True, check=True).stdout
    return dict(part.split("=", 1) for part in told.decode("utf-8", "surrogateescape").split("\0") if part)


SHELL_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(SHELL_TEXT)
def test_any_value_comes_through_a_shell_unchanged(value: str) -> None:
    assert sourced(emit.env([Setting("X", value, "default", "r")], {}))["X"] == value


def test_a_variable_that_the_shell_has_is_left_alone() -> None:
    text = emit.env([Setting("NCCL_DEBUG", "WARN", "default", "r")], {})
    assert sourced(text, NCCL_DEBUG="INFO")["NCCL_DEBUG"] == "INFO"
    assert sourced(text, NCCL_DEBUG="")["NCCL_DEBUG"] == ""
    assert sourced(text)["NCCL_DEBUG"] == "WARN"


def test_training_variables_of_the_user_are_carried_and_secrets_are_not() -> None:
    told = {"NCCL_DEBUG": "INFO", "HF_HOME": "/data", "HF_TOKEN": "x", "NCCL_AUTH": "x", "RIG_KEY": "x", "EDITOR": "vi"}
    text = emit.env([], {**told, "https_proxy": "http://proxy:3128", "http_proxy": "http://me:pw@proxy", "NCCL_%": "x"})
    names = {line.split("export ")[1].split("=")[0] for line in text.splitlines()}
    assert names == {"NCCL_DEBUG", "HF_HOME", "https_proxy"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_proxy", "me:secret@proxy:3128"),
        ("HTTPS_PROXY", "//me:secret@proxy"),
        ("ALL_PROXY", "socks5://me:secret@proxy"),
        ("HF_token", "x"),
        ("HF_HUB_PAT", "x"),
        ("hf_pat", "x"),
        ("RIG_REGISTRY_PASS", "x"),
        ("NCCL_PWD", "x"),
        ("TORCH_API_KEY", "x"),
        ("HF_WHATEVER", "hf_abcdefghij"),
        ("HF_ENDPOINT", "https://host/path?sig=abc"),
    ],
)
def test_what_grants_access_is_not_written(name: str, value: str) -> None:
    assert emit.env([], {name: value}) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "/data"),
        ("LD_LIBRARY_PATH", "/opt/x@1/lib"),
        ("NCCL_IB_PKEY", "0x7fff"),
        ("http_proxy", "proxy:3128"),
        ("HF_ENDPOINT", "https://host/path"),
        ("HF_HOME", "/data/hf"),
    ],
)
def test_what_grants_nothing_is_carried(name: str, value: str) -> None:
    assert f"export {name}='{value}'" in emit.env([], {name: value})


def test_plan_and_checks_read_back() -> None:
    finding = Finding("x", "warn", "host", "text", got=3)
    plan = Plan(environment=(Setting("A", 1, "default", "because"),), findings=(finding,))
    assert json.loads(emit.plan_json(plan)) == data(plan)
    told = json.loads(emit.checks_json([finding], [Result("a", "limits", "pass")]))
    assert told == {"level": "boot", "findings": [data(finding)], "outcomes": {"a": "pass"}}
