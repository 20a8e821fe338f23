"""What the user says about the job and cannot be ends a boot, or is believed: nothing is reported and then ignored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RIG = Path(__file__).parents[2] / "entrypoint" / "rig"


def boot(folder: Path, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """A boot over an empty tree: no GPU, no HCA."""
    (folder / "tree" / "proc").mkdir(parents=True, exist_ok=True)
    told = {
        "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin",
        "HOME": str(folder),
        "RIG_ROOT": str(folder / "tree"),
        "RIG_STATE": str(folder / "state"),
        **environ,
    }
    return subprocess.run([str(RIG), "boot", "--", *words], env=told, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("environ", "code", "says"),
    [
        ({"RIG_NODES": "gpu-[01-"}, 64, "RIG_NODES=gpu-[01-"),
        ({"RIG_SLOTS": "eight"}, 64, "RIG_SLOTS=eight"),
        ({"RIG_NODE_RANK": "first"}, 64, "RIG_NODE_RANK=first"),
        ({"RIG_NNODES": "two"}, 64, "RIG_NNODES=two"),
        ({"RIG_HOSTFILE": "/no/such"}, 78, "RIG_HOSTFILE: /no/such cannot be read"),
        ({"NNODES": "999999999"}, 78, "NNODES has 999999999 nodes"),
        ({"NNODES": "two"}, 78, "NNODES: 'two'"),
        ({"SLURM_JOB_NODELIST": "n[1-"}, 78, "SLURM_JOB_NODELIST"),
    ],
)
def test_a_job_that_cannot_be_read_starts_nothing(
    tmp_path: Path, environ: dict[str, str], code: int, says: str
) -> None:
    done = boot(tmp_path, "echo", "started", RIG_CHECKS="off", **environ)
    assert (done.returncode, done.stdout) == (code, "")
    assert f"rig: error: {says}" in done.stderr


def test_a_job_that_can_be_read_starts(tmp_path: Path) -> None:
    done = boot(tmp_path, "echo", "started", RIG_NODES="gpu-[01-02]", RIG_NODE_RANK="1", RIG_SLOTS="2")
    assert (done.returncode, done.stdout) == (0, "started\n")
