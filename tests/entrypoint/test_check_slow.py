"""A driver that does not answer, or another thing that looks: the level's time holds, and nothing is made up."""

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

TOP = Path(__file__).parents[2]
BUDGET_S, BEYOND_S = 1.5, 2.0

# The whole command on this host, which seems to have an NVIDIA device; programs of ours are replaced by others.
COMMAND = """
import sys
sys.path.insert(0, {top!r})
from checks.running import BUDGET_S
from entrypoint import check
from rig import child
from rig.detect import gpu
gpu.nodes_of = lambda names: ("nvidia0", "nvidiactl")
child.OWN.update({own!r})
child.SEARCH = ({folder!r}, *child.SEARCH)
check.BUDGET_S = {{**BUDGET_S, "quick": {budget}}}
sys.exit(check.run(["--json", *{words!r}]))
"""
SILENT = """
import signal, time
signal.signal(15, signal.SIG_IGN)
print("driver 550.54.15\\nasking 0", flush=True)
time.sleep(300)
"""
# It deafens itself, tells its process id and stays.
DEAF = """
import os, signal, sys, time
signal.signal(15, signal.SIG_IGN)
with open(sys.argv[0] + ".pid", "w") as file:
    file.write(str(os.getpid()))
time.sleep(300)
"""
ANSWERS = r"print('driver 550.54.15\n0 bus_id 0000:1b:00.0\n0 name NVIDIA H100 80GB HBM3\nend')"
DRIVER, HEALTH = "rig-nvml", "rig-nvml-health"
HANGING = {
    "the driver": {DRIVER: SILENT, HEALTH: SILENT},
    "its health": {DRIVER: ANSWERS, HEALTH: SILENT},
    "everything": dict.fromkeys((DRIVER, HEALTH, "rig-clock", "rig-storage"), SILENT),
}


@pytest.fixture
def start(tmp_path: Path) -> Callable[[dict[str, str]], "subprocess.Popen[str]"]:
    """`rig check` with these programs in the place of ours; an older run's answer is in its folder."""
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "checks.json").write_text('{"partial": false, "exit_code": 0, "results": [{"id": "old"}]}')

    def run(programs: dict[str, str], *words: str, budget: float = BUDGET_S) -> "subprocess.Popen[str]":
        own = {name: str(tmp_path / f"{name}.py") for name in programs}
        for name, text in programs.items():
            Path(own[name]).write_text(text)
        command = COMMAND.format(top=str(TOP), own=own, folder=str(tmp_path), words=words, budget=budget)
        environ = {"PATH": "/usr/bin:/bin", "RIG_STATE": str(tmp_path / "state"), "RIG_QUIET": "1"}
        return subprocess.Popen([sys.executable, "-c", command], env=environ, stdout=subprocess.PIPE, text=True)

    return run


@pytest.mark.parametrize("programs", HANGING.values(), ids=list(HANGING))
def test_a_level_ends_in_its_time_whatever_hangs(programs: dict[str, str], start: Any, tmp_path: Path) -> None:
    process = start(programs)
    out, _ = process.communicate(timeout=60)
    told = json.loads(out)
    assert told["seconds"] < BUDGET_S + BEYOND_S
    assert told["partial"] is False and told["exit_code"] == process.returncode
    late = {one["id"]: one for one in told["results"]}["driver_answers_in_time"]
    assert (late["outcome"], late["findings"]) == ("unknown", []) and late["why"].startswith("budget: ")


def test_an_older_run_s_answer_is_gone_before_the_looking_begins(start: Any, tmp_path: Path) -> None:
    process, until = start(HANGING["the driver"]), time.monotonic() + 20
    results: dict[str, Any] = {"results": [{"id": "old"}]}
    while results["results"] == [{"id": "old"}] and time.monotonic() < until:
        results = json.loads((tmp_path / "state" / "checks.json").read_text())
        time.sleep(0.01)
    assert process.poll() is None
    assert (results["partial"], results["results"], results["exit_code"]) == (True, [], 2)
    assert results["level"] == "quick" and results["machine"] == ""
    process.terminate()  # and its children with it
    process.communicate(timeout=20)


def told_pid(path: Path) -> int:
    until = time.monotonic() + 20
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until, f"{path.name} was not started"
        time.sleep(0.01)
    return int(path.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("name", "level"), [(DRIVER, "boot"), (DRIVER, "quick"), ("find", "quick")])
def test_what_looks_does_not_outlive_a_run_that_is_ended(
    name: str, level: str, number: int, start: Any, tmp_path: Path, alive: Callable[[int], bool]
) -> None:
    (tmp_path / "find").write_text(f"#!{sys.executable} -IS\n{DEAF}")
    (tmp_path / "find").chmod(0o755)
    process = start({DRIVER: DEAF if name == DRIVER else ANSWERS}, "--level", level, budget=60)
    pid = told_pid(tmp_path / ("find.pid" if name == "find" else f"{DRIVER}.py.pid"))
    process.send_signal(number)
    time.sleep(0.1)
    process.send_signal(number)  # a second one does not end the ending
    process.communicate(timeout=20)
    left = alive(pid)
    if left:
        os.kill(pid, signal.SIGKILL)
    assert not left and process.returncode == 128 + number
