"""A run with real probes: what hangs, what is kept step by step, what a probe is given."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checks import Check, Need, known, say
from checks.probing import ProbeProgram
from checks.running import Judged, Selection
from entrypoint import check_run
from entrypoint.check_run import examine
from rig import child
from rig.finding import Finding
from rig.machine import Machine
from rig.plan import Plan, Setting
from rig.snapshot import Probe, Snapshot

TOP = Path(__file__).parents[2]
NOW = Snapshot(Machine(), Plan(environment=(Setting("NCCL_DEBUG", "WARN", "default", ""),)))
NEVER = Need("unicorn", "no unicorn here", lambda now: False)


@pytest.fixture(autouse=True)
def nothing_abandoned() -> Iterator[None]:
    child.abandoned.clear()
    yield
    child.abandoned.clear()


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., ProbeProgram]:
    """Makes a probe of a text."""

    def make(name: str, text: str, timeout_s: float = 20, **more: Any) -> ProbeProgram:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        return ProbeProgram(name, str(path), "quick", timeout_s, python=more.pop("python", "rig"), **more)

    return make


def judging(name: str) -> Check:
    """A check that passes where its probe found a number above 1."""

    def run(now: Snapshot) -> Iterator[Finding]:
        number = known(now.probes[name].data.get("number"), "the number")
        if number < 2:
            yield say(f"the number is {number}", name)

    return Check(f"{name}_is_high", "limits", "quick", (), "fail", "host", "raise it", run, name)


def always(name: str) -> Check:
    return Check(name, "limits", "boot", (), "fail", "host", "raise it", lambda now: ())


def selected(*programs: ProbeProgram) -> Selection:
    return Selection("quick", (always("this_is_so"), *(judging(one.name) for one in programs)), programs)


def run(*programs: ProbeProgram, within_s: float | None = 60, **more: Any) -> tuple[Snapshot, dict[str, str]]:
    until = None if within_s is None else time.monotonic() + within_s
    now, judged = examine(selected(*programs), NOW, until, dict(os.environ), **more)
    assert [one.check.id for one in judged] == ["this_is_so", *(f"{one.name}_is_high" for one in programs)]
    return now, {one.check.id: one.result.outcome for one in judged}


def test_what_a_probe_printed_is_judged(program: Any) -> None:
    now, outcomes = run(
        program("high", "print('{\"number\": 3}')"),
        program("low", "print('noise'); print('{\"number\": 1}')"),
        program("dumb", "pass"),
    )
    assert outcomes == {"this_is_so": "pass", "high_is_high": "pass", "low_is_high": "fail", "dumb_is_high": "unknown"}
    assert now.probes["high"].state == "ok" and now.probes["high"].seconds is not None


def test_a_check_that_looks_at_two_probes_waits_for_both(program: Any) -> None:
    def of_both(now: Snapshot) -> Iterator[Finding]:
        yield from () if set(now.probes) == {"first", "second", "third"} else (say("it was asked too early"),)

    programs = [program(name, "print('{\"number\": 3}')", driver=True) for name in ("first", "second", "third")]
    both = judging("first")._replace(id="both_are_there", run=of_both, also=("third",))
    rounds: list[list[str]] = []
    _, judged = examine(
        Selection("quick", (both, judging("second")), tuple(programs)),
        NOW,
        time.monotonic() + 60,
        dict(os.environ),
        keep=lambda now, told: rounds.append([one.result.outcome for one in told if one.check is both]),
    )
    assert [one.result.outcome for one in judged] == ["pass", "pass"]
    assert rounds == [[], [], [], ["pass"]]  # not before its last had ended; each step was kept


def test_a_probe_that_breaks_is_failed_with_its_last_words(program: Any) -> None:
    now, _ = run(program("broken", "print('{\"number\": 3}', flush=True); raise OSError('bus error')"))
    assert now.probes["broken"].state == "failed" and now.probes["broken"].error.endswith("OSError: bus error")
    assert now.probes["broken"].data == {"number": 3}


def test_a_probe_says_what_it_lacks(program: Any) -> None:
    now, _ = run(program("poor", 'print(\'{"absent": "libibverbs.so.1 is not there"}\')'))
    assert now.probes["poor"][:2] == ("poor", "absent") and now.probes["poor"].error == "libibverbs.so.1 is not there"


def test_one_that_hangs_names_what_it_asked(program: Any) -> None:
    text = 'import time; print(\'{"asking": "0000:1b:00.0"}\', flush=True); time.sleep(60)'
    now, outcomes = run(program("stuck", text, 0.5))
    assert now.probes["stuck"].state == "unresponsive" and outcomes["stuck_is_high"] == "unknown"
    assert now.probes["stuck"].error == "did not end within 0.5 s, while it asked 0000:1b:00.0"


def test_a_program_that_is_not_there_fails_and_one_without_python_is_absent(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_run, "VENV", "/no/such/folder")
    monkeypatch.setenv("PATH", "/no/such/folder")
    missing = ProbeProgram("missing", "/no/such/probe.py", "quick", 20, python="rig")
    now, _ = run(missing, program("lonely", "pass", python="user"))
    assert now.probes["missing"].state == "failed" and "/no/such/probe.py" in now.probes["missing"].error
    assert now.probes["lonely"] == Probe("lonely", "absent", error="there is no python to run it")


def test_a_probe_whose_need_is_not_met_is_not_run_and_its_check_cannot_tell(program: Any, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    now, outcomes = run(program("idle", f"open({str(mark)!r}, 'w')", needs=(NEVER,)))
    assert now.probes["idle"] == Probe("idle", "unasked", error="no unicorn here")
    assert outcomes["idle_is_high"] == "unknown" and not mark.exists()


def test_without_time_nothing_is_started_and_files_are_judged_all_the_same(program: Any, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    now, outcomes = run(program("late", f"open({str(mark)!r}, 'w')"), within_s=0)
    assert outcomes == {"this_is_so": "pass", "late_is_high": "unknown"} and not mark.exists()
    assert now.probes["late"].state == "unasked" and now.probes["late"].error.startswith("budget: ")


def test_forty_that_hang_cost_the_time_of_the_level_and_two_seconds(program: Any) -> None:
    text = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"
    began = time.monotonic()
    _, outcomes = run(*(program(f"stuck_{n}", text, 60, driver=n % 2 == 0) for n in range(40)), within_s=1)
    assert time.monotonic() - began < 1 + 2
    assert outcomes.pop("this_is_so") == "pass" and set(outcomes.values()) == {"unknown"} and len(outcomes) == 40


def test_a_replay_measures_nothing(program: Any, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    now, outcomes = run(program("idle", f"open({str(mark)!r}, 'w')"), measures=False)
    assert now.probes == {} and not mark.exists() and outcomes["idle_is_high"] == "unknown"


ASKS = """
import json, os, sys
try:
    import rig.machine
    ours = rig.machine.__file__
except ImportError:
    ours = None
print(json.dumps({"number": 2, "ours": ours, "argv": sys.argv[1:], "name": __name__, "python": sys.executable,
    "isolated": bool(sys.flags.isolated), "debug": os.environ.get("NCCL_DEBUG"), "algo": os.environ.get("NCCL_ALGO"),
    "input": sys.stdin.read()}))
"""


def test_a_probe_of_rig_has_its_modules_and_the_environment_of_the_plan(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    data = run(program("ours", ASKS, args=("--network",)))[0].probes["ours"].data
    assert data["ours"] == str(TOP / "rig" / "machine.py") and data["isolated"] is True
    assert data["argv"] == ("--network",) and data["name"] == "__main__" and data["input"] == ""
    assert (data["debug"], data["algo"]) == ("WARN", "Ring")


def test_a_variable_of_the_user_stands_above_the_plan(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    assert run(program("ours", ASKS))[0].probes["ours"].data["debug"] == "INFO"


def test_a_probe_of_the_user_runs_in_the_environment_with_torch(
    program: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(check_run, "VENV", str(tmp_path / "venv"))
    data = run(program("theirs", ASKS, python="user"))[0].probes["theirs"].data
    assert data["python"] == str(tmp_path / "venv" / "python")
    assert data["ours"] is None and data["isolated"] is False


def test_what_is_known_is_kept_after_every_step(program: Any) -> None:
    kept: list[tuple[list[str], list[str]]] = []

    def keep(now: Snapshot, judged: tuple[Judged, ...]) -> None:
        kept.append((list(now.probes), [one.check.id for one in judged]))

    first = program("first", "print('{\"number\": 3}')", driver=True)
    run(first, program("second", "pass", driver=True), keep=keep)
    so, one, two = "this_is_so", "first_is_high", "second_is_high"
    assert kept == [([], [so]), (["first"], [so, one]), (["first", "second"], [so, one, two])]
