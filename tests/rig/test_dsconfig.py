"""Reading, filling and writing DeepSpeed configs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rig.dsconfig import (
    FILLABLE,
    Change,
    ConfigError,
    assemble,
    copy_of,
    fill,
    get,
    parse_config,
    render,
    stage_of,
)
from rig.dstext import duplicate_line, tokens
from rig.plan import Setting

PLANNED = {
    f"zero_optimization.{key}": Setting(key, value, "detection", "why")
    for key, value in dict.fromkeys(FILLABLE, 1024).items()
    if not isinstance(value, bool)
} | {
    "zero_optimization.overlap_comm": Setting("overlap_comm", True, "detection", "why"),
    "optimizer.params.torch_adam": Setting("torch_adam", True, "detection", "no op"),
}


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ('{"a": 1}', {"a": 1}),
        ("{\n // x\n a: 1,\n}", {"a": 1}),
        ("\ufeff{\"a\": 'b'}", {"a": "b"}),
        ("", {}),
        ("a: 1\nb: x", {"a": 1, "b": "x"}),
        ('{"fp16": {"enabled": True\n}}', {"fp16": {"enabled": "True"}}),
    ],
)
def test_a_config_is_read_as_deepspeed_reads_it(text: str, config: dict[str, Any]) -> None:
    assert parse_config(text, "ds.json") == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"zero_optimization": {"stage": 2,\n "stage": 3}}', "ds.json:2: duplicate key 'stage'"),
        ('{"a": {"stage": 1},\n "b": {"stage": 1,\n stage: 2\n}}', "ds.json:3: duplicate key 'stage'"),
        ("[1]", "ds.json:1: the config must be an object {...}, not a list"),
        ("7", "ds.json:1: the config must be an object {...}, not a number"),
        ("[" * 200_000, "ds.json: nested too deeply"),
        ('{"a":' * 500 + "1" + "}" * 500, "ds.json: nested too deeply"),
    ],
)
def test_what_deepspeed_refuses_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "ds.json")
    assert str(caught.value) == said
    assert caught.value.name == "ds.json"


@pytest.mark.parametrize(("text", "line"), [('{\n"a":\n tru', 3), ('{"a": 1}}', 1), ('{"a": Infinity}', 1)])
def test_a_broken_file_has_a_line(text: str, line: int) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "ds.json")
    assert caught.value.line == line
    assert caught.value.message.startswith("neither JSON nor HJSON: ")


def test_strict_json_does_not_load_the_hjson_package() -> None:
    program = (
        "import sys; from rig.dsconfig import parse_config; parse_config('{\"a\": 1}', 'x'); "
        "sys.exit('hjson' in sys.modules or 'typing' in sys.modules)"
    )
    root = Path(__file__).parents[2]
    assert (
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {program}"]
        ).returncode
        == 0
    )


def test_only_absent_and_auto_network_keys_are_filled_in_a_copy() -> None:
    config = {
        "train_micro_batch_size_per_gpu": "auto",
        "zero_optimization": {"stage": 3, "reduce_bucket_size": 7, "stage3_prefetch_bucket_size": "auto"},
    }
    before = copy_of(config)
    filled, changes = fill(config, PLANNED)
    assert config == before
    assert filled["train_micro_batch_size_per_gpu"] == "auto"
    assert filled["zero_optimization"]["reduce_bucket_size"] == 7
    assert filled["zero_optimization"]["stage3_prefetch_bucket_size"] == 1024
    assert Change("zero_optimization.stage3_prefetch_bucket_size", "auto", 1024, "why") in changes
    assert Change("zero_optimization.overlap_comm", None, True, "why") in changes
    assert "allgather_bucket_size" not in filled["zero_optimization"]
    assert fill(filled, PLANNED) == (filled, ())


@pytest.mark.parametrize("stage", [1, 2])
def test_overlap_is_never_switched_on_below_stage_3(stage: int) -> None:
    filled, _ = fill({"zero_optimization": {"stage": stage}}, PLANNED)
    zero = filled["zero_optimization"]
    assert zero["overlap_comm"] is False
    assert not any(key.startswith("stage3_") for key in zero)


def test_a_key_in_its_short_spelling_is_the_users() -> None:
    config = {"zero_optimization": {"stage": 3, "prefetch_bucket_size": 5, "max_live_parameters": "auto"}}
    zero = fill(config, PLANNED)[0]["zero_optimization"]
    assert zero["prefetch_bucket_size"] == 5 and "stage3_prefetch_bucket_size" not in zero
    assert zero["max_live_parameters"] == 1024 and "stage3_max_live_parameters" not in zero


@pytest.mark.parametrize("zero", [{}, {"stage": 0}, {"stage": "auto"}, True, None, [], "x"])
def test_without_a_stage_nothing_is_filled(zero: Any) -> None:
    config = {"zero_optimization": zero}
    assert fill(config, PLANNED) == (config, ())


def test_torch_adam_goes_only_into_an_adam_that_does_not_name_it() -> None:
    filled, changes = fill({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}, PLANNED)
    assert filled["optimizer"]["params"] == {"lr": 1e-4, "torch_adam": True}
    assert [change.key for change in changes] == ["optimizer.params.torch_adam"]
    for kept in ({"type": "Lamb"}, {"type": "Adam", "params": {"torch_adam": False}}, {"params": {}}):
        assert fill({"optimizer": kept}, PLANNED) == ({"optimizer": kept}, ())


@pytest.mark.parametrize(
    ("zero", "stage"), [(True, 1), (False, 0), ({"stage": 3.0}, 3), ({"stage": "3"}, 0), ({"stage": 7}, 0), ([], 0)]
)
def test_the_stage_is_the_one_that_runs(zero: Any, stage: int) -> None:
    assert stage_of({"zero_optimization": zero}) == stage


def test_the_written_file_is_strict_json_with_integers_and_stable() -> None:
    config = {"train_batch_size": 8.0, "zero_optimization": {"reduce_bucket_size": 5e8}, "gradient_clipping": 1.0}
    text = render(config)
    assert '"reduce_bucket_size": 500000000' in text and '"gradient_clipping": 1.0' in text
    assert text.endswith("}\n") and render(json.loads(text)) == text
    assert parse_config(text, "x") == json.loads(text)
    with pytest.raises(ConfigError, match="JSON"):
        render({"a": float("inf")})


def test_dotted_names_become_sections() -> None:
    planned = {"a.b.c": Setting("a.b.c", 1, "default", ""), "a.d": Setting("a.d", [2], "default", "")}
    assert assemble(planned) == {"a": {"b": {"c": 1}, "d": [2]}}
    assert get(assemble(planned), "a.b.c") == 1 and get({}, "a.b") is None


def test_words_and_strings_are_told_apart_with_their_lines() -> None:
    text = "{ # True\n 'a': True, /* x\n */ b: \"tr\\\"ue\",\n c: '''x\ny''' }"
    found = [(token.kind, token.text, token.line) for token in tokens(text) if token.kind in ("string", "word")]
    assert found == [
        ("string", "a", 2),
        ("word", "True", 2),
        ("word", "b", 3),
        ("string", 'tr\\"ue', 3),
        ("word", "c", 4),
        ("string", "x\ny", 4),
    ]
    for token in tokens(text):
        assert token.text in text[token.start : token.stop]
    assert duplicate_line("a: 1\nb: {a: 1}\na: 2", "a") == 3
    assert duplicate_line("a: 1", "a") is None
