"""Children that have less time than they were given: all of them end with the time of all."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from rig import child, children
from rig.in_time import InTime
from rig.root import READ_LIMIT, Collected, Running
from tests.rig.test_child import alive

PYTHON = (sys.executable, "-I", "-S", "-c")
DEAF = "import os,signal,time; signal.signal(15, signal.SIG_IGN); os.write(1, b'told'); time.sleep(60)"


@pytest.fixture(autouse=True)
def nothing_abandoned() -> Iterator[None]:
    child.abandoned.clear()
    yield
    child.abandoned.clear()


def within(seconds: float) -> InTime:
    return InTime(time.monotonic() + seconds)


def test_what_ends_in_time_is_as_ever() -> None:
    root = within(20)
    assert root.start((*PYTHON, "print('a')"), 60).collect() == Collected("ok", "a\n")
    assert root.start((*PYTHON, "print('a'); raise SystemExit(3)"), 60).collect() == Collected("failed", "a\n")
    assert root.start(("no-such-program",), 60).collect() == Collected("failed")
    assert root.run((*PYTHON, "print('a')"), 60) == "a\n" and root.run(("no-such-program",), 60) is None


def test_what_the_time_of_all_ends_is_cut_and_what_its_own_ends_is_hung() -> None:
    root = within(1.5)
    late, hung = root.start((*PYTHON, DEAF), 60), root.start((*PYTHON, DEAF), 0.5)
    assert hung.collect() == Collected("hung", "told")
    assert late.collect() == late.collect() == Collected("cut", "told")
    assert child.abandoned == []


def test_one_that_writes_too_much_is_not_cut() -> None:
    answer = within(20).start((*PYTHON, "import os\nwhile True: os.write(1, b'x' * 65536)"), 60).collect()
    assert answer.state == "hung" and len(answer.output) == READ_LIMIT


def test_without_time_nothing_is_started(tmp_path: object) -> None:
    mark = f"{tmp_path}/ran"
    root = within(0)
    assert root.start((*PYTHON, f"open({mark!r}, 'w')"), 60).collect() == Collected("cut")
    assert root.run((*PYTHON, f"open({mark!r}, 'w')"), 60) is None
    assert not os.path.exists(mark)


def test_many_that_hang_cost_the_time_of_one_and_leave_no_descriptor() -> None:
    before = len(os.listdir("/proc/self/fd"))
    began = time.monotonic()
    root = within(1)
    started = [root.start((*PYTHON, DEAF), 60) for _ in range(6)]
    assert {one.collect().state for one in started} == {"cut"}
    assert time.monotonic() - began < 1 + 2 * child.GRACE_S + 0.5
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_nothing_ends_is_hung_whatever_its_time_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "signal_group", lambda pid, number: None)  # as a call in state D
    root = within(0.2)
    running = root.start((*PYTHON, "import time; time.sleep(60)"), 60)
    pid = root._started[0].pid
    try:
        assert running.collect().state == "hung" and child.abandoned == [sys.executable]
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_ending_all_keeps_the_answer_of_what_ended_and_ends_what_that_left() -> None:
    root = within(60)
    fork = "import os, time\npid = os.fork()\nif pid == 0: time.sleep(60)\nelse: print(pid)"
    done, late = root.start((*PYTHON, fork), 60), root.start((*PYTHON, DEAF), 60)
    until = time.monotonic() + 20
    while not child.ended(root._started[0].pid) and time.monotonic() < until:
        time.sleep(0.01)
    root.end_all()
    answer = done.collect()
    assert answer.state == "ok" and late.collect().state == "hung"
    left = int(answer.output)
    while alive(left) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(left)
    root.end_all()  # there is nothing more to do


def test_a_signal_that_comes_while_a_child_is_started_finds_it_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        raise SystemExit(143)

    def start(argv: tuple[str, ...], timeout_s: float) -> Running:
        started = really(argv, timeout_s)
        os.kill(os.getpid(), signal.SIGTERM)
        return started

    really, root = child.start, within(60)
    monkeypatch.setattr(child, "start", start)
    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(SystemExit):
            root.start((*PYTHON, DEAF), 60)
    finally:
        signal.signal(signal.SIGTERM, before)
    (one,) = root._started
    assert alive(one.pid)
    root.end_all()
    assert child.abandoned == [] and not os.path.exists(f"/proc/{one.pid}")


@pytest.mark.parametrize("number", children.ENDING)
def test_a_signal_that_comes_while_a_job_is_started_leaves_none_behind(number: int) -> None:
    def end(*_: object) -> None:
        raise SystemExit(128 + number)

    def begin(job: children.Job) -> children.Process:
        started.append(children.begin(job))
        os.kill(os.getpid(), number)
        return started[0]

    started: list[children.Process] = []
    before = signal.signal(number, end)
    try:
        with pytest.raises(SystemExit):
            children.run_jobs([children.Job("deaf", (*PYTHON, DEAF), 60, {})], None, lambda ended: None, begin)
    finally:
        signal.signal(number, before)
    assert not os.path.exists(f"/proc/{started[0].pid}")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
