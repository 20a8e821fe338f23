"""SIGTERM reaches every rank within a second, a checkpoint is finished, and nothing is left behind."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.container

Mount = Callable[..., list[str]]


def numbers(text: str, before: str) -> list[float]:
    """The number after each occurrence of a text."""
    return [float(part.split()[0]) for part in text.split(before)[1:]]


def started(docker: Any, workspace: Mount, *words: str) -> Any:
    container = docker.start("train_gloo.py", *words, options=workspace("train_gloo.py"))
    container.wait_for("rank 1 step 2")
    return container


@pytest.mark.parametrize("whom", ["pid 1", "rig"])
def test_both_ranks_are_told_within_a_second_and_the_run_goes_on_later(
    docker: Any, workspace: Mount, tmp_path: Path, whom: str
) -> None:
    container = started(docker, workspace, "100000")
    pid = (
        "1"
        if whom == "pid 1"
        else next(row[0] for row in container.processes() if "rig boot" in row[3] and row[1] == "1")
    )
    sent = float(container.exec("sh", "-c", f"date +%s.%N; kill -TERM {pid}").out)
    assert container.wait() == 0
    out = container.logs().out
    told = numbers(out, "told ")
    assert len(told) == 2, out
    assert all(0 <= when - sent < 1 for when in told)
    saved = int((tmp_path / "checkpoint.txt").read_text())
    assert saved >= 2
    again = docker.run("train_gloo.py", str(saved + 3), options=workspace())
    assert again.code == 0
    assert f"resumed {saved}\n" in again.out
    assert f"rank 0 step {saved + 1}\n" in again.out


def test_docker_stop_waits_for_a_slow_checkpoint(docker: Any, workspace: Mount, tmp_path: Path) -> None:
    container = started(docker, workspace, "100000", "4")
    assert docker.call("stop", "--time", "30", container.name).code == 0
    assert container.wait() == 0
    assert (tmp_path / "checkpoint.txt").exists()


def test_a_real_training_stops_with_a_checkpoint_and_resumes(docker: Any, workspace: Mount) -> None:
    words = ["/opt/rig/examples/pretrain.py", "--layers", "1", "--width", "32", "--heads", "2", "--context", "32"]
    words += ["--log-every", "1", "--checkpoint-dir", "/workspace/run"]
    container = docker.start(*words, "--steps", "100000", options=workspace())
    container.wait_for("step 2")
    container.exec("kill", "-TERM", "1")
    assert container.wait(180) == 0, container.logs()
    first = container.logs().out
    reached = max(numbers(first, "step "))
    again = docker.run(*words, "--steps", str(int(reached) + 3), options=workspace(), seconds=240)
    assert again.code == 0, again.err
    resumed = min(numbers(again.out, "step "))
    assert reached <= resumed + 1 <= reached + 2, (reached, again.out)


def test_a_killed_rank_is_named_and_ends_the_job_with_137(docker: Any, workspace: Mount) -> None:
    container = started(docker, workspace, "100000")
    victim = next(row[0] for row in container.processes() if "train_gloo.py" in row[3] and "rig" not in row[3])
    container.exec("kill", "-KILL", victim)
    assert container.wait() == 137
    assert "was ended by SIGKILL (exit code 137)" in container.logs().err


def test_a_killed_supervisor_takes_its_ranks_along(docker: Any, workspace: Mount) -> None:
    keep = ["sh", "-c", "rig boot -- train_gloo.py 100000 & echo pid $!; wait; echo ended; sleep 1000"]
    container = docker.start(*keep, options=workspace("train_gloo.py"))
    container.wait_for("rank 1 step 2")
    container.exec("kill", "-KILL", str(int(numbers(container.logs().out, "pid ")[0])))
    container.wait_for("ended")
    until = time.monotonic() + 5
    while any("train_gloo.py 100000" in row[3] and row[3].startswith("/opt/venv") for row in container.processes()):
        assert time.monotonic() < until, container.processes()
        time.sleep(0.1)


def test_no_zombie_is_left(docker: Any, workspace: Mount) -> None:
    orphans = (
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0:\n"
        "        os._exit(0) if os.fork() else (time.sleep(0.3), os._exit(0))\n"
        "    os.wait()\n"
        "print('ready', flush=True)\n"
        "time.sleep(1000)\n"
    )
    container = docker.start("orphans.py", options=workspace(orphans__py=orphans))
    container.wait_for("ready", 2)
    time.sleep(1)
    states = [row[2] for row in container.processes()]
    assert len(states) >= 4
    assert not [state for state in states if state.startswith("Z")]
