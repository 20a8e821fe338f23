"""Programs that are run with a deadline, so that nothing hangs.

A child leads a process group of its own (setsid), writes into memory (an unlinked file, so a full pipe cannot stop it)
and is polled. When its time is over it is sent TERM, then KILL, with all that it forked (Ending). A child that even
KILL does not end (a driver call in state D) is left alone and named in `abandoned`; after that no program of ours that
touches the driver is started. rig.children watches many at once, rig.in_time gives all of them one end.
"""

import os
import sys
import time

from rig.lean import Callable, Iterable, Mapping, NamedTuple
from rig.root import READ_LIMIT, Answered, Collected, Running

# A fixed environment: what a child prints must not depend on the user's locale or library paths.
SEARCH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
ENVIRONMENT = {"PATH": ":".join(SEARCH), "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}

# Programs of ours, by the name under which a capture keeps their output.
OWN = {
    "rig-nvml": "detect/nvml_child.py",
    "rig-nvml-health": "detect/gpu_health_child.py",
    "rig-clock": "detect/clock_child.py",
    "rig-storage": "detect/storage_child.py",
}

SIGPIPE, SIGTERM, SIGKILL = 13, 15, 9  # signal(7); the module `signal` would cost a millisecond
GRACE_S = 0.5  # between TERM and KILL, and between KILL and giving up

abandoned: list[str] = []  # names of children that KILL did not end


class Child(NamedTuple):
    """A started program; `answers` remembers what `collect` found."""

    name: str
    pid: int
    handle: int
    deadline: float
    answers: list[Collected]

    def collect(self) -> Collected:
        if not self.answers:
            self.answers.append(_collect(self))
        return self.answers[0]

    def signal(self, number: int) -> None:
        signal_group(self.pid, number)


def _program(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """argv with an absolute first word; None when there is no such program."""
    if argv[0] in OWN:
        here = os.path.dirname(os.path.abspath(__file__))
        return (sys.executable or "/usr/bin/python3", "-I", "-S", os.path.join(here, OWN[argv[0]]), *argv[1:])
    candidates = (argv[0],) if "/" in argv[0] else tuple(os.path.join(folder, argv[0]) for folder in SEARCH)
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return (path, *argv[1:])
    return None


def spawn(program: tuple[str, ...], environ: Mapping[str, str], output: int, errors: int | None = None) -> int:
    """Start a program (its first word is a path) in a session of its own; its process id. `output` and `errors` are
    descriptors of memory files. Raises OSError where it cannot be run, ValueError on words that hold a NUL."""
    actions = (
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0) if errors is None else (os.POSIX_SPAWN_DUP2, errors, 2),
    )
    return os.posix_spawn(
        program[0], program, environ, file_actions=actions, setsid=True, setsigmask=(), setsigdef=(SIGPIPE,)
    )


def start(argv: tuple[str, ...], timeout_s: float) -> Running:
    """Start argv beside us; its time runs from now. Never raises: an absent program is a failed one."""
    program = _program(argv)
    if program is None:
        return Answered(Collected("failed"))
    if argv[0] in OWN and abandoned:
        return Answered(Collected("hung"))
    handle = -1
    try:
        handle = os.memfd_create("rig-child")
        pid = spawn(program, ENVIRONMENT, handle)
    except (OSError, ValueError):
        if handle >= 0:
            os.close(handle)
        return Answered(Collected("failed"))
    return Child(argv[0], pid, handle, time.monotonic() + timeout_s, [])


def output(argv: tuple[str, ...], timeout_s: float) -> str | None:
    """Standard output of a program that ended with 0 in time; None otherwise. At most READ_LIMIT bytes."""
    answer = start(argv, timeout_s).collect()
    return answer.output if answer.state == "ok" else None


def ended(pid: int) -> bool:
    """Whether the child has ended; it stays a zombie, so that its process group keeps its number."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # somebody else reaped it


def _wait(child: Child, until: float) -> bool:
    """Whether the child ended before `until` (monotonic seconds); a child that writes more than we read is not waited
    for."""
    pause = 0.0005
    while not ended(child.pid):
        if time.monotonic() >= until or os.fstat(child.handle).st_size > READ_LIMIT:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)
    return True


def signal_group(pid: int, number: int) -> None:
    """Send a signal to the process group that a child leads."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or became somebody else


class Ending:
    """How a child is ended: TERM, GRACE_S later KILL, GRACE_S later it is left. Asked again and again, so that many
    children can be on this way side by side."""

    def __init__(self, signals: tuple[int, ...] = (SIGTERM, SIGKILL)) -> None:
        self.signals, self.next_at = signals, 0.0

    def step(self, now: float, send: Callable[[int], None]) -> bool:
        """Send what is due at `now` (monotonic seconds); False once nothing that was sent has ended it in time."""
        if now < self.next_at:
            return True
        if not self.signals:
            return False
        send(self.signals[0])
        self.signals, self.next_at = self.signals[1:], now + GRACE_S
        return True


def end(children: Iterable[Child]) -> None:
    """End children, all side by side: many cost the time of one. Those that nothing ends are named in `abandoned`."""
    left = [(child, Ending()) for child in children]
    while left := [(child, ending) for child, ending in left if not ended(child.pid)]:
        for child, ending in tuple(left):
            if not ending.step(time.monotonic(), child.signal):
                abandoned.append(child.name)
                left.remove((child, ending))
        time.sleep(0.005)


def _collect(child: Child) -> Collected:
    in_time = _wait(child, child.deadline)
    if not in_time:
        end((child,))
    return close(child, in_time)


def close(child: Child, in_time: bool) -> Collected:
    """Let go of a child, whether it has ended or not: what became of it."""
    status = None
    if ended(child.pid):
        signal_group(child.pid, SIGKILL)  # what it forked and left
        try:
            status = os.waitpid(child.pid, 0)[1]
        except ChildProcessError:
            status = None
    try:
        written = os.pread(child.handle, READ_LIMIT, 0).decode("utf-8", "replace")
    finally:
        os.close(child.handle)
    if not in_time:
        return Collected("hung", written)
    return Collected("ok" if status == 0 else "failed", written)
