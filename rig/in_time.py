"""The running machine, for one that has little time: all programs that are started through it have one end.

A level of `rig check` has a time for everything, and detectors give their children times of their own, the driver's
longer than the whole of the level quick. What had its own time and did not end is "hung"; what was ended here before
says nothing about what it asked, and is "cut".
"""

import time
from signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask

from rig import child
from rig.children import ENDING
from rig.lean import NamedTuple
from rig.root import Answered, Collected, Live, Running


class InTime(Live):
    """The running machine; no program runs longer than `until` (monotonic seconds)."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self.until = until
        self._started: list[child.Child] = []

    @property
    def left_s(self) -> float:
        return self.until - time.monotonic()

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        answer = self.start(argv, timeout_s).collect()
        return answer.output if answer.state == "ok" else None

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        left = self.left_s
        if left <= 0:
            return Answered(Collected("cut"))
        held = pthread_sigmask(SIG_BLOCK, ENDING)  # one that comes now must not part the child from our list
        try:
            running = child.start(argv, min(timeout_s, left))
            if isinstance(running, child.Child):
                self._started.append(running)
        finally:
            pthread_sigmask(SIG_SETMASK, held)
        return _Bounded(self, running, timeout_s > left) if isinstance(running, child.Child) else running

    def end_all(self) -> None:
        """End what still runs, all side by side: children that hang together cost the time of one. Of what has ended
        by itself the answer is kept, and what that forked and left is ended."""
        late = [one for one in self._started if not one.answers and not child.ended(one.pid)]
        child.end(late)
        for one in late:
            one.answers.append(child.close(one, in_time=False))
        for one in self._started:
            one.collect()


class _Bounded(NamedTuple):
    """A child whose time may be that of all (`cut`). One that even KILL did not end is hung, whatever its time was."""

    root: InTime
    running: child.Child
    cut: bool

    def collect(self) -> Collected:
        if self.root.left_s <= 0:
            self.root.end_all()
        answer = self.running.collect()
        late = self.cut and self.root.left_s <= 0 and self.running.name not in child.abandoned
        return answer._replace(state="cut") if late and answer.state == "hung" else answer
