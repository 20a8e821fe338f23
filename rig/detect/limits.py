"""Limits of this process: rlimits, /dev/shm, control groups of either version, CPU affinity.

Sources: fs/proc/base.c (limits), Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/, proc(5).
"""

from rig.machine import UNLIMITED, Limits
from rig.root import Root
from rig.text import count_of_list, line, whole

CGROUP = "/sys/fs/cgroup"
NO_LIMIT_V1 = 1 << 60  # cgroup v1 prints LONG_MAX rounded down to a page for "no limit"


def parse_limits(text: str | None) -> dict[str, int]:
    """Soft limits by name, of /proc/self/limits: columns `Max locked memory  65536  65536  bytes`."""
    found = {}
    for entry in (text or "").splitlines()[1:]:
        name, values = entry[:26].strip(), entry[26:].split()
        if name and values:
            number = UNLIMITED if values[0] == "unlimited" else whole(values[0])
            if number is not None:
                found[name] = number
    return found


def parse_groups(text: str | None) -> dict[str, str]:
    """Controller -> path, of /proc/self/cgroup; the unified hierarchy has the name "" (`0::/path`)."""
    found = {}
    for entry in (text or "").splitlines():
        parts = entry.split(":", 2)
        if len(parts) == 3 and parts[2].startswith("/") and ".." not in parts[2]:
            for controller in parts[1].split(","):
                found[controller] = parts[2].rstrip("/")
    return found


def parse_amount(text: str | None) -> int | None:
    """Bytes or a count; `max` and v1's huge number are UNLIMITED."""
    first = line(text, 24)
    if first in ("max", "-1"):
        return UNLIMITED
    number = whole(first, 0, (1 << 64) - 1)
    return UNLIMITED if number is not None and number >= NO_LIMIT_V1 else number


def parse_cpu_max(text: str | None) -> float | None:
    """CPUs of cgroup v2's `400000 100000` (quota and period in microseconds); `max 100000` is UNLIMITED."""
    words = (line(text, 48) or "").split()
    if len(words) != 2:
        return None
    return quota(words[0], words[1])


def quota(quota_us: str | None, period_us: str | None) -> float | None:
    """CPUs; v1 writes -1 for no quota."""
    amount, period = parse_amount(quota_us), whole(period_us, 1, 1 << 40)
    if amount is None or period is None:
        return None
    return float(UNLIMITED) if amount == UNLIMITED else amount / period


def least(values: list[int | float | None]) -> int | float | None:
    """The smallest real limit; UNLIMITED when all known ones are; None when none is known."""
    known = [value for value in values if value is not None]
    real = [value for value in known if value != UNLIMITED]
    return min(real) if real else (UNLIMITED if known else None)


def ancestors(path: str) -> list[str]:
    """A control group and those above it; a limit anywhere on the way counts.

    In a container's own cgroup namespace the path is `/`; with the host's namespace the path may not exist below the
    container's mount, which is then its group.
    """
    found = [""]
    for part in path.split("/")[1:17]:
        if part:
            found.append(f"{found[-1]}/{part}")
    return found


def read_v2(root: Root, path: str) -> tuple[int | float | None, int | float | None, int | float | None]:
    """(CPUs, memory bytes, processes) of the unified hierarchy."""
    folders = [CGROUP + group for group in ancestors(path)]
    return (
        least([parse_cpu_max(root.read(f"{folder}/cpu.max")) for folder in folders]),
        least([parse_amount(root.read(f"{folder}/memory.max")) for folder in folders]),
        least([parse_amount(root.read(f"{folder}/pids.max")) for folder in folders]),
    )


def read_v1(root: Root, groups: dict[str, str]) -> tuple[int | float | None, int | float | None, int | float | None]:
    """(CPUs, memory bytes, processes) of the old hierarchies, one mount for each controller."""
    cpu = [f"{CGROUP}/cpu{group}" for group in ancestors(groups.get("cpu", ""))]
    memory = [f"{CGROUP}/memory{group}" for group in ancestors(groups.get("memory", ""))]
    pids = [f"{CGROUP}/pids{group}" for group in ancestors(groups.get("pids", ""))]
    return (
        least([quota(line(root.read(f"{at}/cpu.cfs_quota_us")), root.read(f"{at}/cpu.cfs_period_us")) for at in cpu]),
        least([parse_amount(root.read(f"{at}/memory.limit_in_bytes")) for at in memory]),
        least([parse_amount(root.read(f"{at}/pids.max")) for at in pids]),
    )


def read_limits(root: Root, allowed: str | None) -> Limits:
    """The limits. `allowed` is Cpus_allowed_list of /proc/self/status: the cpuset and affinity of this process."""
    told = parse_limits(root.read("/proc/self/limits"))
    groups = parse_groups(root.read("/proc/self/cgroup"))
    if root.link(f"{CGROUP}/cgroup.controllers") is not None:
        cpus, memory, pids = read_v2(root, groups.get("", ""))
    else:
        cpus, memory, pids = read_v1(root, groups)
    shm = root.space("/dev/shm")
    fewest = least([cpus, count_of_list(allowed)])
    return Limits(
        told.get("Max locked memory"),
        told.get("Max open files"),
        None if shm is None else shm.total_bytes,
        None if shm is None else shm.free_bytes,
        None if fewest is None else float(fewest),
        None if memory is None else int(memory),
        None if pids is None else int(pids),
    )
