"""Whatever the judge lets pass, the image's own DeepSpeed loads; a batch that it refuses, DeepSpeed refuses too."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rig.dsconfig import copy_of, render
from rig.judge import judge_config
from rig.plan.deepspeed import generated, plan_deepspeed
from rig.plan.ds_inputs import DsInputs
from rig.plan.ds_link import Links
from rig.plan.ds_model import Model
from rig.plan.ds_versions import ZERO_KEYS

pytestmark = pytest.mark.container

Mount = Callable[..., list[str]]
WORLD = {"nodes": 2, "gpus_per_node": 8, "gpu_mem_gb": 80, "sm": 80}
RANKS = 16
LOADER = f"""
import json, logging, sys
import deepspeed.runtime.config as config
logging.disable(logging.CRITICAL)
config.dist.get_rank = lambda *given, **named: 0
config.dist.get_world_size = lambda *given, **named: {RANKS}
told = []
for text in json.load(open("cases.json")):
    try:
        loaded = config.DeepSpeedConfig(json.loads(text))
        told.append(loaded.train_batch_size)
    except Exception as error:
        told.append(f"{{type(error).__name__}}: {{error}}")
print("RESULT " + json.dumps(told))
"""
CASES = sorted((Path(__file__).parent.parent / "ds_cases").glob("*.json"))
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, 7, -1, .5, 5e8, 1e30, "auto", "Auto", "true", "5e8", "cpu", [], {"device": "cpu"}
)  # fmt: skip


def loaded(docker: Any, workspace: Mount, configs: list[dict[str, Any]]) -> list[Any]:
    """The train_batch_size that DeepSpeed made of each config, or the error as a text."""
    options = workspace(load__py=LOADER, cases__json=json.dumps([render(config) for config in configs]))
    done = docker.run("python", "load.py", options=options)
    (line,) = [line for line in done.out.splitlines() if line.startswith("RESULT ")] or [f"RESULT {done.err[-800:]}"]
    told = json.loads(line.removeprefix("RESULT "))
    assert isinstance(told, list) and len(told) == len(configs)
    return told


def known_configs() -> list[dict[str, Any]]:
    cases = [json.loads(path.read_text()) for path in CASES]
    return [case["input"] for case in cases if case["kind"] == "ds_config"]


def mutated(count: int) -> list[dict[str, Any]]:
    """Known configs with one to three keys of the top level or of zero_optimization changed, the same every time."""
    chance, base, found = random.Random(126), known_configs(), []
    for _ in range(count):
        config = copy_of(chance.choice(base))
        for _ in range(chance.randint(1, 3)):
            zero = config.get("zero_optimization")
            if isinstance(zero, dict) and chance.random() < 0.8:
                zero[chance.choice(sorted(ZERO_KEYS))] = copy_of(chance.choice(VALUES))
            else:
                key = chance.choice(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping", "fp16"))
                config[key] = copy_of(chance.choice(VALUES))
        found.append(config)
    return found


def test_what_is_let_pass_loads(docker: Any, workspace: Mount) -> None:
    judged = [judge_config(config, WORLD) for config in (*known_configs(), *mutated(3000))]
    passed = [told.output for told in judged if told.verdict != "reject"]
    assert len(passed) > 300
    wrong = [
        (config, said)
        for config, said in zip(passed, loaded(docker, workspace, passed), strict=True)
        if isinstance(said, str)
    ]
    assert wrong == []


def test_every_generated_config_loads(docker: Any, workspace: Mount) -> None:
    model = Model(4096, 7_000_000_000, 32)
    plans = [
        plan_deepspeed(
            DsInputs(
                Links(2, 8, gbps, nics, transport),
                known,
                memory,
                tokens=2048,
                stage=stage,
                accelerator=accelerator,
                bf16=bf16,
            )
        )
        for gbps, nics, transport in ((None, 1, "tcp"), (10, 1, "tcp"), (200, 8, "rdma"))
        for known in (Model(), model, model._replace(dynamic=True))
        for memory in (None, 15_000_000_000, 80_000_000_000)
        for stage in (None, 1, 2, 3)
        for accelerator, bf16 in (("cuda", True), ("cuda", False), ("cuda", None), ("cpu", False))
    ]
    configs = [generated(plan) for plan in plans]
    assert loaded(docker, workspace, configs) == [RANKS] * len(configs)


def test_a_batch_that_is_refused_is_refused_by_deepspeed(docker: Any, workspace: Mount) -> None:
    configs: list[dict[str, Any]] = [
        {"train_batch_size": train, "train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": gas}
        for train in (8, 16, 32, 40, 64)
        for micro in (1, 2, 3, None)
        for gas in (1, 2, None)
    ]
    given = [{key: value for key, value in config.items() if value is not None} for config in configs]
    verdicts = ["reject" if isinstance(said, str) else "accept" for said in loaded(docker, workspace, given)]
    assert [judge_config(config, WORLD).verdict for config in given] == verdicts
