"""Processes that hang: seen twice, by their short name only."""

import pytest

from rig.captured import Captured, Tree, parse
from rig.detect import processes
from rig.host import Stuck

TAIL = "0 0 0 -1 0 0 0 0 0 3 4 0 0 20 0 1 0"  # fields 6 to 21 of /proc/PID/stat


def row(pid: int, comm: str, state: str, parent: int = 1, started: int = 100_000) -> str:
    return f"{pid} ({comm}) {state} {parent} {TAIL} {started} 0 0"


def node(*rows: str, switches: int = 5) -> Tree:
    text = "rig-capture 1\n/proc\n  meminfo = MemTotal: 1 kB\n/proc/self\n  stat = " + row(1000, "python3", "R") + "\n"
    for stat in rows:
        pid = stat.partition(" ")[0]
        text += f"/proc/{pid}\n  cmdline !\n  stat = {stat}\n  status |\n    Name:\tx\n"
        text += f"    voluntary_ctxt_switches:\t{switches}\n    nonvoluntary_ctxt_switches:\t2\n"
    return parse(text)


class Machine(Captured):
    """Shows `later` once somebody has paused; notes what was read."""

    def __init__(self, now: Tree, later: Tree) -> None:
        super().__init__(now)
        self.later = Captured(later)
        self.paused: list[float] = []
        self.asked: list[str] = []

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)

    def read(self, path: str) -> str | None:
        self.asked.append(path)
        return self.later.read(path) if self.paused else super().read(path)


def found(now: Tree, later: Tree | None = None, uptime_s: float | None = 5000.0) -> tuple[Stuck, ...]:
    machine = Machine(now, later or now)
    return processes.read_stuck(machine, uptime_s, machine.pause)


def test_a_process_that_sleeps_in_the_kernel_and_never_woke() -> None:
    tree = node(row(7, "nvidia-smi", "D"), row(8, "bash", "S"))
    assert found(tree) == (Stuck(7, "nvidia-smi", "D", 4000.0),)


def test_looks_are_half_a_second_and_more_apart_and_only_where_needed() -> None:
    quiet, hanging, dead = node(row(8, "bash", "S")), node(row(7, "x", "D")), node(row(7, "x", "Z"))
    for tree, pauses in ((quiet, []), (dead, [0.5]), (hanging, [0.5, 1.5])):
        machine = Machine(tree, tree)
        processes.read_stuck(machine, None, machine.pause)
        assert machine.paused == pauses


@pytest.mark.parametrize(
    "later",
    [
        node(row(7, "x", "S")),  # it woke
        node(row(7, "x", "D"), switches=6),  # it woke, and sleeps again: a disk at work
        node(row(7, "x", "D", started=200_000)),  # another process with its number
        node(row(9, "y", "D")),  # it ended
    ],
)
def test_a_short_sleep_is_not_told(later: Tree) -> None:
    assert found(node(row(7, "x", "D")), later) == ()


def test_zombies_are_told_and_our_own_children_are_not() -> None:
    tree = node(row(7, "python3", "Z"), row(8, "python3", "Z", parent=1000))
    assert [(one.pid, one.state) for one in found(tree)] == [(7, "Z")]


def test_the_command_line_is_never_read() -> None:
    machine = Machine(*[node(row(7, "x", "D"))] * 2)
    processes.read_stuck(machine, None, machine.pause)
    assert {path.rpartition("/")[2] for path in machine.asked} == {"stat", "status"}


@pytest.mark.parametrize(("uptime_s", "seconds"), [(None, None), (10.0, None), (1001.0, 1.0)])
def test_an_age_that_cannot_be_is_unknown(uptime_s: float | None, seconds: float | None) -> None:
    (one,) = found(node(row(7, "x", "D")), uptime_s=uptime_s)  # started after 1000 s
    assert one.seconds == seconds


@pytest.mark.parametrize("comm", ["a) D 1 (b", "tmux: server", "(sd-pam)", "x y"])
def test_any_short_name_will_do(comm: str) -> None:
    seen = processes.parse_stat(row(7, comm, "S"))
    assert seen is not None and (seen.comm, seen.state, seen.parent, seen.started) == (comm, "S", 1, 100_000)


@pytest.mark.parametrize("text", [None, "", "7", "7 (x)", "x (y) D " + TAIL * 2, "7 (x) D 1 2", "-1 (x) D " + TAIL * 2])
def test_garbage_is_no_process(text: str | None) -> None:
    assert processes.parse_stat(text) is None


def test_switches_are_both_kinds_together() -> None:
    assert processes.parse_switches("voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n") == 7
    assert processes.parse_switches(None) is None
    assert processes.parse_switches("voluntary_ctxt_switches:\tx\n") is None
