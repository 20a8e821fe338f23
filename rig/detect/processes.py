"""Processes that hang: in state D (uninterruptible sleep), or dead and never collected (zombies).

Only /proc/PID/stat and /proc/PID/status are read: cmdline takes the process's memory lock, which a process that hangs
in a fault holds, so reading it would hang too. Source: proc(5), fs/proc/array.c.
"""

import time

from rig.host import Stuck
from rig.lean import Callable, NamedTuple
from rig.root import Root
from rig.text import line, whole

PAUSES_S = (0.5, 1.5)  # a sleep in D that is shorter is a disk doing its work
TICKS = 100  # USER_HZ, in which procfs tells times on x86 and Arm
HANGING = ("D", "Z")


class Seen(NamedTuple):
    """One process at one moment. `switches`: how often it has been scheduled; the same twice = it never woke."""

    pid: int
    comm: str
    state: str
    parent: int | None = None
    started: int | None = None  # ticks after boot
    switches: int | None = None


def parse_stat(text: str | None) -> Seen | None:
    """`7 (python3) D 1 ...`; comm may hold blanks and brackets, so the last bracket ends it."""
    if not text:
        return None
    head, bracket, tail = text.rpartition(")")
    number, _, comm = head.partition(" (")
    pid, fields = whole(number, 1, 1 << 31), tail.split()
    if not bracket or pid is None or len(fields) < 20:
        return None
    return Seen(pid, line(comm, 64) or "?", fields[0], whole(fields[1]), whole(fields[19]))


def parse_switches(text: str | None) -> int | None:
    """Voluntary and involuntary context switches of /proc/PID/status together."""
    total = None
    for entry in (text or "").splitlines():
        if entry.startswith(("voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")):
            count = whole(entry.partition(":")[2].strip())
            total = None if count is None else (total or 0) + count
    return total


def look(root: Root, pids: list[str], ours: str) -> dict[int, Seen]:
    """Those of the processes that are in one of HANGING now; not our own children, who wait to be asked."""
    found = {}
    for pid in pids:
        seen = parse_stat(root.read(f"/proc/{pid}/stat"))
        if seen is not None and seen.state in HANGING and str(seen.parent) != ours:
            found[seen.pid] = seen._replace(switches=parse_switches(root.read(f"/proc/{pid}/status")))
    return found


def read_stuck(root: Root, uptime_s: float | None, pause: Callable[[float], None] = time.sleep) -> tuple[Stuck, ...]:
    """Processes that hang before and after each pause, and did not run in between; pauses are made only while there
    are any. `uptime_s` of the kernel gives their age."""
    us = (root.read("/proc/self/stat") or "").partition(" ")[0]
    hang = look(root, [name for name in root.ls("/proc") if name.isdigit()], us)
    for seconds in PAUSES_S:
        if not hang or (seconds > PAUSES_S[0] and all(seen.state == "Z" for seen in hang.values())):
            break  # a zombie does not wake
        pause(seconds)
        again = look(root, [str(pid) for pid in sorted(hang)], us)
        hang = {pid: seen for pid, seen in again.items() if seen == hang[pid]}
    return tuple(Stuck(seen.pid, seen.comm, seen.state, age(seen, uptime_s)) for seen in hang.values())


def age(seen: Seen, uptime_s: float | None) -> float | None:
    """Seconds since a process started; None where the two clocks do not fit."""
    if uptime_s is None or seen.started is None or uptime_s * TICKS < seen.started:
        return None
    return uptime_s - seen.started / TICKS
