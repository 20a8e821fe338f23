"""Every finding on a config has a test, and a config without a fault has no finding."""

from typing import Any

import pytest

from rig.dsconfig import copy_of
from rig.judge import Judgement, judge, judge_config, judge_config_text

NODE = {"nodes": 1, "gpus_per_node": 8, "deepspeed": "0.12.6"}
MICRO = {"train_micro_batch_size_per_gpu": 1}


def zero(**keys: Any) -> dict[str, Any]:
    return {**MICRO, "zero_optimization": keys}


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


# config, world, verdict, code, {dotted key: repaired value}
CASES: list[tuple[dict[str, Any], dict[str, Any], str, str, dict[str, Any]]] = [
    # auto
    (
        {"train_batch_size": 64, "gradient_accumulation_steps": "auto"},
        {},
        "fix",
        "auto-batch",
        {"gradient_accumulation_steps": 8},
    ),
    (MICRO | {"train_batch_size": "auto"}, {"hf_trainer": True}, "accept", "auto-batch", {"train_batch_size": "auto"}),
    (zero(stage="Auto"), {}, "fix", "auto-case", {"zero_optimization.stage": 3}),
    (zero(stage=2, reduce_bucket_size="AUTO"), {}, "fix", "auto-case", {}),
    ({"train_micro_batch_size_per_gpu": "Auto"}, {}, "fix", "auto-case", {"train_micro_batch_size_per_gpu": 1}),
    (
        MICRO | {"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}},
        {"sm": 70},
        "fix",
        "auto-dtype",
        {"fp16.enabled": True, "bf16.enabled": False},
    ),
    (
        MICRO | {"bf16": {"enabled": "auto"}},
        {"sm": 75},
        "fix",
        "auto-dtype",
        {"fp16.enabled": True, "bf16.enabled": False},
    ),
    (
        MICRO | {"fp16": {"enabled": "auto"}, "bf16": {"enabled": True}},
        {"sm": 80},
        "fix",
        "auto-dtype",
        {"fp16.enabled": False, "bf16.enabled": True},
    ),
    (MICRO | {"fp16": {"enabled": "auto"}}, {"gpus_per_node": 0}, "fix", "auto-dtype", {"fp16.enabled": False}),
    (MICRO | {"gradient_clipping": "auto"}, {"accelerate": True}, "accept", "auto-clip", {}),
    (
        MICRO | {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}}},
        {},
        "reject",
        "auto-optimizer",
        {},
    ),
    (
        zero(stage=3, stage3_prefetch_bucket_size="auto"),
        {"hf_trainer": True, "hidden": 4096},
        "accept",
        "auto-bucket",
        {},
    ),
    (zero(stage=3, stage3_prefetch_bucket_size="auto"), {"hf_trainer": True, "hidden": None}, "fix", "auto-bucket", {}),
    (
        zero(stage=3, prefetch_bucket_size="auto"),
        {"moe": True},
        "fix",
        "auto-bucket",
        {"zero_optimization.prefetch_bucket_size": 0},
    ),
    (zero(stage=2, overlap_comm="auto"), {}, "fix", "auto-bucket", {"zero_optimization.overlap_comm": False}),
    (zero(stage=3, sub_group_size="auto"), {}, "warn", "auto-bucket", {}),
    (zero(stage="auto"), {"hf_trainer": True}, "fix", "auto-stage", {"zero_optimization.stage": 3}),
    (zero(stage="auto"), {"model_params": 1e9, "gpu_mem_gb": 80}, "fix", "auto-stage", {"zero_optimization.stage": 1}),
    # batch
    (
        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4},
        {"dist_initialised": False},
        "reject",
        "world-one",
        {},
    ),
    ({"train_batch_size": 8.0}, {}, "fix", "batch-int", {"train_batch_size": 8}),
    ({"train_batch_size": "16"}, {}, "fix", "batch-int", {"train_batch_size": 16}),
    ({"train_micro_batch_size_per_gpu": 2.5}, {}, "reject", "batch-int", {}),
    ({"train_micro_batch_size_per_gpu": True}, {}, "reject", "batch-int", {}),
    ({"train_batch_size": 4}, {}, "reject", "batch-small", {}),
    ({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4}, {}, "reject", "batch-small", {}),
    ({"train_micro_batch_size_per_gpu": 0}, {}, "reject", "batch-small", {}),
    ({"train_batch_size": 12}, {}, "reject", "batch-identity", {}),
    ({"train_batch_size": 40, "train_micro_batch_size_per_gpu": 2}, {}, "reject", "batch-identity", {}),
    ({"gradient_accumulation_steps": 4}, {}, "fix", "batch-default", {"train_micro_batch_size_per_gpu": 1}),
    (
        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4},
        {},
        "accept",
        "",
        {},
    ),
    ({"elasticity": {"enabled": True}}, {}, "accept", "", {}),
    (MICRO, {"hf_trainer": True, "hf_per_device_batch": 2}, "reject", "batch-hf", {}),
    (MICRO, {"hf_trainer": True, "hf_per_device_batch": 1}, "accept", "", {}),
    # numbers
    (
        zero(stage=3, reduce_bucket_size="5e8"),
        {},
        "fix",
        "number-int",
        {"zero_optimization.reduce_bucket_size": 500_000_000},
    ),
    (zero(stage="3"), {}, "fix", "number-int", {"zero_optimization.stage": 3}),
    (zero(stage=3.0), {}, "accept", "number-ok", {"zero_optimization.stage": 3}),
    (zero(stage=3, stage3_max_live_parameters=float("inf")), {}, "fix", "number-int", {}),
    (zero(stage=3, reduce_bucket_size=float("inf")), {}, "reject", "bucket-memory", {}),
    (zero(stage=3, reduce_bucket_size="large"), {}, "reject", "bucket-type", {}),
    (zero(stage=3, sub_group_size=None), {}, "reject", "bucket-type", {}),
    (zero(stage=2, allgather_bucket_size=[1]), {}, "reject", "bucket-type", {}),
    (zero(stage=3, reduce_bucket_size=0), {}, "reject", "bucket-nonpositive", {}),
    (zero(stage=3, stage3_prefetch_bucket_size=-1), {}, "reject", "bucket-nonpositive", {}),
    (zero(stage=2, reduce_bucket_size=2 * 10**11), {}, "reject", "bucket-memory", {}),
    (zero(stage=2, reduce_bucket_size=500_000_000), {"gpu_mem_gb": 15}, "fix", "bucket-clamp-memory", {}),
    (zero(stage=2, reduce_bucket_size=500_000_000), {"gpu_mem_gb": 80}, "accept", "", {}),
    (
        zero(stage=2, reduce_bucket_size=500_000_000),
        {"model_params": 124_000_001},
        "fix",
        "bucket-clamp-model",
        {"zero_optimization.reduce_bucket_size": 124_000_002},
    ),
    (zero(stage=3, stage3_prefetch_bucket_size=0), {"moe": True}, "accept", "prefetch-off", {}),
    (
        zero(stage=3, stage3_prefetch_bucket_size=5),
        {"moe": True},
        "fix",
        "moe-prefetch",
        {"zero_optimization.stage3_max_reuse_distance": 0},
    ),
    (zero(stage=3, stage3_prefetch_bucket_size=1000), {"hidden": 4096, "gpu_mem_gb": 80}, "fix", "prefetch-min", {}),
    (zero(stage=3, stage3_param_persistence_threshold=10**9), {"hidden": 4096}, "warn", "persistence-unshards", {}),
    (
        zero(stage=1, allgather_bucket_size=3),
        {},
        "fix",
        "allgather-even",
        {"zero_optimization.allgather_bucket_size": 4},
    ),
    (zero(stage=3, allgather_bucket_size=3), {}, "accept", "", {}),
    (MICRO | {"gradient_clipping": float("inf")}, {}, "fix", "json-normalise", {"gradient_clipping": 0.0}),
    (MICRO | {"optimizer": {"type": "Adam", "params": {"lr": float("nan")}}}, {}, "reject", "json-normalise", {}),
    # semantics
    (MICRO | {"fp16": {"enabled": True}, "bf16": {"enabled": 1}}, {}, "reject", "dtype-both", {}),
    (MICRO | {"fp16": {"enabled": True}, "bf16": {"enabled": False}}, {}, "accept", "", {}),
    (zero(stage=2, reduce_scatter=False), {}, "fix", "zero2-full-buffer", {"zero_optimization.reduce_scatter": True}),
    (zero(stage=3, reduce_scatter=False), {}, "accept", "", {}),
    (
        zero(stage=3, zero_hpz_partition_size=4),
        {},
        "fix",
        "hpz-broken",
        {"zero_optimization.zero_hpz_partition_size": 1},
    ),
    (zero(stage=1, overlap_comm=True), {}, "fix", "zero12-overlap", {"zero_optimization.overlap_comm": False}),
    (zero(stage=2, overlap_comm=True), {"deepspeed": "0.14.3"}, "accept", "", {}),
    (zero(stage=2, reduce_scatter=False), {"deepspeed": "0.14.1"}, "accept", "", {}),
    (zero(stage=3, zero_hpz_partition_size=3), {}, "reject", "hpz-world", {}),
    (zero(stage=3, zero_hpz_partition_size=16), {"deepspeed": "0.14.0"}, "warn", "hpz-world", {}),
    (zero(stage=3, zero_hpz_partition_size=8), {"deepspeed": "0.13.5"}, "accept", "", {}),
    (zero(stage=3, zero_hpz_partition_size=8), {"allow_hpz": True}, "accept", "", {}),
    (MICRO | {"fp16": {"enabled": "false"}}, {}, "fix", "bool-string", {"fp16.enabled": False}),
    (MICRO | {"wall_clock_breakdown": "true"}, {}, "fix", "bool-string", {"wall_clock_breakdown": True}),
    (zero(stage=3, overlap_comm="maybe"), {}, "reject", "bool-string", {}),
    (MICRO | {"communication_data_type": "bf16"}, {}, "fix", "comm-dtype", {"communication_data_type": "bfp16"}),
    (MICRO | {"communication_data_type": "int8"}, {}, "reject", "comm-dtype", {}),
    (MICRO | {"communication_data_type": "FP32"}, {}, "accept", "", {}),
    (zero(stage=2, offload_optimizer={"device": "cpu", "ratio": 0.3}), {}, "warn", "key-ignored", {}),
    (zero(stage=2, stage3_max_live_parameters=5), {}, "warn", "key-ignored", {}),
    (
        MICRO | {"optimizer": {"type": "Adam"}},
        {"fused_adam": False},
        "fix",
        "torch-adam",
        {"optimizer.params.torch_adam": True},
    ),
    (
        MICRO | {"optimizer": {"type": "Adam", "params": {"max_grad_norm": 0.5}}},
        {},
        "fix",
        "key-migrate",
        {"gradient_clipping": 0.5},
    ),
    (
        MICRO | {"gradient_clipping": 1, "optimizer": {"type": "Adam", "params": {"max_grad_norm": 0.5}}},
        {},
        "reject",
        "key-migrate",
        {},
    ),
    # keys
    (MICRO | {"zero_optimization": True}, {}, "fix", "key-migrate", {"zero_optimization": {"stage": 1}}),
    (MICRO | {"zero_optimization": 3}, {}, "reject", "section-type", {}),
    (zero(stage=3, offload_param=True), {}, "reject", "section-type", {}),
    (zero(stage=3, offload_optimizer={"device": "gpu"}), {}, "reject", "offload-device", {}),
    (MICRO | {"optimizer": {"type": "Adam", "params": 3}}, {}, "reject", "section-type", {}),
    (MICRO | {"communication_data_type": "auto"}, {}, "fix", "comm-dtype", {}),
    (MICRO | {"wandb": None}, {}, "reject", "section-type", {}),
    (MICRO | {"optimizer": {"type": 7}}, {}, "reject", "section-type", {}),
    (zero(stage=3, contiguous_gradients=None), {}, "reject", "bool-string", {}),
    (zero(stage=3, overlap_comm=None), {}, "accept", "", {}),
    (zero(stage=4), {}, "reject", "zero-stage", {}),
    (zero(reduce_bucket_size=5), {}, "warn", "zero-stage", {}),
    (
        zero(stage=2, cpu_offload=True),
        {},
        "fix",
        "key-migrate",
        {"zero_optimization.offload_optimizer": {"device": "cpu"}},
    ),
    (
        zero(stage=3, reduce_buckets_size=7_000_000),
        {},
        "fix",
        "key-migrate",
        {"zero_optimization.reduce_bucket_size": 7_000_000},
    ),
    (
        zero(stage=3, stage3_gather_fp16_weights_on_model_save=True),
        {},
        "fix",
        "key-migrate",
        {"zero_optimization.stage3_gather_16bit_weights_on_model_save": True},
    ),
    (zero(stage=3, colour="red"), {}, "reject", "key-unknown", {}),
    (zero(stage=3, prefetch_bucket_size=1, stage3_prefetch_bucket_size=1), {}, "reject", "key-unknown", {}),
    (
        zero(stage=3, offload_param={"device": "cpu", "pin_memmory": True}),
        {},
        "fix",
        "key-migrate",
        {"zero_optimization.offload_param.pin_memory": True},
    ),
    (zero(stage=3, log_trace_cache_warnings=True), {}, "reject", "key-version", {}),
    (zero(stage=3, offload_optimizer={"device": "cpu", "super_offload": True}), {}, "reject", "key-version", {}),
    (MICRO | {"compile": {}}, {}, "warn", "key-version", {}),
    (MICRO | {"_comment": "ours"}, {}, "warn", "key-ignored", {}),
    (MICRO | {"overlap_comm": True}, {}, "warn", "key-ignored", {}),
    (MICRO | {"fp16": {"enable": True}}, {}, "reject", "key-unknown", {}),
    (MICRO | {"bfloat16": {"enabled": True}}, {}, "fix", "key-migrate", {"bf16": {"enabled": True}}),
]


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
