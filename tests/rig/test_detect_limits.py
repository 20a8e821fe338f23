"""Limits of the process and of its control groups."""

import pytest

from rig.captured import Captured
from rig.detect import limits
from rig.machine import UNLIMITED, Limits
from rig.root import Space
from tests.machines.paper import Paper

LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 1048576              files
Max locked memory         8388608              unlimited            bytes
"""


# --- limits


def test_soft_limits_count() -> None:
    assert limits.parse_limits(LIMITS) == {"Max open files": 1024, "Max locked memory": 8388608}
    assert limits.parse_limits(LIMITS.replace("8388608  ", "unlimited"))["Max locked memory"] == UNLIMITED
    assert limits.parse_limits("garbage\n\0\1\2") == {} == limits.parse_limits(None)


def look(paper: Paper, allowed: str | None = "0-7") -> Limits:
    return limits.read_limits(Captured(paper.done()), allowed)


def test_the_smaller_of_quota_and_affinity_is_the_number_of_cpus() -> None:
    paper = Paper()
    paper.cgroup(cpu="250000 100000", memory="1073741824", pids="100")
    assert look(paper)[4:] == (2.5, 1 << 30, 100)
    paper.cgroup(cpu="1600000 100000")
    assert look(paper).cpus == 8.0


def test_a_limit_of_a_group_above_counts() -> None:
    paper = Paper()
    paper.cgroup()
    paper.file("/proc/self/cgroup", "0::/slice/job")
    paper.file("/sys/fs/cgroup/slice/memory.max", "2147483648")
    paper.file("/sys/fs/cgroup/slice/job/memory.max", "max")
    assert look(paper).memory_bytes == 1 << 31


def test_the_old_hierarchies() -> None:
    paper = Paper()
    folder = "/sys/fs/cgroup"
    paper.file("/proc/self/cgroup", "4:memory:/docker/1", "3:pids:/docker/1", "2:cpu,cpuacct:/docker/1")
    paper.file(f"{folder}/cpu/cpu.cfs_quota_us", "-1")
    paper.file(f"{folder}/cpu/cpu.cfs_period_us", "100000")
    paper.file(f"{folder}/memory/memory.limit_in_bytes", "9223372036854771712")
    paper.file(f"{folder}/pids/pids.max", "max")
    assert look(paper)[4:] == (8.0, UNLIMITED, UNLIMITED)
    paper.file(f"{folder}/cpu/cpu.cfs_quota_us", "50000")
    paper.file(f"{folder}/memory/memory.limit_in_bytes", "536870912")
    assert look(paper)[4:6] == (0.5, 1 << 29)


def test_nothing_known_is_nothing_said() -> None:
    assert look(Paper(), None) == Limits()


@pytest.mark.parametrize("text", ["-5", "lots", "\0", "", "1.5", "99999999999999999999999999"])
def test_absurd_amounts_are_unknown(text: str) -> None:
    assert limits.parse_amount(text) is None


@pytest.mark.parametrize("text", ["max", "max x", "100000 0", "100000 -1", "a b", "", "1 2 3"])
def test_absurd_quotas_are_unknown_or_none(text: str) -> None:
    assert limits.parse_cpu_max(text) is None


def test_shared_memory_is_measured() -> None:
    paper = Paper()
    paper.tree.folder("/dev/shm")
    paper.tree.spaces["/dev/shm"] = Space(67108864, 1000)
    assert look(paper)[2:4] == (67108864, 1000)


# --- surroundings
