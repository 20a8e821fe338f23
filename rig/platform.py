"""/etc/rdma/network_topology.json: what the owner of a machine knows of its network and no file of the kernel tells.

Intent comes from here (role, rail, traffic class, subnet, the provider's settings, names of the nodes); facts (state,
speed, presence) come from detection. A file that is broken in any place is ignored as a whole with one line; the boot
goes on. The format is docs/network_topology.schema.json, in words docs/platform-file.md.
"""

from rig.finding import Finding
from rig.lean import NamedTuple
from rig.root import READ_LIMIT, Root

PATH = "/etc/rdma/network_topology.json"
SCHEMA_VERSION = 1
WARNINGS_AT_MOST = 8  # lines about one file at boot


class PlatformGpu(NamedTuple):
    bus_id: str
    index: int | None = None  # type: ignore[assignment]
    numa: int | None = None
    nvlink_domain: str | None = None


class PlatformNic(NamedTuple):
    """One port of one RDMA device, by name, by bus id, or both."""

    name: str | None = None
    bus_id: str | None = None
    port: int = 1
    role: str | None = None  # compute, storage, frontend, management
    rail: int | None = None
    link_layer: str | None = None  # infiniband, ethernet, efa
    speed_gbps: float | None = None
    netdev: str | None = None
    subnet: str | None = None  # CIDR; picks the GID
    gpu_affinity: tuple[str, ...] = ()  # bus ids of the GPUs below the same switch of the real host


class Rail(NamedTuple):
    id: int
    isolated: bool = False  # no path to other rails
    leaf: str | None = None


class Fabric(NamedTuple):
    type: str | None = None  # infiniband, rocev2, efa, tcp
    switch_path: tuple[str, ...] = ()  # leaf first
    accelerator_domain: str | None = None
    oversubscription: float | None = None
    latency_us: float | None = None
    traffic_class: int | None = None
    service_level: int | None = None
    mtu: int | None = None
    pkey: str | None = None


class PlatformNode(NamedTuple):
    """A machine of the cluster, in launch order. `slots` is its number of GPUs."""

    name: str
    slots: int | None = None
    rack: str | None = None


class Platform(NamedTuple):
    """A valid platform file. `topo_buses` are the bus ids that the NCCL topology file knows."""

    provider: str | None = None
    instance_type: str | None = None
    generated_at: str | None = None
    generator: str | None = None
    hostname_match: str | None = None
    machine_id: str | None = None
    rack: str | None = None
    gpus: tuple[PlatformGpu, ...] = ()
    nics: tuple[PlatformNic, ...] = ()
    rails: tuple[Rail, ...] = ()
    fabric: Fabric = Fabric()
    topo_file: str | None = None
    topo_buses: tuple[str, ...] = ()
    graph_file: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    nodes: tuple[PlatformNode, ...] = ()


class Problem(NamedTuple):
    """What is wrong with a file: the key's path (`nics[2].role`), the statement, the remedy. `fatal`: the file is
    ignored."""

    key: str
    text: str
    fix: str
    fatal: bool = True


def load_platform(root: Root, path: str = PATH) -> tuple[Platform | None, tuple[Finding, ...]]:
    """The machine's platform file, checked. (None, ()) where there is none; (None, one finding) where it cannot be
    used.

    Never raises. A symbolic link may lead to a file in the same folder (as Kubernetes mounts do), not elsewhere.
    """
    real = root.link(path)
    folder, _, name = path.rpartition("/")
    if real is None:
        if name not in root.ls(folder):
            return None, ()
        return None, (_ignored(path, Problem("", "is a link that leads nowhere", "Put the file itself there")),)
    home = root.link(folder) or folder
    if not real.startswith((folder + "/", home + "/")):
        return None, (
            _ignored(path, Problem("", f"is a link to {real}, outside of {folder}", "Put the file itself there")),
        )
    platform, told, stranger = examine(root, path)
    if platform is None:
        fatal = [one for one in told if one.fatal]
        return None, (_ignored(path, fatal[0], len(fatal) - 1),)
    if stranger is not None:
        return None, (_ignored(path, stranger),)
    if len(told) > WARNINGS_AT_MOST:
        more = f"and {len(told) - WARNINGS_AT_MOST + 1} more"
        told = (*told[: WARNINGS_AT_MOST - 1], Problem("", more, f"rig platform validate {path}", False))
    return platform, tuple(_warned(path, one) for one in told)


def examine(root: Root, path: str) -> tuple[Platform | None, tuple[Problem, ...], Problem | None]:
    """The platform (None where the file cannot be used), every problem, and why it is another machine's."""
    text = root.read(path)
    if text is None:
        return None, (Problem("", "cannot be read", "Put a plain file there that the container's user may read"),), None
    if len(text.encode("utf-8", "replace")) >= READ_LIMIT:
        return None, (Problem("", "is larger than 1 MiB", "Write only what the schema asks for"),), None
    from rig.platform_schema import parse_platform  # json is imported only where a file exists

    platform, problems = parse_platform(text)
    if platform is None or any(one.fatal for one in problems):
        return None, problems, None
    platform, refused = with_files(root, platform)
    return platform, (*problems, *refused), other_machine(root, platform)


def other_machine(root: Root, platform: Platform) -> Problem | None:
    """A file that was written for another machine; an unknown host name or machine id does not count against it."""
    here = (root.read("/proc/sys/kernel/hostname") or "").strip()
    if platform.hostname_match is not None and here and not _glob(platform.hostname_match, here):
        text = f"is for {platform.hostname_match!r}, and this machine is {here!r}"
        return Problem("node.hostname_match", text, "Use the file of this machine")
    identity = (root.read("/etc/machine-id") or "").strip()
    if platform.machine_id is not None and identity and platform.machine_id != identity:
        return Problem("node.machine_id", "is another machine's", "Use the file of this machine")
    return None


def _glob(pattern: str, name: str) -> bool:
    """`*` stands for any characters; nothing else is special."""
    parts = pattern.split("*")
    if len(parts) == 1:
        return pattern == name
    if not name.startswith(parts[0]) or not name.endswith(parts[-1]) or len(name) < len(parts[0]) + len(parts[-1]):
        return False
    at, end = len(parts[0]), len(name) - len(parts[-1])
    for part in parts[1:-1]:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def with_files(root: Root, platform: Platform) -> tuple[Platform, tuple[Problem, ...]]:
    """Drop files that are missing or that others could have written; read the bus ids of the topology file."""
    refused = []
    if (problem := _unfit(root, "topo_file", platform.topo_file)) is not None:
        platform, refused = platform._replace(topo_file=None), [problem]
    if (problem := _unfit(root, "graph_file", platform.graph_file)) is not None:
        platform, refused = platform._replace(graph_file=None), [*refused, problem]
    if platform.topo_file is not None:
        platform = platform._replace(topo_buses=buses_of(root.read(platform.topo_file) or ""))
    return platform, tuple(refused)


def _unfit(root: Root, key: str, path: str | None) -> Problem | None:
    """Why a file that the platform file names is not used."""
    if path is None:
        return None
    if root.link(path) is None:
        return Problem(f"nccl.{key}", f"{path} does not exist", "Mount the file, or leave the key out", False)
    trusted = getattr(root, "trusted", None)  # only a running machine knows owners
    if trusted is not None and trusted(path) is False:
        text, fix = f"{path} could be written by others", "Make it owned by root and not writable for all"
        return Problem(f"nccl.{key}", text, fix, False)
    return None


def buses_of(xml: str) -> tuple[str, ...]:
    """Bus ids in an NCCL topology file, lower case, in order: the values of its busid attributes."""
    found: dict[str, None] = {}
    for quote in ('"', "'"):
        for part in xml.split(f"busid={quote}")[1:]:
            found[part.partition(quote)[0].lower()] = None
    return tuple(found)


def _ignored(path: str, problem: Problem, more: int = 0) -> Finding:
    others = f" (and {more} more: rig platform validate {path})" if more > 0 else ""
    key = f" {problem.key}:" if problem.key else ""
    text = f"{path} is ignored:{key} {problem.text}{others}"
    return Finding(
        "PLATFORM_FILE_IGNORED", "warn", "platform", text, problem.key or path, fix=problem.fix, evidence=path
    )


def _warned(path: str, problem: Problem) -> Finding:
    text = f"{path}: {problem.key} {problem.text}" if problem.key else f"{path}: {problem.text}"
    return Finding("PLATFORM_FILE_KEY", "warn", "platform", text, problem.key, fix=problem.fix, evidence=path)
