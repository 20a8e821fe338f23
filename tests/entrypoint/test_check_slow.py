"""A driver that does not answer, or another thing that looks: the level's time holds, and nothing is made up."""

import json
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
check.BUDGET_S = {{**BUDGET_S, "quick": {budget}}}
sys.exit(check.run(["--json"]))
"""
SILENT = """
import signal, time
signal.signal(15, signal.SIG_IGN)
print("driver 550.54.15\\nasking 0", flush=True)
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

    def run(programs: dict[str, str]) -> "subprocess.Popen[str]":
        own = {name: str(tmp_path / f"{name}.py") for name in programs}
        for name, text in programs.items():
            Path(own[name]).write_text(text)
        command = COMMAND.format(top=str(TOP), own=own, budget=BUDGET_S)
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
    process.kill()
    process.communicate()
