"""Nothing hangs: children that ignore signals, fork, fill their output or die."""

import os
import sys
import time
from collections.abc import Iterator

import pytest

from rig import child
from rig.root import READ_LIMIT, Collected, Live

PYTHON = (sys.executable, "-I", "-S", "-c")


@pytest.fixture(autouse=True)
def nothing_abandoned() -> Iterator[None]:
    child.abandoned.clear()
    yield
    child.abandoned.clear()


def collect(program: str, timeout_s: float = 10) -> Collected:
    return child.start((*PYTHON, program), timeout_s).collect()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


def gone_soon(pid: int) -> bool:
    until = time.monotonic() + 5
    while alive(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_output_is_what_the_program_wrote() -> None:
    assert child.output((*PYTHON, "print('a'); print('b')"), 10) == "a\nb\n"


def test_a_program_that_fails_has_no_output_but_keeps_its_words() -> None:
    assert child.output((*PYTHON, "print('a'); raise SystemExit(3)"), 10) is None
    assert collect("print('a'); raise SystemExit(3)") == Collected("failed", "a\n")


def test_a_program_that_dies_of_a_signal_has_failed() -> None:
    assert collect("import os; os.write(1, b'x'); os.abort()") == Collected("failed", "x")


@pytest.mark.parametrize("argv", [("no-such-program",), ("/no/such/program",), ("/etc/passwd",), ("/",)])
def test_an_absent_program_has_failed(argv: tuple[str, ...]) -> None:
    assert child.start(argv, 1).collect() == Collected("failed")


def test_a_program_is_found_in_the_fixed_folders() -> None:
    assert child.output(("echo", "hello"), 10) == "hello\n"


def test_the_user_environment_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    told = child.output((*PYTHON, "import os; print(sorted(os.environ))"), 10)
    assert told is not None and "LD_LIBRARY_PATH" not in told and "CUDA_VISIBLE_DEVICES" not in told


def test_a_slow_program_is_ended_in_time_and_keeps_what_it_said() -> None:
    began = time.monotonic()
    answer = collect("import os,time; os.write(1, b'first'); time.sleep(60)", 0.5)
    assert answer == Collected("hung", "first")
    assert time.monotonic() - began < 5
    assert child.abandoned == []


def test_a_program_that_ignores_term_is_killed() -> None:
    program = "import os,signal,time; signal.signal(15, signal.SIG_IGN)\n"
    program += "os.write(1, str(os.getpid()).encode()); time.sleep(60)"
    answer = collect(program, 0.5)
    assert answer.state == "hung"
    assert gone_soon(int(answer.output))
    assert child.abandoned == []


def test_what_a_program_forked_ends_with_it() -> None:
    program = (
        "import os,signal,time; pid=os.fork()\n"
        "if pid == 0: signal.signal(15, signal.SIG_IGN); time.sleep(60)\n"
        "else: os.write(1, str(pid).encode())"
    )
    answer = collect(program)
    assert answer.state == "ok"
    assert gone_soon(int(answer.output))


def test_a_fork_that_holds_the_output_open_is_not_waited_for() -> None:
    began = time.monotonic()
    assert collect("import os,time; os.fork() or time.sleep(60)", 30).state == "ok"
    assert time.monotonic() - began < 5


def test_a_program_that_fills_its_output_is_ended() -> None:
    answer = collect("import os\nwhile True: os.write(1, b'x' * 65536)", 30)
    assert answer.state == "hung"
    assert len(answer.output) == READ_LIMIT


def test_a_second_question_gets_the_same_answer() -> None:
    running = child.start((*PYTHON, "print(1)"), 10)
    assert running.collect() == running.collect() == Collected("ok", "1\n")


def test_it_leads_its_own_process_group_and_has_no_terminal_input() -> None:
    told = child.output((*PYTHON, "import os,sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))"), 10)
    assert told == "True ''\n"


def test_no_descriptor_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    child.output((*PYTHON, "pass"), 10)
    collect("import time; time.sleep(60)", 0.1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_even_kill_does_not_end_is_named_and_no_other_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(child, "signal_group", lambda pid, number: sent.append(number))  # as a call in state D
    monkeypatch.setattr(child, "GRACE_S", 0.05)
    monkeypatch.setitem(child.OWN, "rig-nvml", os.path.abspath(__file__) + ".not")
    running = child.start((*PYTHON, "import time; time.sleep(60)"), 0.1)
    assert isinstance(running, child.Child)
    try:
        assert running.collect().state == "hung"
    finally:
        os.kill(running.pid, 9)
        os.waitpid(running.pid, 0)
    assert sent == [child.SIGTERM, child.SIGKILL]
    assert child.abandoned == [sys.executable]
    assert child.start(("rig-nvml",), 1).collect() == Collected("hung")
    assert child.output(("echo", "still"), 10) == "still\n"


def test_a_folder_runs_no_programs(tmp_path: object) -> None:
    root = Live(str(tmp_path))
    assert root.start(("rig-nvml",), 1).collect() == Collected("unasked")
    assert root.run(("echo",), 1) is None


def test_our_own_programs_are_there() -> None:
    program = child._program(("rig-nvml", "x"))
    assert program is not None and program[1:3] == ("-I", "-S") and program[-1] == "x"
    assert os.path.isfile(program[3])
