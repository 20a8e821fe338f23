"""Nothing hangs, nothing is left behind: many children, each with a deadline, all within one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig import child, children
from rig.children import Ended, Job, Process, Said, run_jobs
from rig.root import READ_LIMIT

PYTHON = (sys.executable, "-I", "-S", "-c")
DEAF = "import os,signal,time\nsignal.signal(15, signal.SIG_IGN)\nos.write(1, b'%d ' % os.getpid())\n"
MARK = "RIG_TEST_MARK"


@pytest.fixture(autouse=True)
def nothing_abandoned() -> Iterator[None]:
    child.abandoned.clear()
    yield
    child.abandoned.clear()


def job(program: str, timeout_s: float = 20, name: str = "probe", **more: bool) -> Job:
    return Job(name, (*PYTHON, program), timeout_s, {**os.environ, MARK: str(os.getpid())}, **more)


def run(*jobs: Job, within_s: float | None = None, **more: Callable[[Job], children.Handle]) -> dict[str, Ended]:
    told: list[Ended] = []
    until = None if within_s is None else time.monotonic() + within_s
    run_jobs(jobs, until, told.append, **more)
    assert sorted(one.name for one in told) == sorted(one.name for one in jobs)
    return {one.name: one for one in told}


def marked() -> list[int]:
    """Every live process that was started by these tests, whatever it forked: the environment is inherited."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if f"{MARK}={os.getpid()}\0".encode() in environ:  # a zombie has none
            found.append(int(name))
    return found


def nobody_is_left() -> bool:
    until = time.monotonic() + 5
    while marked():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_what_a_job_prints_and_how_long_it_took() -> None:
    told = run(job("print('a'); import sys; print('noise', file=sys.stderr)"))["probe"]
    assert (told.state, told.output, told.error) == ("ok", "a\n", "")
    assert told.seconds is not None and 0 < told.seconds < 10


def test_a_failure_keeps_its_output_and_the_last_words_of_its_error_output() -> None:
    told = run(job("print('a'); raise OSError('no such device')"))["probe"]
    assert (told.state, told.output) == ("failed", "a\n")
    assert told.error.endswith("OSError: no such device") and "\n" not in told.error


@pytest.mark.parametrize(
    ("program", "error"),
    [("raise SystemExit(3)", "ended with exit code 3"), ("import os; os.kill(os.getpid(), 11)", "ended by signal 11")],
)
def test_a_silent_failure_is_named_by_its_end(program: str, error: str) -> None:
    assert run(job(program))["probe"].error == error


def test_error_output_is_cut_at_its_end_not_at_its_beginning() -> None:
    told = run(job("import sys; sys.stderr.write('x' * 5000 + ' the reason\\n'); sys.exit(1)"))["probe"]
    assert len(told.error) == children.LAST_CHARACTERS and told.error.endswith(" the reason")


@pytest.mark.parametrize("path", ["/no/such/program", "/etc/passwd", "/", "a\0b"])
def test_a_program_that_cannot_be_started_is_absent(path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    told = run(Job("probe", (path,), 5, {}))["probe"]
    assert told.state == "absent" and told.error.startswith(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_ignores_term_is_killed_and_its_output_is_kept() -> None:
    began = time.monotonic()
    told = run(job(DEAF + "time.sleep(60)", 0.5))["probe"]
    assert told.state == "unresponsive" and told.error == "did not end within 0.5 s" and told.output.strip().isdigit()
    assert time.monotonic() - began < 0.5 + 2 * child.GRACE_S + 1
    assert child.abandoned == [] and nobody_is_left()


def test_one_that_ends_at_term_is_not_killed() -> None:
    program = "import os,signal,sys,time\nsignal.signal(15, lambda *_: (print('put away', flush=True), sys.exit(0)))\n"
    told = run(job(program + "print('begun', flush=True); time.sleep(60)", 0.5))["probe"]
    assert told.state == "unresponsive" and told.output == "begun\nput away\n"


FORKS = {
    "a child": "os.fork()\n",
    "a grandchild": "if os.fork() == 0:\n  if os.fork(): os._exit(0)\n",
    "a process group of its own": "if os.fork() == 0: os.setpgid(0, 0)\n",
    "many": "for _ in range(5): os.fork()\n",
}


@pytest.mark.parametrize("program", FORKS.values(), ids=FORKS)
def test_what_it_forked_dies_with_it(program: str) -> None:
    assert run(job(DEAF + program + "time.sleep(60)", 0.5))["probe"].state == "unresponsive"
    assert nobody_is_left()


@pytest.mark.parametrize("program", FORKS.values(), ids=FORKS)
def test_what_it_forked_and_left_is_not_waited_for(program: str) -> None:
    began = time.monotonic()
    told = run(job(DEAF + f"me = os.getpid()\n{program}if os.getpid() != me: time.sleep(60)"))["probe"]
    assert told.state == "ok" and time.monotonic() - began < 5
    assert nobody_is_left()


@pytest.mark.parametrize("stream", [1, 2])
def test_one_that_fills_its_output_is_killed_at_once(stream: int) -> None:
    began = time.monotonic()
    told = run(job(DEAF + f"while True: os.write({stream}, b'x' * 65536)"))["probe"]
    assert told.state == "failed" and f"more than {READ_LIMIT} bytes" in told.error
    assert len(told.output) <= READ_LIMIT and time.monotonic() - began < 5
    assert nobody_is_left()


def test_those_that_hang_together_are_ended_together() -> None:
    began = time.monotonic()
    jobs = [job(DEAF + "time.sleep(60)", 60, f"probe {index}", driver=index % 2 == 0) for index in range(40)]
    told = run(*jobs, within_s=2)
    assert time.monotonic() - began < 2 + 2
    assert {one.state for one in told.values()} == {"unasked"}
    assert all(one.error.startswith("budget: ") for one in told.values())
    assert sum(one.seconds is not None for one in told.values()) == 21  # the rest, of the driver, was never begun
    assert nobody_is_left() and child.abandoned == []


def test_a_job_of_its_own_deadline_does_not_hold_up_the_others() -> None:
    began = time.monotonic()
    told = run(job(DEAF + "time.sleep(60)", 0.3, "late"), job("import time; time.sleep(0.6)", name="quick"))
    assert told["late"].state == "unresponsive" and told["quick"].state == "ok"
    assert time.monotonic() - began < 3


TIMED = "import time; print(time.monotonic()); time.sleep(0.3); print(time.monotonic())"


def spans(told: dict[str, Ended]) -> list[tuple[float, float]]:
    return sorted((float(first), float(last)) for first, last in (one.output.split() for one in told.values()))


def test_jobs_of_the_driver_run_one_after_another() -> None:
    (_, first), (second, _) = spans(run(job(TIMED, name="a", driver=True), job(TIMED, name="b", driver=True)))
    assert first <= second


def test_others_run_beside_one_another_and_beside_the_driver() -> None:
    times = spans(run(*(job(TIMED, name=f"{index}", driver=index == 0) for index in range(3))))
    assert max(first for first, _ in times) < min(last for _, last in times)


def test_nothing_runs_beside_one_that_runs_alone_and_it_comes_last() -> None:
    told = run(job(TIMED, name="a", alone=True), job(TIMED, name="b"), job(TIMED, name="c", alone=True))
    (_, first), (second, second_end), (third, _) = spans(told)
    assert first <= second and second_end <= third
    assert float(told["b"].output.split()[0]) < second


class Undead:
    """A stand-in for a child in a driver call that never returns: no signal ends it, and it cannot be waited for."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.closed = False

    def ended(self) -> bool:
        return False

    def written(self) -> int:
        return 0

    def signal(self, number: int) -> None:
        self.sent.append(number)

    def where(self) -> str:
        return "pid 4711, state D, in uvm_ioctl"

    def close(self) -> Said:
        self.closed = True
        return Said(None, '{"gpu": 0}\n', "")


def test_one_that_nothing_ends_is_left_and_named_and_no_other_asks_the_driver() -> None:
    undead, began = Undead(), time.monotonic()

    def start(one: Job) -> children.Handle:
        return undead if one.name == "stuck" else children.begin(one)

    jobs = [job("", 0.2, "stuck", driver=True), job("", name="next", driver=True), job("print(1)", name="files")]
    told = run(*jobs, start=start)
    assert time.monotonic() - began < 0.2 + 2 * child.GRACE_S + 1
    assert undead.sent == [child.SIGTERM, child.SIGKILL] and undead.closed
    assert told["stuck"].state == "unresponsive" and told["stuck"].output == '{"gpu": 0}\n'
    assert told["stuck"].error == "did not end, not even by KILL (pid 4711, state D, in uvm_ioctl); it was left"
    assert told["next"] == Ended("next", "unasked", error="not started: stuck asked the driver and never ended")
    assert told["files"].output == "1\n"
    assert child.abandoned == ["stuck"]


def test_forty_that_nothing_ends_stay_within_the_time() -> None:
    began = time.monotonic()
    told = run(*(job("", 60, f"stuck {index}") for index in range(40)), within_s=0.5, start=lambda _: Undead())
    assert {one.state for one in told.values()} == {"unresponsive"} and len(child.abandoned) == 40
    assert time.monotonic() - began < 0.5 + 2


def test_after_a_child_that_was_left_before_no_job_of_the_driver_is_started() -> None:
    child.abandoned.append("rig-nvml")
    told = run(job("", name="a", driver=True), job("", name="b"))
    assert told["a"].state == "unasked" and "rig-nvml" in told["a"].error and told["b"].state == "ok"


def test_a_real_child_is_named_with_its_process_id_and_state() -> None:
    handle = children.begin(job("import time; time.sleep(60)"))
    try:
        time.sleep(0.2)
        assert handle.where().startswith(f"pid {handle.pid}, state S")
        assert isinstance(handle, Process)
    finally:
        handle.signal(child.SIGKILL)
        while not handle.ended():
            time.sleep(0.01)
        assert handle.close().status == 9


def test_no_time_means_nothing_is_started() -> None:
    told = run(job("print(1)"), within_s=0)["probe"]
    assert told == Ended("probe", "unasked", error="budget: no time was left to start it")


def test_no_descriptor_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    run(job("pass", name="a"), job("import time; time.sleep(60)", 0.1, "b"), job("raise SystemExit(1)", name="c"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_interruption_ends_the_children_first() -> None:
    def interrupted(_: Ended) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([job("pass", name="a"), job(DEAF + "time.sleep(60)", name="b")], None, interrupted)
    assert nobody_is_left()


def test_an_interruption_lets_the_children_tidy_up(tmp_path: Path) -> None:
    """With KILL at once the folder of a probe stayed in /tmp."""
    tidy, ready = tmp_path / "tidy", tmp_path / "ready"
    program = (
        f"import pathlib, signal, sys, time\n"
        f"signal.signal(15, lambda *_: sys.exit(pathlib.Path({str(tidy)!r}).touch()))\n"
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(60)"
    )
    waits = f"import os, time\nwhile not os.path.exists({str(ready)!r}): time.sleep(0.01)"

    def interrupted(_: Ended) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([job(program, name="b"), job(waits, name="a")], None, interrupted)
    assert tidy.exists() and nobody_is_left()


def test_a_signal_to_the_process_that_watches_ends_the_children() -> None:
    program = (
        "import signal,sys,os; sys.path.insert(0, sys.argv[1])\n"
        "from rig.children import Job, run_jobs\n"
        "signal.signal(15, lambda *_: sys.exit(143))\n"
        "code = 'import os,time; os.fork(); os.write(1, b\"x\"); time.sleep(60)'\n"
        "print('ready', flush=True)\n"
        "run_jobs([Job('a', (sys.executable, '-c', code), 60, dict(os.environ))], None, print)\n"
    )
    environ = {**os.environ, MARK: str(os.getpid())}
    top = str(Path(__file__).parents[2])
    watcher = subprocess.Popen([sys.executable, "-c", program, top], stdout=subprocess.PIPE, env=environ)
    try:
        assert watcher.stdout is not None and watcher.stdout.readline() == b"ready\n"
        until = time.monotonic() + 10
        while len(marked()) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        watcher.send_signal(signal.SIGTERM)
        assert watcher.wait(10) == 143
    finally:
        watcher.kill()
        watcher.communicate()
    assert nobody_is_left()
