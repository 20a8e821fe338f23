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


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a slots=0\n", "slots=0"),
        ("a slots=1\na slots=1\n", "listed twice"),
        ("a;reboot slots=1\n", "';'"),
        ("a slots=many\n", "not of the form"),
        ("", "names no host"),
    ],
)
def test_a_named_hostfile_that_no_repair_can_help_starts_nothing(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "hosts").write_text(text)
    done = boot(tmp_path, "echo", "started", RIG_HOSTFILE="/hosts", RIG_NODE_RANK="0")
    assert (done.returncode, done.stdout) == (78, "")
    assert says in done.stderr and "/hosts" in done.stderr


def test_a_hostfile_that_can_be_repaired_is_told_and_used(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "hosts").write_text("a:2\nb[1-2] slots=2\n")
    done = boot(tmp_path, "echo", "started", RIG_HOSTFILE="/hosts", RIG_NODE_RANK="0")
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert "warning: /hosts: 1: 'a:2' is refused by DeepSpeed" in done.stderr
    assert (tmp_path / "state" / "hostfile").read_text() == "a slots=2\nb1 slots=2\nb2 slots=2\n"


def test_the_default_hostfile_is_judged_and_does_not_end_the_boot(tmp_path: Path) -> None:
    (tmp_path / "tree" / "job").mkdir(parents=True)
    (tmp_path / "tree" / "job" / "hostfile").write_text("a slots=1\na slots=1\n")
    done = boot(tmp_path, "echo", "started")
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert "/job/hostfile: 2: a listed twice" in done.stderr


@pytest.mark.parametrize("where", [".deepspeed_env", "mine.env"])
def test_the_launcher_s_environment_file_is_judged(tmp_path: Path, where: str) -> None:
    (tmp_path / "tree" / "home").mkdir(parents=True)
    (tmp_path / "tree" / "home" / where).write_text("# remark\nNCCL_DEBUG=INFO\n")
    named = {} if where == ".deepspeed_env" else {"DS_ENV_FILE": where}
    done = boot(tmp_path, "echo", "started", HOME="/home", **named)
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert f"warning: /home/{where}: 1: '# remark': the # comments out the launch itself" in done.stderr


def test_a_named_environment_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = boot(tmp_path, "echo", "started", DS_ENV_FILE="/no/such")
    assert done.returncode == 0 and "DS_ENV_FILE=/no/such is not there" in done.stderr


def test_without_such_files_their_rules_are_not_loaded() -> None:
    script = "import sys; sys.path[:0] = [%r]\nfrom rig.plan.compose import *; from rig.plan import Plan\n"
    script += "judge_users_files({'HOME': '/x'}, lambda path: None, Plan()); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script % str(RIG.parents[1])], capture_output=True, text=True, check=True
    )
    assert not [name for name in done.stdout.split() if name.startswith("rig.judge")]
