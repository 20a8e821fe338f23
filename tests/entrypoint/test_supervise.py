"""Ranks start, hear signals once and at once, and the job ends as they ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Writes what it learned into files, so that order and number can be asserted; `mode` decides how it ends.
PROGRAM = """
import os, signal, sys, time
rank, mode = os.environ["RANK"], sys.argv[1]
heard = []
def told(number, frame):
    heard.append(number)
    with open(f"heard.{rank}", "a") as file:
        file.write(f"{number} {time.time()}\\n")
    if number == signal.SIGTERM and mode == "checkpoint":
        time.sleep(0.7)
        open(f"saved.{rank}", "w").write("step 5")
        sys.exit(0)
    if number == signal.SIGTERM and mode == "fail-slowly":
        time.sleep(2)
        open(f"saved.{rank}", "w").write("step 5")
        sys.exit(0)
if mode != "plain":
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, told)
open(f"ready.{rank}", "w").write(str(os.getpid()))
if mode.startswith("fail") and rank == "1":
    while not os.path.exists("ready.0"):
        time.sleep(0.01)
    sys.exit(42)
if mode == "killed" and rank == "0":
    os.kill(os.getpid(), int(sys.argv[2]))
if mode == "quick":
    sys.exit(0)
if mode == "zero-then-three":
    time.sleep(0.2 if rank == "0" else 0.5)
    sys.exit(0 if rank == "0" else 3)
until = time.monotonic() + 30
while time.monotonic() < until:
    time.sleep(0.05)
"""
READY = ("ready.0", "ready.1")


def heard(here: Any, rank: int) -> list[tuple[int, float]]:
    lines = (here.work / f"heard.{rank}").read_text().splitlines()
    return [(int(number), float(when)) for number, when in (line.split() for line in lines)]


def ranks(here: Any) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads((here.state / "ranks.json").read_text())
    return told


@pytest.fixture(autouse=True)
def program(here: Any) -> None:
    here.write("train.py", PROGRAM)


def test_each_rank_is_started_and_recorded(here: Any) -> None:
    done = here.boot("train.py", "quick", RIG_CPU_RANKS="3")
    assert done.code == 0
    assert sorted(p.name for p in here.work.glob("ready.*")) == ["ready.0", "ready.1", "ready.2"]
    assert [(one["rank"], one["code"]) for one in ranks(here)] == [(0, 0), (1, 0), (2, 0)]
    assert all(one["started"] <= one["ended"] for one in ranks(here))


def test_sigterm_reaches_every_rank_once_within_a_second_and_a_checkpoint_is_finished(here: Any) -> None:
    process = here.start("train.py", "checkpoint")
    here.wait_for(*READY)
    sent = time.time()
    os.killpg(process.pid, signal.SIGTERM)  # to the whole group, as `tini -g` does
    _, err = process.communicate(timeout=20)
    for rank in (0, 1):
        assert [number for number, _ in heard(here, rank)] == [signal.SIGTERM]
        assert heard(here, rank)[0][1] - sent < 1
        assert (here.work / f"saved.{rank}").read_text() == "step 5"
    assert process.returncode == 0
    assert "SIGTERM passed on to 2 ranks" in err


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP])
def test_other_signals_are_passed_on_and_end_nothing(here: Any, number: int) -> None:
    process = here.start("train.py", "checkpoint")
    here.wait_for(*READY)
    process.send_signal(number)
    here.wait_for("heard.0", "heard.1")
    assert process.poll() is None
    assert heard(here, 0)[0][0] == heard(here, 1)[0][0] == number
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_a_program_that_does_not_catch_sigterm_ends_with_143(here: Any) -> None:
    process = here.start("train.py", "plain")
    here.wait_for(*READY)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143


def test_the_first_failing_rank_is_named_and_gives_the_code(here: Any) -> None:
    done = here.boot("train.py", "fail", RIG_GRACE="1")
    assert done.code == 42
    assert "rig: rank 1 ended with exit code 42" in done.lines
    assert heard(here, 0)[0][0] == signal.SIGTERM
    assert "rig: SIGKILL after 1 s: rank 0" in done.lines
    assert [one["code"] for one in ranks(here)] == [137, 42]


def test_a_stop_from_outside_after_a_failure_lets_the_checkpoint_be_finished(here: Any) -> None:
    process = here.start("train.py", "fail-slowly", RIG_GRACE="1")
    here.wait_for("heard.0")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert (here.work / "saved.0").read_text() == "step 5"
    assert [number for number, _ in heard(here, 0)] == [signal.SIGTERM]
    assert process.returncode == 42
    assert "rig: SIGKILL" not in err


def test_ctrl_c_after_a_failure_leaves_the_limit(here: Any) -> None:
    process = here.start("train.py", "fail", RIG_GRACE="1")
    here.wait_for("heard.0")
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=20)
    assert [number for number, _ in heard(here, 0)] == [signal.SIGTERM, signal.SIGHUP]
    assert process.returncode == 42
    assert "rig: SIGKILL after 1 s: rank 0" in err


def test_a_rank_that_ends_well_does_not_end_the_others(here: Any) -> None:
    assert here.boot("train.py", "zero-then-three").code == 3
    assert [one["code"] for one in ranks(here)] == [0, 3]


@pytest.mark.parametrize(("number", "words"), [(9, "out of memory?"), (7, "--ipc=host"), (11, "native code")])
def test_a_signal_that_kills_a_rank_is_explained(here: Any, number: int, words: str) -> None:
    done = here.boot("train.py", "killed", str(number), RIG_GRACE="0")
    assert done.code == 128 + number
    assert any(line.startswith("rig: rank 0 was ended by") and words in line for line in done.lines)


def test_no_rank_survives_a_killed_supervisor(here: Any, alive: Callable[[int], bool]) -> None:
    process = here.start("train.py", "checkpoint")
    here.wait_for(*READY)
    pids = [int((here.work / name).read_text()) for name in READY]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    until = time.monotonic() + 5
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < until, "a rank outlived its supervisor"
        time.sleep(0.02)


def test_only_the_first_rank_has_the_standard_input(here: Any) -> None:
    here.write("read.py", "import os; open('in.' + os.environ['RANK'], 'w').write(os.readlink('/proc/self/fd/0'))")
    process = here.start("read.py")
    assert process.wait(20) == 0
    assert (here.work / "in.1").read_text() == "/dev/null"


def test_a_rank_gets_the_signals_as_the_boot_got_them(here: Any) -> None:
    here.write("masks.sh", "#!/bin/sh\ngrep -E '^Sig(Blk|Ign)' /proc/self/status >masks.$RANK\n", 0o755)
    here.write("ask.py", "import os; os.execv('./masks.sh', ['masks.sh'])")
    assert here.boot("ask.py", RIG_CPU_RANKS="1").code == 0
    bare = here.boot("python", "ask.py", RANK="bare")
    assert bare.code == 0
    assert signals(here, "masks.0") == signals(here, "masks.bare")


def signals(here: Any, name: str) -> list[int]:
    """Blocked and ignored signals, without 32 and 33: the C library keeps those for its threads."""
    lines = (here.work / name).read_text().splitlines()
    return [int(line.split()[1], 16) & 0x7FFFFFFF for line in lines]


DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
from entrypoint import supervise
supervise.SETPRIV = "/nonexistent"
starts = [supervise.Start(0, "/bin/true", (), {}), supervise.Start(1, sys.argv[2], (), {})]
said = []
code = supervise.Supervisor(1.0, said.append, lambda text: None).run(starts)
print(code, said)
"""


def drive(program: str) -> str:
    top = str(Path(__file__).parents[2])
    words = [sys.executable, "-I", "-S", "-c", DRIVER, top, program]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout


def test_a_rank_that_cannot_be_started_is_named_and_ends_the_job() -> None:
    out = drive("/does/not/exist")
    assert out.startswith("126 ")
    assert "rank 1 could not be started: No such file or directory" in out


def test_ranks_start_without_setpriv_too() -> None:
    assert drive("/bin/true") == "0 []\n"
