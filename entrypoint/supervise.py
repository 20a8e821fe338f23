"""Starts one process for each rank, passes signals on, and ends as the job ended.

Why not DeepSpeed's launcher or torchrun: docs/decisions/0002-what-starts-the-ranks.md. Each rank lives in a session of
its own, so that a signal to the process group (`tini -g`, Ctrl-C) reaches it exactly once, through this process: a
second SIGTERM would end a program that is just writing its checkpoint. The signal goes to the rank, not to its data
loader workers, whose death would end the rank before it could write.
"""

import os
import signal
import time

from rig.emit import to_json
from rig.ending import Surrounds, describe, exit_code, oom_kills, signal_name
from rig.lean import Any, Callable, NamedTuple, Sequence
from rig.root import Live

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (*STOPS, signal.SIGUSR1, signal.SIGUSR2)
AWAITED = (*PASSED_ON, signal.SIGCHLD)
# An interpreter ignores these two; a program expects them as they were.
PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)
SETPRIV = "/usr/bin/setpriv"  # util-linux; sets the signal that a rank gets when this process is killed
OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")


class Start(NamedTuple):
    """One rank to start: the program (absolute path), its words and its whole environment."""

    rank: int
    program: str
    argv: tuple[str, ...]
    environment: dict[str, str]


class Rank:
    """A rank that was started: its process, and how it ended (None: it runs)."""

    def __init__(self, rank: int, pid: int) -> None:
        self.rank, self.pid = rank, pid
        self.started, self.ended = time.time(), None  # type: float, float | None
        self.status: int | None = None
        self.stopped = False  # by rig: it has sent SIGTERM, because another rank failed

    def told(self) -> dict[str, Any]:
        code = None if self.status is None else exit_code(self.status)
        return {"rank": self.rank, "pid": self.pid, "started": self.started, "ended": self.ended, "code": code}


class Supervisor:
    """The life of the ranks of one node, from start to the exit code of the job."""

    def __init__(self, grace_s: float, say: Callable[[str], None], record: Callable[[str], None]) -> None:
        self.grace_s, self.say, self.record = grace_s, say, record
        self.ranks: list[Rank] = []
        self.code = 0  # of the first rank that failed
        self.asked_to_stop = False  # from outside: then the ranks may take the time they need
        self.deadline: float | None = None

    def run(self, starts: Sequence[Start]) -> int:
        """Start every rank, wait for all of them, return the exit code: 0 only if each was started and ended with 0."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignores it would leave us without exit codes
        before = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
        for start in starts:
            if not self._start(start, before):
                break
        self._write()
        while self.living():
            self._wait()
        return self.code

    def living(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.status is None]

    def _start(self, start: Start, mask: set[Any]) -> bool:
        argv = (start.program, *start.argv)
        if os.access(SETPRIV, os.X_OK):
            argv = (SETPRIV, "--pdeathsig", "KILL", "--", *argv)
        # One rank can have the terminal: the first, for a debugger.
        closed = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)] if self.ranks else []
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                start.environment,
                setsid=True,
                setsigmask=mask,
                setsigdef=PYTHON_IGNORES,
                file_actions=closed,
            )
        except OSError as error:
            self.say(f"rank {start.rank} could not be started: {error.strerror}")
            self._fail(126)
            return False
        self.ranks.append(Rank(start.rank, pid))
        return True

    def _wait(self) -> None:
        left = None if self.deadline is None else self.deadline - time.monotonic()
        if left is not None and left <= 0:
            self._kill()
            left = None
        got = signal.sigwaitinfo(AWAITED) if left is None else signal.sigtimedwait(AWAITED, left)
        if got is None:
            return
        if got.si_signo in PASSED_ON:
            self._pass_on(got.si_signo)
        self._reap()

    def _pass_on(self, number: int) -> None:
        living = self.living()
        for rank in living:
            if not (rank.stopped and number == signal.SIGTERM):  # a second one would end it at its checkpoint
                _send(rank.pid, number)
        if number in STOPS:
            self.asked_to_stop = True
            if number == signal.SIGTERM:
                self.deadline = None  # whoever stops the container has a limit; a person at Ctrl-C has none
            self.say(f"{signal_name(number)} passed on to {len(living)} ranks; waiting for them to end")

    def _reap(self) -> None:
        """Take in every process that ended; two ends may share one SIGCHLD."""
        ended = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended += [(rank, status) for rank in self.ranks if rank.pid == pid]
        for rank, status in ended:
            rank.status, rank.ended = os.waitstatus_to_exitcode(status), time.time()
            if rank.status != 0:
                self._failed(rank, rank.status)
        if ended:
            self._write()

    def _failed(self, rank: Rank, status: int) -> None:
        if self.code and rank.stopped and -status in (signal.SIGTERM, signal.SIGKILL):
            return  # we ended it; the first that failed is the news
        self.say(f"rank {rank.rank} {describe(status, _surrounds() if status < 0 else Surrounds())}")
        self._fail(exit_code(status))

    def _fail(self, code: int) -> None:
        if self.code:
            return
        self.code = code
        living = self.living()
        if self.asked_to_stop or not living:
            return
        self.say(f"stopping the other {len(living)}: SIGTERM now, SIGKILL after {self.grace_s:g} s (RIG_GRACE)")
        for other in living:
            other.stopped = True
            _send(other.pid, signal.SIGTERM)
        self.deadline = time.monotonic() + self.grace_s

    def _kill(self) -> None:
        living = self.living()
        self.say(f"SIGKILL after {self.grace_s:g} s: rank {', '.join(str(rank.rank) for rank in living)}")
        for rank in living:
            _send(-rank.pid, signal.SIGKILL)
        self.deadline = None

    def _write(self) -> None:
        self.record(to_json([rank.told() for rank in self.ranks]))


def _send(pid: int, number: int) -> None:
    """Send a signal to a process, or to its whole group (negative); one that has ended meanwhile is no error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError:  # a rank that changed its user
        return


def _surrounds() -> Surrounds:
    root = Live()
    space = root.space("/dev/shm")
    counted = next((count for path in OOM_COUNTERS if (count := oom_kills(root.read(path))) is not None), None)
    return Surrounds(counted, space.total_bytes if space else None)
