"""The operating system around training: memory, clock, ECC of the main memory, clock governors, limits.

Sources: proc(5) (meminfo, uptime, status, limits, sys), adjtimex(2) in a child (clock_child.py),
Documentation/admin-guide/RAS (edac), Documentation/admin-guide/pm/cpufreq.rst, net/core/sysctl_net_core.c.
"""

from rig.lean import NamedTuple
from rig.machine import UNLIMITED
from rig.root import Collected, Root, Running
from rig.text import line, parse_status, whole

TIMEOUT_S = 3.0
KERNEL = "/proc/sys/kernel/"
CPUFREQ = "/sys/devices/system/cpu/cpufreq"
EDAC = "/sys/devices/system/edac/mc"
NET_CORE = "/proc/sys/net/core/"
TIME_ERROR, STA_UNSYNC = 5, 0x0040  # include/uapi/linux/timex.h
UNKNOWN_ERROR_US = 16_000_000  # NTP_PHASE_LIMIT: what the kernel says when nobody has told it


class SystemFacts(NamedTuple):
    """Fields of rig.host.Host, under the same names."""

    uptime_s: float | None = None
    clock_synced: bool | None = None
    clock_error_us: int | None = None
    edac_uncorrected: int | None = None
    edac_corrected: int | None = None
    governors: tuple[str, ...] | None = None
    governor_drivers: tuple[str, ...] | None = None
    hugepages_bytes: int | None = None
    memory_bytes: int | None = None
    memory_available_bytes: int | None = None
    seccomp: int | None = None
    stack_bytes: int | None = None
    core_bytes: int | None = None
    process_limit: int | None = None
    cpuset: str | None = None
    shared_network: bool | None = None
    overcommit: int | None = None
    mappings: int | None = None
    core_pattern: str | None = None


def start_clock(root: Root) -> Running:
    """Start asking the kernel about its clock."""
    return root.start(("rig-clock",), TIMEOUT_S)


def parse_clock(collected: Collected) -> tuple[bool | None, int | None]:
    """(synchronised, largest error in microseconds) of `clock RETURN STATUS MAXERROR`."""
    words = (line(collected.output) or "").split()
    numbers = [whole(word) for word in words[1:]]
    if collected.state != "ok" or words[:1] != ["clock"] or len(numbers) != 3:
        return None, None
    state, status, error = numbers
    if state is None or status is None:
        return None, None
    return state != TIME_ERROR and not status & STA_UNSYNC, error if (error or 0) < UNKNOWN_ERROR_US else None


def parse_meminfo(text: str | None) -> dict[str, int]:
    """Name -> bytes; lines without `kB` (HugePages_Total) are counts."""
    found = {}
    for entry in (text or "").splitlines():
        name, colon, value = entry.partition(":")
        words = value.split()
        number = whole(words[0]) if colon and words else None
        if number is not None:
            found[name.strip()] = number << 10 if words[1:] == ["kB"] else number
    return found


def hugepages(told: dict[str, int]) -> int | None:
    """Reserved huge pages in bytes; `Hugetlb` (4.16 and later) counts those of every size."""
    if "Hugetlb" in told:
        return told["Hugetlb"]
    count, size = told.get("HugePages_Total"), told.get("Hugepagesize")
    return None if count is None or size is None else count * size


def parse_uptime(text: str | None) -> float | None:
    """Seconds since boot."""
    first = (line(text, 64) or "").partition(" ")[0]
    seconds, _, rest = first.partition(".")
    number = whole(seconds)
    return None if number is None or (rest and not rest.isdecimal()) else float(first)


def parse_limit(text: str | None, name: str) -> int | None:
    """A soft limit of /proc/self/limits by its name there; -1 for unlimited."""
    for entry in (text or "").splitlines():
        if entry.startswith(name + " "):
            first = entry[len(name) :].split()[:1]
            return UNLIMITED if first == ["unlimited"] else whole(first[0]) if first else None
    return None


def read_edac(root: Root) -> tuple[int | None, int | None]:
    """(uncorrected, corrected) errors of all memory controllers; None where none is watched or to be seen."""
    counts: dict[str, list[int]] = {"ue_count": [], "ce_count": []}
    for name in root.ls(EDAC):
        if name[:2] == "mc" and name[2:].isdigit():
            for kind, found in counts.items():
                count = whole(line(root.read(f"{EDAC}/{name}/{kind}"), 20))
                if count is not None:
                    found.append(count)
    uncorrected, corrected = counts.values()
    return sum(uncorrected) if uncorrected else None, sum(corrected) if corrected else None


def read_governors(root: Root) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The different governors and cpufreq drivers in use; empty without cpufreq (a guest), None without sysfs."""
    if not root.ls("/sys/devices/system/cpu"):
        return None, None
    policies = [name for name in root.ls(CPUFREQ) if name.startswith("policy")]
    found = []
    for file in ("scaling_governor", "scaling_driver"):
        told = (line(root.read(f"{CPUFREQ}/{name}/{file}"), 40) for name in policies)
        found.append(tuple(sorted({text for text in told if text is not None})))
    return found[0], found[1]


def read_shared_network(root: Root) -> bool | None:
    """Whether this network namespace is the host's. The kernel registers a part of net.core only there, and each
    process sees the settings of its own namespace; None where /proc/sys/net is hidden."""
    if root.link(NET_CORE + "somaxconn") is None:
        return None
    return root.link(NET_CORE + "netdev_max_backlog") is not None


def read_system(root: Root, clock: Running) -> SystemFacts:
    """Everything about the operating system; `clock` is asked last."""
    memory = parse_meminfo(root.read("/proc/meminfo"))
    status = parse_status(root.read("/proc/self/status"))
    limits = root.read("/proc/self/limits")
    edac, governors = read_edac(root), read_governors(root)
    facts = SystemFacts(
        uptime_s=parse_uptime(root.read("/proc/uptime")),
        edac_uncorrected=edac[0],
        edac_corrected=edac[1],
        governors=governors[0],
        governor_drivers=governors[1],
        hugepages_bytes=hugepages(memory),
        memory_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        seccomp=whole(status.get("Seccomp"), 0, 2),
        stack_bytes=parse_limit(limits, "Max stack size"),
        core_bytes=parse_limit(limits, "Max core file size"),
        process_limit=parse_limit(limits, "Max processes"),
        cpuset=line(status.get("Cpus_allowed_list"), 4096),
        shared_network=read_shared_network(root),
        overcommit=whole(line(root.read("/proc/sys/vm/overcommit_memory"), 8), 0, 2),
        mappings=whole(line(root.read("/proc/sys/vm/max_map_count"), 20)),
        core_pattern=line(root.read(KERNEL + "core_pattern")),
    )
    synced, error = parse_clock(clock.collect())
    return facts._replace(clock_synced=synced, clock_error_us=error)
