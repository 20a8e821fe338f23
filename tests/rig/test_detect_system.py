"""Memory, clock, EDAC, governors, limits, the network namespace."""

from typing import Any

import pytest

from rig import child
from rig.captured import Captured, parse
from rig.detect import clock_child, system
from rig.root import Answered, Collected

TREE = """rig-capture 1
/proc
  uptime = 12345.67 54321.00
  meminfo |
    MemTotal:       2113929216 kB
    MemAvailable:   2000000000 kB
    HugePages_Total:       512
    Hugepagesize:         2048 kB
    Hugetlb:           3145728 kB
/proc/self
  status |
    Name:	python3
    Cpus_allowed_list:	0-3,8
    Seccomp:	2
  limits |
    Limit                     Soft Limit           Hard Limit           Units
    Max stack size            8388608              unlimited            bytes
    Max core file size        unlimited            unlimited            bytes
    Max processes             4096                 96365                processes
/proc/sys/vm
  overcommit_memory = 1
  max_map_count = 65530
/proc/sys/kernel
  core_pattern = |/usr/lib/systemd/systemd-coredump %P
/proc/sys/net/core
  somaxconn = 4096
  netdev_max_backlog = 1000
/sys/devices/system/cpu
  online = 0-7
/sys/devices/system/cpu/cpufreq/policy0
  scaling_governor = powersave
  scaling_driver = intel_pstate
/sys/devices/system/cpu/cpufreq/policy1
  scaling_governor = performance
  scaling_driver = intel_pstate
/sys/devices/system/edac/mc
  power !
/sys/devices/system/edac/mc/mc0
  ue_count = 1
  ce_count = 7
/sys/devices/system/edac/mc/mc1
  ue_count = 0
  ce_count = 5
$ ok rig-clock
    clock 0 8193 1234
"""


def read(text: str) -> system.SystemFacts:
    root = Captured(parse(text))
    return system.read_system(root, system.start_clock(root))


def test_a_node_as_the_kernel_shows_it() -> None:
    assert read(TREE) == system.SystemFacts(
        uptime_s=12345.67,
        clock_synced=True,
        clock_error_us=1234,
        edac_uncorrected=1,
        edac_corrected=12,
        governors=("performance", "powersave"),
        governor_drivers=("intel_pstate",),
        hugepages_bytes=3 << 30,
        memory_bytes=2113929216 << 10,
        memory_available_bytes=2000000000 << 10,
        seccomp=2,
        stack_bytes=8388608,
        core_bytes=-1,
        process_limit=4096,
        cpuset="0-3,8",
        shared_network=True,
        overcommit=1,
        mappings=65530,
        core_pattern="|/usr/lib/systemd/systemd-coredump %P",
    )


def test_where_nothing_is_to_be_seen_nothing_is_known() -> None:
    assert read("rig-capture 1\n") == system.SystemFacts()


def test_a_guest_without_cpufreq_has_no_governor() -> None:
    assert read("rig-capture 1\n/sys/devices/system/cpu\n  online = 0-1\n").governors == ()


def test_a_namespace_of_its_own_lacks_the_hosts_settings() -> None:
    assert read("rig-capture 1\n/proc/sys/net/core\n  somaxconn = 4096\n").shared_network is False


@pytest.mark.parametrize(
    ("state", "output", "told"),
    [
        ("ok", "clock 0 1 500\n", (True, 500)),
        ("ok", "clock 5 64 16000000\n", (False, None)),  # what a kernel says that nobody has told the time
        ("ok", "clock 0 64 500\n", (False, 500)),
        ("ok", "clock 5 0 500\n", (False, 500)),
        ("ok", "", (None, None)),  # seccomp refused
        ("ok", "clock 0 1\n", (None, None)),
        ("ok", "clock x 1 500\n", (None, None)),
        ("ok", "cluck 0 1 500\n", (None, None)),
        ("hung", "clock 0 1 500\n", (None, None)),
        ("failed", "", (None, None)),
        ("unasked", "", (None, None)),
    ],
)
def test_what_the_kernel_says_of_its_clock(state: str, output: str, told: tuple[bool | None, int | None]) -> None:
    assert system.parse_clock(Answered(Collected(state, output)).collect()) == told


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5.25 1.0\n", 5.25), ("5 1\n", 5.0), ("x 1\n", None), ("-5.0 1\n", None), (None, None), ("5.x", None)],
)
def test_uptime(text: str | None, seconds: float | None) -> None:
    assert system.parse_uptime(text) == seconds


def test_huge_pages_of_a_kernel_that_does_not_sum_them() -> None:
    told = system.parse_meminfo("HugePages_Total:     512\nHugepagesize:    2048 kB\nBad line\nX: y kB\n")
    assert told == {"HugePages_Total": 512, "Hugepagesize": 2 << 20}
    assert system.hugepages(told) == 1 << 30
    assert system.hugepages({}) is None


@pytest.mark.parametrize("text", [None, "", "Max stack size", "Max stack size   x   y bytes", "Max stack sizes 1 2 b"])
def test_a_limit_that_is_not_there(text: str | None) -> None:
    assert system.parse_limit(text, "Max stack size") is None


# --- the program


class Library:
    """A libc whose adjtimex answers as told."""

    def __init__(self, code: int, status: int = 0, error: int = 0) -> None:
        self.told = code, status, error

    def adjtimex(self, pointer: Any) -> int:
        code, pointer._obj.status, pointer._obj.maxerror = self.told
        assert pointer._obj.modes == 0  # nothing is set
        return code


def test_the_program_tells_what_adjtimex_says() -> None:
    assert clock_child.answer(Library(0, 8193, 777)) == "clock 0 8193 777"
    assert clock_child.answer(Library(-1)) is None  # EPERM, ENOSYS
    assert clock_child.answer(object()) is None  # a libc without it


def test_the_program_runs_here() -> None:
    answer = child.start(("rig-clock",), 10).collect()
    assert answer.state == "ok"
    synced, error = system.parse_clock(answer)
    assert answer.output == "" or (synced in (True, False) and (error is None or error >= 0))
