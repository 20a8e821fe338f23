"""Every finding on a config has a test, and a config without a fault has no finding."""

from typing import Any

import pytest

from rig.dsconfig import copy_of
from rig.judge import Judgement, judge, judge_config, judge_config_text
from tests.rig.dsconfig_cases import CASES, MICRO, NODE, zero


def judged(config: dict[str, Any], **world: Any) -> Judgement:
    before = copy_of(config)
    told = judge_config(config, NODE | world, "ds.json")
    assert config == before
    return told


GOOD = {
    **MICRO,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "betas": [0.9, 0.95]}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
    "zero_optimization": {
        "stage": 3,
        "overlap_comm": True,
        "contiguous_gradients": True,
        "reduce_scatter": True,
        "reduce_bucket_size": 50_000_000,
        "stage3_prefetch_bucket_size": 100_000_000,
        "stage3_param_persistence_threshold": 40960,
        "sub_group_size": 1_000_000_000,
        "offload_optimizer": {"device": "none"},
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "activation_checkpointing": {"partition_activations": False},
    "wall_clock_breakdown": False,
    "steps_per_print": 10,
}


def test_a_sound_config_is_accepted_without_a_word() -> None:
    told = judged(GOOD, hidden=4096, layers=32, model_params=7_000_000_000, gpu_mem_gb=80)
    assert (told.verdict, told.findings, told.changes, told.output) == ("accept", (), (), GOOD)


@pytest.mark.parametrize(("config", "world", "verdict", "code", "output"), CASES)
def test_a_config_is_judged(
    config: dict[str, Any], world: dict[str, Any], verdict: str, code: str, output: dict[str, Any]
) -> None:
    told = judged(config, **world)
    assert told.verdict == verdict, told.findings
    assert code in (told.codes or ("",)), told.findings
    for dotted, want in output.items():
        got: Any = told.output
        for part in dotted.split("."):
            got = got[part]
        assert got == want and type(got) is type(want), (dotted, told.output)


@pytest.mark.parametrize(("config", "world"), [case[:2] for case in CASES if case[2] == "fix"])
def test_a_repaired_config_needs_no_second_repair(config: dict[str, Any], world: dict[str, Any]) -> None:
    again = judge_config(judged(config, **world).output, NODE | world)
    assert again.verdict in ("accept", "warn"), again.findings


def test_findings_name_file_key_and_remedy() -> None:
    (finding,) = judged(zero(stage=2, overlap_comm=True)).findings
    assert finding.subject == "ds.json: zero_optimization.overlap_comm"
    assert (finding.outcome, finding.domain, finding.id) == ("warn", "user", "zero12-overlap")
    assert finding.fix


def test_changes_list_what_differs_with_the_reason() -> None:
    told = judged(zero(stage=2, overlap_comm=True, reduce_scatter=False))
    assert [(change.key, change.before, change.after) for change in told.changes] == [
        ("zero_optimization.overlap_comm", True, False),
        ("zero_optimization.reduce_scatter", False, True),
    ]
    assert all(change.reason for change in told.changes)


# text, verdict, code
TEXTS = [
    ('{"train_micro_batch_size_per_gpu": 1}', "accept", ""),
    ('{"train_micro_batch_size_per_gpu": 1,}', "fix", "json-normalise"),
    ("train_micro_batch_size_per_gpu: 1", "fix", "json-normalise"),
    ("{'train_micro_batch_size_per_gpu': 1}", "fix", "json-normalise"),
    ('{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": Infinity}', "fix", "json-normalise"),
    ('{"train_micro_batch_size_per_gpu": NaN}', "reject", "json-normalise"),
    ('{"train_batch_size": 8, "fp16": {"enabled": None}}', "reject", "json-literal"),
    ('{"train_batch_size": {{ batch }}}', "reject", "json-placeholder"),
    ('{"train_batch_size": ${BATCH}}', "reject", "json-placeholder"),
    ('{"train_batch_size": "<BATCH>"}', "reject", "json-placeholder"),
    ('{"train_batch_size": 8', "reject", "json-syntax"),
    ("{\n train_batch_size: auto,\n}", "reject", "json-syntax"),
    ("", "reject", "json-syntax"),
    ("[]", "reject", "json-syntax"),
    ('{"a": 1, "a": 1}', "reject", "json-duplicate"),
    ('{"train_micro_batch_size_per_gpu": 1, "wandb": {"project": "True"}}', "accept", ""),
]


@pytest.mark.parametrize(("text", "verdict", "code"), TEXTS)
def test_a_text_is_judged(text: str, verdict: str, code: str) -> None:
    told = judge_config_text(text, NODE, "ds.json")
    assert told.verdict == verdict, told.findings
    assert code in (told.codes or ("",)), told.findings
    assert all("ds.json" in finding.subject for finding in told.findings)


def test_a_finding_on_a_text_has_its_line() -> None:
    told = judge_config_text('{\n "train_batch_size": 8,\n "fp16": {"enabled": True}\n}', NODE, "ds.json")
    assert told.findings[0].subject == "ds.json:3"


def test_a_kind_that_does_not_exist_or_a_wrong_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        judge("colour", {}, {})
    with pytest.raises(TypeError):
        judge("ds_config", "x", {})
    with pytest.raises(TypeError):
        judge("hostfile", {}, {})
