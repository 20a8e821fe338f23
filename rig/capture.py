"""A machine written down: record what detection asks, and leave out what no rule can need.

Pure but for `Recorder`, which asks the Root that it wraps. rig.anonymous replaces what is private, rig.capture_text
writes the text.
"""

from rig.captured import Tree
from rig.lean import Iterable, NamedTuple
from rig.machine import Machine
from rig.root import IPV4_FILE, Collected, Root, Running, Space

# Folders of which only the names with one of these beginnings are kept.
KEPT_NAMES = {
    "/dev": ("null", "nvidia", "infiniband", "shm", "gdrdrv", "dxg", "kfd"),
    "/usr/lib": ("x86_64-linux-gnu", "aarch64-linux-gnu", "libibverbs", "libnccl"),
}
KEPT_PACKAGES = ("nvidia_", "nvidia-", "torch-", "deepspeed-")
KEPT_STATUS = ("Uid", "CapEff", "Cpus_allowed_list", "Mems_allowed_list", "Seccomp")
OURS = ("/proc/self/", "/proc/net/")
NOT_KEPT = ("/proc/config.gz",)  # its one interesting line is kept as /boot/config-RELEASE


def _columns(text: str) -> str:
    """The first two columns of /proc/bus/pci/devices: slot, vendor and device. The rest are addresses."""
    return "".join("\t".join(entry.split("\t")[:2]) + "\n" for entry in text.splitlines())


def _config(text: str) -> str:
    return "".join(entry + "\n" for entry in text.splitlines() if "CONFIG_PCI_P2PDMA" in entry) or "# CONFIG_\n"


def _mounts(text: str) -> str:
    """The root mount; the others may name servers."""
    rows = [entry.split() for entry in text.splitlines()]
    return "".join(f"{row[0]} / {row[2]} rw 0 0\n" for row in rows if len(row) > 3 and row[1] == "/")


def _status(text: str) -> str:
    return "".join(entry + "\n" for entry in text.splitlines() if entry.partition(":")[0] in KEPT_STATUS)


def _cmdline(text: str) -> str:
    words = text.split()
    return " ".join(word for word in words if "iommu" in word or word.startswith(("pci=", "pcie_"))) + "\n"


def _routes(text: str) -> str:
    """Default routes without their gateway."""
    rows = [entry.split() for entry in text.splitlines()]
    kept = [[*row[:2], "00000000", *row[3:]] for row in rows[1:] if len(row) > 7 and row[1] == row[7] == "00000000"]
    return "".join("\t".join(row) + "\n" for row in [*rows[:1], *kept])


def _routes6(text: str) -> str:
    rows = [entry.split() for entry in text.splitlines()]
    kept = [row for row in rows if len(row) > 9 and row[0] == "0" * 32 and row[1] == "00"]
    return "".join(" ".join([*row[:4], "0" * 32, *row[5:]]) + "\n" for row in kept)


def _limits(text: str) -> str:
    """The limits that training meets, with the line that names the columns."""
    kept = ("Limit ", "Max locked memory", "Max open files", "Max stack size", "Max processes")
    return "".join(entry.rstrip() + "\n" for entry in text.splitlines() if entry.startswith(kept))


def _meminfo(text: str) -> str:
    return "".join(entry + "\n" for entry in text.splitlines() if "MemTotal:" in entry)


REDUCED = {
    "/proc/bus/pci/devices": _columns,
    "/proc/self/limits": _limits,
    "/proc/self/mounts": _mounts,
    "/proc/self/status": _status,
    "/proc/cmdline": _cmdline,
    "/proc/net/route": _routes,
    "/proc/net/ipv6_route": _routes6,
}


def reduced(path: str, text: str) -> str:
    """A file's text without what no rule can need; detection must find the same in it."""
    if path.startswith("/boot/config-"):
        return _config(text)
    if path.endswith("/meminfo"):
        return _meminfo(text)
    reduce = REDUCED.get(path)
    return text if reduce is None else reduce(text)


def kept(path: str, names: Iterable[str]) -> list[str]:
    """The names in a folder that a capture keeps."""
    beginnings = KEPT_PACKAGES if path.endswith("/site-packages") else KEPT_NAMES.get(path)
    return [name for name in names if beginnings is None or name.startswith(beginnings)]


# Read for later questions; no rule of today needs them.
MORE_FILES = (
    "/etc/nccl.conf",
    "/etc/rdma/network_topology.json",
    "/etc/os-release",
    "/proc/driver/nvidia/params",
    "/proc/meminfo",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/module/mlx5_core/version",
    "/sys/module/nvidia/version",
)
MORE_OF_PCI = ("sriov_numvfs", "sriov_totalvfs", "enable", "iommu_group/type")
MORE_OF_HCA = ("board_id", "fw_ver", "hca_type", "node_guid", "node_type")
MORE_OF_PORT = ("cap_mask", "sm_lid", "sm_sl")
MORE_OF_NET = ("address", "carrier", "dev_port", "flags", "iflink", "tx_queue_len")
GIDS_AT_MOST = 256


def record_more(root: Root, machine: Machine) -> None:
    """Ask what is not asked at every boot: whole GID tables, firmware, SR-IOV, settings of the host."""
    for path in MORE_FILES:
        root.read(path)
    for device in machine.pci:
        for name in MORE_OF_PCI:
            root.read(f"/sys/bus/pci/devices/{device.bus_id}/{name}")
    for netdev in machine.netdevs:
        for name in MORE_OF_NET:
            root.read(f"/sys/class/net/{netdev.name}/{name}")
    for hca in machine.hcas:
        for name in MORE_OF_HCA:
            root.read(f"/sys/class/infiniband/{hca.name}/{name}")
        for port in hca.ports:
            _record_port(root, f"/sys/class/infiniband/{hca.name}/ports/{port.number}/")


def _record_port(root: Root, folder: str) -> None:
    for name in MORE_OF_PORT:
        root.read(folder + name)
    for index in range(GIDS_AT_MOST):
        text = root.read(f"{folder}gids/{index}")
        if text is None and root.link(f"{folder}gids/{index}") is None:
            return
        if text is not None and text.strip("0:\n"):
            root.read(f"{folder}gid_attrs/types/{index}")
            root.read(f"{folder}gid_attrs/ndevs/{index}")


class _Noted(NamedTuple):
    """A started program whose answer will be written down."""

    running: Running
    tree: Tree
    argv: tuple[str, ...]

    def collect(self) -> Collected:
        answer = self.running.collect()
        if answer.state != "unasked":
            self.tree.programs[self.argv] = answer
        return answer


class Recorder:
    """A Root that asks another one and writes every answer into `tree`, refusals and links on the way included."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.tree = Tree()
        self.places: dict[str, str | None] = {"": ""}

    def place(self, path: str) -> str | None:
        """The canonical path, with every link on the way noted; None when it does not exist."""
        path = path.rstrip("/")
        if path in self.places:
            return self.places[path]
        above, _, name = path.rpartition("/")
        folder = self.place(above)
        full = None if folder is None else f"{folder}/{name}"
        real = None if full is None else self.root.link(full)
        if full is not None and real is not None and f"{full}/".startswith(OURS):
            real = full  # a link to this process's number
        if full is not None and folder is not None and real is not None:
            self._exists(full)
            if real != full:
                self.tree.links[full] = real
                self._exists(real)
        self.places[path] = real
        return real

    def _exists(self, full: str) -> None:
        above, _, name = full.rpartition("/")
        self.tree.folder(above)[name] = None

    def read(self, path: str) -> str | None:
        text, full = self.root.read(path), self.place(path)
        if full is not None and text is not None:
            self.tree.texts[full] = reduced(path, text)
        elif full is not None and not self.root.ls(path):
            self.tree.refused[full] = None
        return text

    def ls(self, path: str) -> list[str]:
        names, full = self.root.ls(path), self.place(path)
        if full is not None and (names or self.root.read(path) is None):
            self.tree.refused.pop(full, None)
            self.tree.folder(full).update(dict.fromkeys(kept(path, names)))
        return names

    def link(self, path: str) -> str | None:
        self.place(path)
        return self.root.link(path)

    def opens(self, path: str) -> bool | None:
        answer, full = self.root.opens(path), self.place(path)
        if full is not None and answer is not None:
            self.tree.opens[full] = answer
        return answer

    def space(self, path: str) -> Space | None:
        answer, full = self.root.space(path), self.place(path)
        if full is not None and answer is not None:
            self.tree.spaces[full] = answer
        return answer

    def run(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        output = self.root.run(argv, timeout_s)
        self.tree.programs[argv] = Collected("failed" if output is None else "ok", output or "")
        return output

    def start(self, argv: tuple[str, ...], timeout_s: float) -> Running:
        return _Noted(self.root.start(argv, timeout_s), self.tree, argv)

    def peek(self, path: str, offset: int, size: int) -> bytes | None:
        data, full = self.root.peek(path, offset, size), self.place(path)
        if full is not None and data is not None and path not in NOT_KEPT:
            old = self.tree.blobs.get(full, b"")
            # a short answer means that the file ends there; PCI config space has 64, 256 or 4096 bytes
            end = offset + len(data) if data else min(offset, 64)
            blob = bytearray(old.ljust(max(end, len(old)), b"\0"))
            blob[offset : offset + len(data)] = data
            self.tree.blobs[full] = bytes(blob)
        return data

    def ipv4(self) -> str | None:
        text = self.root.ipv4()
        if text is not None:
            self._exists(IPV4_FILE)
            self.tree.texts[IPV4_FILE] = text
        return text
