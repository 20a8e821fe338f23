"""Many children at once, each with a deadline and all within one, so that looking at a machine always ends.

A child leads a session of its own and writes into memory. When its time is over it is sent TERM, then KILL, and what
even KILL does not end (a driver call in state D) is left alone, named with its process id and the kernel function it
waits in. All whose time is over are ended side by side: forty that hang cost no more time than one.
"""

import os
import time
from signal import SIG_BLOCK, SIG_SETMASK, SIGHUP, SIGINT, SIGTERM, pthread_sigmask

from rig.child import SIGKILL, Ending, abandoned, ended, signal_group, spawn
from rig.lean import Callable, Iterable, Mapping, NamedTuple, Protocol
from rig.root import READ_LIMIT

POLL_S = 0.01
ENDING = (SIGTERM, SIGHUP, SIGINT)  # what ends a run, by an exception
LAST_LINES, LAST_CHARACTERS = 3, 300  # of the error output, kept as the reason of a failure


class Job(NamedTuple):
    """A program to run; the first word of `argv` is a path. `driver`: it may touch the NVIDIA driver, so it runs
    beside no other such, and is not started after a child that never ended. `alone`: nothing runs beside it."""

    name: str
    argv: tuple[str, ...]
    timeout_s: float
    environ: Mapping[str, str]
    driver: bool = False
    alone: bool = False


class Ended(NamedTuple):
    """What became of a job. `state`: ok (it ended with 0), failed, unresponsive (its own time was over), absent (the
    program cannot be started), unasked (not started, or ended because the time of all was over). `output` is what it
    printed until then, at most READ_LIMIT bytes; `error` is one line: why."""

    name: str
    state: str
    output: str = ""
    error: str = ""
    seconds: float | None = None


class Handle(Protocol):
    """A started child, as `run_jobs` sees it."""

    def ended(self) -> bool:
        """Whether it has ended; never waits."""

    def written(self) -> int:
        """Bytes that it has printed."""

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it forked."""

    def where(self) -> str:
        """Process id, state and the kernel function that it waits in."""

    def close(self) -> "Said":
        """Let go of it, whether it has ended or not; what it printed until now."""


class Said(NamedTuple):
    """`status` as wait(2) gives it; None where the child has not ended, or somebody else waited for it."""

    status: int | None
    output: str
    errors: str


class Process(NamedTuple):
    """A real child: its process id, and the memory files of its two streams."""

    pid: int
    output: int
    errors: int

    def ended(self) -> bool:
        return ended(self.pid)

    def written(self) -> int:
        return max(os.fstat(self.output).st_size, os.fstat(self.errors).st_size)

    def signal(self, number: int) -> None:
        signal_group(self.pid, number)

    def where(self) -> str:
        state = (_stat(self.pid) or ["?"])[0]
        waits = _read(f"/proc/{self.pid}/wchan").strip("\0\n")
        return f"pid {self.pid}, state {state}" + (f", in {waits}" if waits not in ("", "0") else "")

    def close(self) -> Said:
        status = None
        if ended(self.pid):
            _kill_session(self.pid)  # what it forked and left; while it is a zombie its number is nobody else's
            try:
                status = os.waitpid(self.pid, os.WNOHANG)[1]
            except ChildProcessError:
                status = None
        texts = [os.pread(file, READ_LIMIT, 0).decode("utf-8", "replace") for file in (self.output, self.errors)]
        os.close(self.output)
        os.close(self.errors)
        return Said(status, *texts)


def begin(job: Job) -> Process:
    """Start a job's program. Raises OSError where it cannot be run, ValueError on words that hold a NUL."""
    output, errors = os.memfd_create("rig-output"), -1
    try:
        errors = os.memfd_create("rig-errors")
        return Process(spawn(job.argv, job.environ, output, errors), output, errors)
    except (OSError, ValueError):
        for file in filter(lambda file: file >= 0, (output, errors)):
            os.close(file)
        raise


def run_jobs(
    jobs: Iterable[Job],
    until: float | None,
    tell: Callable[[Ended], None],
    start: Callable[[Job], Handle] = begin,
) -> None:
    """Run every job, in order where they may not run side by side, those that run alone last; returns at most
    2 * GRACE_S after `until` (monotonic seconds; None: no limit). `tell` is called as each ends. Leaves no process
    behind but those in state D, not even when it is interrupted."""
    waiting, running = sorted(jobs, key=lambda job: job.alone), list[_Watched]()
    try:
        while waiting or running:
            waiting = _start_some(waiting, running, until, tell, start)
            for one in tuple(running):
                answer = one.look(time.monotonic())
                if answer is not None:
                    running.remove(one)
                    tell(answer)
            time.sleep(POLL_S if running else 0)
    finally:
        _end_all(running)


def _end_all(running: "list[_Watched]") -> None:
    """End what an interruption found running, with the same grace as at a deadline: a probe tidies up at TERM."""
    left = list(running)
    while left := [
        one for one in left if not one.handle.ended() and one.ending.step(time.monotonic(), one.handle.signal)
    ]:
        time.sleep(POLL_S)
    for one in running:
        one.handle.close()


def _start_some(
    waiting: list[Job],
    running: "list[_Watched]",
    until: float | None,
    tell: Callable[[Ended], None],
    start: Callable[[Job], Handle],
) -> list[Job]:
    """Start what may be started now; the jobs that still wait."""
    left: list[Job] = []
    for job in waiting:
        now = time.monotonic()
        if until is not None and now >= until:
            tell(Ended(job.name, "unasked", error="budget: no time was left to start it"))
        elif job.driver and abandoned:
            tell(Ended(job.name, "unasked", error=f"not started: {abandoned[0]} asked the driver and never ended"))
        elif _must_wait(job, running, left):
            left.append(job)
        elif (why := _start(job, running, until, start)) is not None:
            tell(Ended(job.name, "absent", error=f"{job.argv[0]}: {why}"))
    return left


def _start(job: Job, running: "list[_Watched]", until: float | None, start: Callable[[Job], Handle]) -> str | None:
    """Start it, or say why it cannot be. A signal that comes now waits, or it would part the child from the list."""
    began, held = time.monotonic(), pthread_sigmask(SIG_BLOCK, ENDING)
    try:
        running.append(_Watched(job, start(job), began, until))
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    finally:
        pthread_sigmask(SIG_SETMASK, held)
    return None


def _must_wait(job: Job, running: "list[_Watched]", before: list[Job]) -> bool:
    if job.alone:
        return bool(running or before)
    return any(one.job.alone or (one.job.driver and job.driver) for one in running)


class _Watched:
    """A child between its start and its end: told to run, then on the way that Ending goes."""

    def __init__(self, job: Job, handle: Handle, began: float, until: float | None) -> None:
        self.job, self.handle, self.began = job, handle, began
        own = began + job.timeout_s
        self.cut = until is not None and until < own  # not its own time is the limit, but that of all
        self.ends_at = own if until is None else min(own, until)
        self.ending = Ending()
        self.why: Ended | None = None  # what is said once it has ended, where it was ended by us

    def look(self, now: float) -> Ended | None:
        """What became of it, once that is known."""
        if self.handle.ended():
            return self._answer(now)
        if self.why is None and self.handle.written() > READ_LIMIT:  # a moment of grace would cost gigabytes
            self.why = Ended(self.job.name, "failed", error=f"it printed more than {READ_LIMIT} bytes, and was ended")
            self.ending = Ending((SIGKILL,))
        if self.why is None and now >= self.ends_at:
            self.why = self._late(now)
        if self.why is None or self.ending.step(now, self.handle.signal):
            return None
        return self._left(now)

    def _late(self, now: float) -> Ended:
        if self.cut:
            words = f"budget: ended after {now - self.began:.1f} s, when the time of all checks was over"
            return Ended(self.job.name, "unasked", error=words)
        return Ended(self.job.name, "unresponsive", error=f"did not end within {self.job.timeout_s:g} s")

    def _answer(self, now: float) -> Ended:
        said = self.handle.close()
        state, error = ("ok", "") if said.status == 0 else ("failed", _last_words(said))
        why = self.why or Ended(self.job.name, state, error=error)
        return why._replace(output=said.output, seconds=round(now - self.began, 3))

    def _left(self, now: float) -> Ended:
        where = self.handle.where()
        abandoned.append(self.job.name)
        said = self.handle.close()
        words = f"did not end, not even by KILL ({where}); it was left"
        return Ended(self.job.name, "unresponsive", said.output, words, round(now - self.began, 3))


def _last_words(said: Said) -> str:
    """The end of the error output as one line, else the exit code."""
    lines = [" ".join(line.split()) for line in said.errors.splitlines() if line.strip()]
    if lines:
        return "; ".join(lines[-LAST_LINES:])[-LAST_CHARACTERS:]
    if said.status is None:
        return "nothing is known of its end"
    code = os.waitstatus_to_exitcode(said.status)
    return f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _kill_session(leader: int) -> None:
    """KILL what is left of a session: its first process group, and others that were made in it (a shell's jobs)."""
    signal_group(leader, SIGKILL)
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if pid != leader and _stat(pid)[3:4] == [str(leader)]:
            try:
                os.kill(pid, SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue  # it is gone, or became somebody else


def _stat(pid: int) -> list[str]:
    """State, parent, group, session, ... of a process (proc_pid_stat(5)); empty where there is none."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
