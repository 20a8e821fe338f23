"""Real DeepSpeed and real DDP in the image, on CPU ranks; and every generated config, loaded by DeepSpeed itself."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rig.captured import Captured
from rig.detect import detect
from rig.job import World
from rig.plan.compose import Asked, make_plan
from rig.plan.ds_model import parse_model

pytestmark = pytest.mark.container

MACHINES = Path(__file__).resolve().parent.parent / "machines"
MODELS = ("", "hidden=4096,params=7e9,layers=32", "hidden=12288,params=175e9,layers=96", "hidden=2048,moe=1,layers=24")


def losses(out: str) -> tuple[float, float]:
    """First and last loss of the line that ends every example."""
    [line] = [line for line in out.splitlines() if line.startswith("done: loss ")]
    first, _, last = line.split()[2:5]
    return float(first), float(last)


def test_pretraining_on_two_ranks_learns_with_the_generated_config(docker: Any) -> None:
    done = docker.run("/opt/rig/examples/pretrain.py", "--steps", "100", seconds=300)
    assert done.code == 0, done.err
    first, last = losses(done.out)
    assert first > 5 and last < 3, done.out  # examples/README.md: 5.68 to 2.66
    assert "2 ranks" in done.err


def test_the_demo_s_command_line_starts_here() -> None:
    """`make demo` is this, with more steps: the flags must suit the engine that this host has."""
    command = [sys.executable, "-m", "factory", "run", "--", "/opt/rig/examples/pretrain.py", "--steps", "20"]
    done = subprocess.run(command, cwd=MACHINES.parent.parent, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert losses(done.stdout)[1] < 5


@pytest.mark.parametrize(
    "words", [["/opt/rig/examples/ddp.py"], ["python", "/opt/rig/examples/ddp.py"]], ids=["script", "python"]
)
def test_plain_ddp_works_too(docker: Any, words: list[str]) -> None:
    done = docker.run(*words, seconds=180)
    assert done.code == 0, done.err
    first, last = losses(done.out)
    assert first > 1.5 and last < 0.2, done.out


def test_zero_over_gloo_is_one_rank_s_training(docker: Any, workspace: Callable[..., list[str]]) -> None:
    """Stages 0 to 3, fp32 and fp16, accumulation, checkpoints: two ranks' losses equal one's and plain torch's."""
    done = docker.run("python", "zero_equivalence.py", options=workspace("zero_equivalence.py"), seconds=600)
    assert done.code == 0, done.out[-3000:] + done.err[-3000:]
    result = json.loads(done.out[done.out.index("{\n") :])
    assert {name.split("-")[0] for name in result["cases"]} >= {"zero2", "zero3"}


def test_a_training_on_cpu_ends_as_it_should(docker: Any, workspace: Callable[..., list[str]]) -> None:
    """Without the pause of the patch about 1 exit in 60 aborts: 60 show it in two runs of three."""
    done = docker.run("python", "clean_exits.py", "60", options=workspace("clean_exits.py"), seconds=300)
    [line] = [line for line in done.out.splitlines() if line.startswith("RESULT ")]
    assert json.loads(line.removeprefix("RESULT ")) == {"0": 60}


def test_every_generated_config_loads_as_it_was_meant(
    docker: Any, workspace: Callable[..., list[str]], tmp_path: Path
) -> None:
    cases = []
    for tree in sorted(MACHINES.glob("*/tree.txt")):
        machine = detect(Captured(str(tree)))
        for model in MODELS:
            asked = Asked(model=parse_model(model))
            config = make_plan(machine, World(), asked).ds_config()
            ranks = len(machine.gpus) or 2
            cases.append({"name": f"{tree.parent.name} {model}", "ranks": ranks, "config": config})
    options = workspace("load_configs.py", cases__json=json.dumps(cases))
    done = docker.run("python", "load_configs.py", "cases.json", options=options)
    assert done.code == 0, done.err
    [line] = [line for line in done.out.splitlines() if line.startswith("RESULT ")]
    understood = json.loads(line.removeprefix("RESULT "))
    for case in cases:
        got, zero = understood[case["name"]], case["config"]["zero_optimization"]
        for key in got.keys() & zero.keys():
            assert got[key] == zero[key] and type(got[key]) is type(zero[key]), (case["name"], key)
        assert got["bf16"] == case["config"].get("bf16", {}).get("enabled", False)
        assert got["train_batch_size"] == case["ranks"] * case["config"]["train_micro_batch_size_per_gpu"]
