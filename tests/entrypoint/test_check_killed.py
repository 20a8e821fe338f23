"""A run that is killed, ended or out of time: what is left on disk, and that no probe is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).parents[2]

# The whole command, in a process of its own, on a machine on paper, with two probes of which the second hangs.
COMMAND = """
import sys, time
sys.path.insert(0, {top!r})
from checks.running import BUDGET_S, Selection
from entrypoint import check
from tests.entrypoint.test_check_run import NOW, ProbeProgram, always, judging
programs = tuple(ProbeProgram(name, {folder!r} + "/" + name + ".py", "quick", 60, python="rig", driver=True)
    for name in ("well", "stuck"))
checks = (always("this_is_so"), *(judging(one.name) for one in programs))
check.select = lambda *asked: Selection("quick", checks, programs)
check.take = lambda *asked: NOW
check.BUDGET_S = {{**BUDGET_S, "quick": {budget}}}
sys.exit(check.run(sys.argv[1:]))
"""
STUCK = """
import os, signal, sys, time
signal.signal(15, signal.SIG_IGN)
with open(sys.argv[0] + ".pid", "w") as file:
    file.write(str(os.getpid()))
time.sleep(300)
"""
# As the real probes are: it runs by checks.probes.telling, and so does what it forks.
TELLING = f"""
import os, signal, sys, time
sys.path.insert(0, {str(TOP / "checks" / "probes")!r})
from telling import die_with_parent, run
def main():
    signal.signal(15, signal.SIG_IGN)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        os.write(writes, b"x")
        time.sleep(300)
    os.read(reads, 1)
    with open(sys.argv[0] + ".pid", "w") as file:
        file.write(str(os.getpid()) + " " + str(child))
    time.sleep(300)
run(main)
"""


class Checking:
    """A run that is started, in a folder."""

    def __init__(
        self,
        folder: Path,
        budget: float,
        *words: str,
        stderr: int = subprocess.PIPE,
        quiet: str = "",
        stuck: str = STUCK,
    ) -> None:
        self.folder = folder
        (folder / "well.py").write_text("print('{\"number\": 3}')")
        (folder / "stuck.py").write_text(stuck)
        program = COMMAND.format(top=str(TOP), folder=str(folder), budget=budget)
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *words],
            env={"PATH": "/usr/bin:/bin", "RIG_STATE": str(folder / "state"), "RIG_QUIET": quiet},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def stuck(self) -> int:
        """The process id of the probe that hangs, once it does."""
        return self.pids()[0]

    def pids(self) -> list[int]:
        """Its process id, and those of what it forked."""
        path, until = self.folder / "stuck.py.pid", time.monotonic() + 20
        while not (path.exists() and path.read_text()):
            assert time.monotonic() < until and self.process.poll() is None, self.process.communicate()
            time.sleep(0.01)
        return [int(word) for word in path.read_text().split()]

    @property
    def results(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "state" / "checks.json").read_text()))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Checking]]:
    started: list[Checking] = []

    def make(budget: float, *words: str, **more: Any) -> Checking:
        started.append(Checking(tmp_path, budget, *words, **more))
        return started[-1]

    yield make
    for one in started:
        one.process.kill()
        one.process.communicate()


def outcomes(results: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["outcome"] for one in results["results"]}


def test_a_run_that_is_killed_leaves_what_it_knew(start: Any, alive: Callable[[int], bool]) -> None:
    checking = start(60)
    stuck = checking.stuck()
    checking.process.send_signal(signal.SIGKILL)
    checking.process.wait(10)
    try:
        results = checking.results
        assert results["partial"] is True and results["level"] == "quick"
        assert outcomes(results) == {"this_is_so": "pass", "well_is_high": "pass"}
        assert set(os.listdir(checking.folder / "state")) - {"home"} == {"checks.json"}  # and no half of one
    finally:
        if alive(stuck):
            os.kill(stuck, signal.SIGKILL)  # nobody is left who could


def test_a_probe_dies_with_a_run_that_is_killed_and_so_does_what_it_forked(
    start: Any, alive: Callable[[int], bool]
) -> None:
    checking = start(60, stuck=TELLING)
    pids = checking.pids()
    checking.process.send_signal(signal.SIGKILL)
    checking.process.wait(10)
    until = time.monotonic() + 10
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < until:
        time.sleep(0.01)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert len(pids) == 2 and left == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_run_that_is_ended_takes_its_probes_along(number: int, start: Any, alive: Callable[[int], bool]) -> None:
    checking = start(60)
    stuck = checking.stuck()
    checking.process.send_signal(number)
    checking.process.wait(10)
    assert checking.process.returncode == 128 + number or number == signal.SIGINT
    assert not alive(stuck)
    assert checking.results["partial"] is True


def test_a_run_that_has_no_time_left_ends_and_says_so(start: Any, alive: Callable[[int], bool]) -> None:
    began = time.monotonic()
    checking = start(2, "--json")
    stuck = checking.stuck()
    out, err = checking.process.communicate(timeout=20)
    assert time.monotonic() - began < 2 + 2 + 2  # and the start of Python
    assert checking.process.returncode == 2 and not alive(stuck)
    told = json.loads(out)
    assert told == checking.results | {"seconds": told["seconds"]} and told["partial"] is False
    assert outcomes(told) == {"this_is_so": "pass", "well_is_high": "pass", "stuck_is_high": "unknown"}
    (late,) = [one for one in told["results"] if one["outcome"] == "unknown"]
    assert late["why"].startswith("budget: ended after ")
    assert "rig: probe stuck: cut" in err  # it was slow: somebody may wait


def test_quick_probes_say_nothing_where_nobody_waits(start: Any) -> None:
    checking = start(1.5)
    _, err = checking.process.communicate(timeout=20)
    assert "probe well" not in err


@pytest.mark.parametrize(("quiet", "lines"), [("", 2), ("1", 0)])
def test_on_a_terminal_each_probe_has_its_line_unless_it_is_to_be_quiet(quiet: str, lines: int, start: Any) -> None:
    ours, theirs = os.openpty()
    checking = start(1, stderr=theirs, quiet=quiet)
    os.close(theirs)
    checking.process.communicate(timeout=20)
    said = b""
    try:
        while part := os.read(ours, 4096):
            said += part
    except OSError:  # how a terminal ends
        pass
    os.close(ours)
    assert [line.split(",")[0] for line in said.decode().splitlines()] == [
        "rig: probe well: ok",
        "rig: probe stuck: cut",
    ][:lines]
