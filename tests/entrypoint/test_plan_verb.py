"""`rig plan` prints what boot would do, with reasons, for this machine or one on paper."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]
RIG = TOP / "entrypoint" / "rig"
H100 = str(TOP / "tests" / "machines" / "hgx-h100-ib" / "tree.txt")


def plan(*words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    told = {"PATH": "/usr/bin:/bin", "HOME": "/", **environ}
    return subprocess.run([str(RIG), "plan", *words], env=told, capture_output=True, text=True, timeout=60)


def test_a_machine_on_paper_gets_its_plan() -> None:
    told = json.loads(plan("--json", "--root", H100).stdout)
    values = {
        line["name"]: line["value"] for part in ("ranks", "environment", "nccl", "ds_config") for line in told[part]
    }
    assert values["local_ranks"] == 8
    assert values["NCCL_IB_HCA"].startswith("=mlx5_0,")
    assert values["zero_optimization.stage"] == 3
    assert "DS_ACCELERATOR" not in values


def test_each_line_has_its_source_and_reason() -> None:
    out = plan("--explain", f"--root={H100}").stdout
    assert "8 x NVIDIA H100 80GB HBM3" in out
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["local_ranks"])
    assert lines[at + 1].strip() == "detection: one for each GPU"


def test_what_the_generated_config_leaves_out_is_said() -> None:
    lines = plan("--root", H100).stdout.splitlines()
    left = [line.split()[0] for line in lines if "the generated one leaves it out" in line]
    assert left == ["zero_optimization.allgather_bucket_size"]


def test_the_user_s_variables_are_part_of_it() -> None:
    told = json.loads(plan("--json", "--root", H100, CUDA_VISIBLE_DEVICES="0,1", NCCL_IB_HCA="=mlx5_1").stdout)
    assert told["ranks"][0]["value"] == 2
    assert "NCCL_IB_HCA" not in [line["name"] for line in told["nccl"]]


def test_nothing_is_written(here: Any) -> None:
    assert here.boot("rig", "plan").code == 0
    assert not here.state.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--explian"], "rig plan does not know '--explian'"),
        (["--root"], "rig plan does not know '--root'"),
        (["--root", "/no/such/file"], "/no/such/file does not exist"),
        (["--root", str(RIG)], "RIG_ROOT="),
    ],
)
def test_wrong_words_are_one_line_and_64(words: list[str], says: str) -> None:
    done = plan(*words)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith(f"rig: error: {says}")


def test_a_model_that_cannot_be_read_is_64() -> None:
    assert plan("--root", H100, RIG_MODEL="hidden=x").returncode == 64
    assert plan("--root", H100, RIG_MODEL="/no/such/config.json").returncode == 64
    sized = json.loads(plan("--json", "--root", H100, RIG_MODEL="hidden=4096,params=7e9,layers=32").stdout)
    assert sized["ds_config"] != json.loads(plan("--json", "--root", H100).stdout)["ds_config"]


def test_help_names_the_words() -> None:
    done = plan("--help")
    assert done.returncode == 0
    assert "--explain" in done.stdout


def test_rig_alone_lists_its_verbs() -> None:
    done = subprocess.run([str(RIG)], capture_output=True, text=True)
    assert done.returncode == 64
    assert "  plan " in done.stderr
    helped = subprocess.run([str(RIG), "--help"], capture_output=True, text=True)
    assert (helped.returncode, helped.stderr) == (0, "")
    near = subprocess.run([str(RIG), "palan"], capture_output=True, text=True)
    assert "did you mean plan?" in near.stderr


def test_every_verb_that_is_listed_answers() -> None:
    listed = subprocess.run([str(RIG), "--help"], capture_output=True, text=True).stdout.splitlines()
    verbs = [line.split()[0] for line in listed if line.startswith("  ")]
    assert "boot" in verbs and len(verbs) >= 4
    for verb in verbs:
        assert (TOP / "entrypoint" / f"{verb}.py").exists(), verb
