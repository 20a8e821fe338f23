"""`rig facts`: what this machine is, for people (a page) or for programs (JSON)."""

import sys

from entrypoint.say import printable
from rig.captured import open_root
from rig.detect import detect
from rig.lean import Iterable, Mapping
from rig.machine import UNLIMITED, Gpu, Hca, Machine, NetDev, PciDevice, Port
from rig.root import Live
from rig.topology import CLASSES, path_class, tree

USAGE = 64
UNKNOWN = "?"


def said(value: object) -> str:
    """A fact as a word; what is not known is `?`."""
    if value is None:
        return UNKNOWN
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def size(amount: int | None) -> str:
    """Bytes for people."""
    if amount is None or amount == UNLIMITED:
        return UNKNOWN if amount is None else "unlimited"
    number, units = float(amount), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while number >= 1024 and len(units) > 1:
        number, units = number / 1024, units[1:]
    return f"{number:.0f} {units[0]}" if number >= 10 or number == int(number) else f"{number:.1f} {units[0]}"


def amount(value: float | None) -> str:
    """A count that may be unlimited."""
    return UNKNOWN if value is None else "unlimited" if value == UNLIMITED else f"{round(value, 2):,.10g}"


def nearest(gpu: Gpu, hcas: Iterable[Hca], known: Mapping[str, PciDevice]) -> str:
    """The HCAs that are closest to a GPU, with their class: `mlx5_0 PIX`."""
    found: dict[str, list[str]] = {}
    for hca in hcas:
        kind = path_class(known, gpu.bus_id, hca.bus_id) if gpu.bus_id and hca.bus_id else None
        if kind is not None:
            found.setdefault(kind, []).append(hca.name)
    best = next((kind for kind in CLASSES if kind in found), None)
    if best is None:
        return ""
    names = found[best]
    return f"{','.join(names[:4])}{f',+{len(names) - 4}' if len(names) > 4 else ''} {best}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell; a column without any content is left out."""
    used = [at for at in range(len(head)) if any(row[at] for row in rows)]
    widths = {at: max(len(row[at]) for row in (head, *rows)) for at in used}
    return ["  " + "  ".join(row[at].ljust(widths[at]) for at in used).rstrip() for row in (head, *rows)]


def gpu_lines(machine: Machine) -> list[str]:
    """GPUs with what is around them."""
    known = tree(machine.pci)
    rows: list[tuple[str, ...]] = []
    for gpu in machine.gpus:
        link = f"{gpu.nvlinks} to {'NVSwitch' if gpu.nvswitch else 'GPUs'}" if gpu.nvlinks else ""
        capability = ".".join(map(str, gpu.capability)) if gpu.capability else UNKNOWN
        rows.append(
            (
                str(gpu.index),
                said(gpu.bus_id),
                said(gpu.model),
                size(gpu.memory_bytes) if gpu.memory_bytes else UNKNOWN,
                capability,
                said(gpu.numa),
                link,
                said(gpu.p2p),
                nearest(gpu, machine.hcas, known),
            )
        )
    head = ("#", "bus id", "model", "memory", "sm", "NUMA", "NVLink", "P2P", "nearest HCA")
    return table(head, rows) if rows else ["  none" + _why_none(machine)]


def _why_none(machine: Machine) -> str:
    on_bus = machine.surroundings.gpus_on_bus
    return f" given to this container; the host has {on_bus} (docker: --gpus all)" if on_bus else ""


def port_row(hca: Hca, port: Port) -> tuple[str, ...]:
    """One port of an HCA."""
    kinds = [gid.type for gid in port.gids if gid.type]
    gids = f"{len(port.gids)}" + (f" ({kinds.count('RoCE v2')} v2)" if "RoCE v2" in kinds else "")
    return (
        port.name,
        hca.bus_id or "",
        said(hca.numa) if hca.bus_id else "",
        said(port.link_layer),
        said(port.state),
        f"{port.rate_gbps:g} Gb/s" if port.rate_gbps is not None else UNKNOWN,
        hca.function or "",
        "no node" if hca.opens is None else said(hca.opens),
        gids + (f", {port.gids_refused} refused" if port.gids_refused else ""),
        ",".join(port.netdevs),
    )


def hca_lines(machine: Machine) -> list[str]:
    """HCAs by port."""
    rows = [port_row(hca, port) for hca in machine.hcas for port in hca.ports]
    rows += [
        (hca.name, hca.bus_id or "", "", "no port", "", "", "", "", "", "") for hca in machine.hcas if not hca.ports
    ]
    head = ("port", "bus id", "NUMA", "link layer", "state", "rate", "fn", "opens", "GIDs", "interfaces")
    return table(head, rows) if rows else ["  none"]


def net_row(netdev: NetDev) -> tuple[str, ...]:
    speed = f"{netdev.speed_mbps / 1000:g} Gb/s" if netdev.speed_mbps else ""
    role = ", ".join(
        (["default route"] if netdev.default_route else []) + ([f"in {netdev.master}"] if netdev.master else [])
    )
    return (
        netdev.name,
        said(netdev.kind),
        {True: "up", False: "down", None: UNKNOWN}[netdev.up],
        speed,
        said(netdev.mtu),
        " ".join((*netdev.ipv4, *netdev.ipv6)),
        role,
    )


def net_lines(machine: Machine) -> list[str]:
    """Interfaces in kernel order."""
    rows = [net_row(netdev) for netdev in machine.netdevs]
    return table(("interface", "kind", "state", "speed", "MTU", "addresses", ""), rows) if rows else ["  none"]


def gdr_lines(machine: Machine) -> list[str]:
    """The gates of GPUDirect RDMA."""
    kernel = machine.kernel
    flavour = {True: ", open modules", False: ", proprietary modules", None: ""}[kernel.open_modules]
    peers = UNKNOWN if kernel.modules is None else ", ".join(kernel.memory_peers or ()) or "none"
    return [
        f"  driver {said(kernel.driver)}{flavour}; kernel {said(kernel.release)}; IOMMU {said(kernel.iommu)}",
        f"  peer memory: nvidia_peermem {said(kernel.nvidia_peermem)}, registered clients: {peers}",
        f"  dma-buf: GPU {said(kernel.dmabuf_gpu)}, HCA {said(kernel.dmabuf_nic)}, P2PDMA {said(kernel.p2pdma)}",
    ]


def limit_lines(machine: Machine) -> list[str]:
    limits = machine.limits
    return [
        f"  memlock {size(limits.memlock_bytes)}; open files {amount(limits.nofile)}; processes {amount(limits.pids)}",
        f"  /dev/shm {size(limits.shm_bytes)}; memory {size(limits.memory_bytes)}; CPUs {amount(limits.cpus)}",
    ]


def place_lines(machine: Machine) -> list[str]:
    """Where this is, and on what."""
    place, libraries = machine.surroundings, machine.libraries
    where = [place.container and f"container ({place.container})", place.virtual and f"guest ({place.virtual})"]
    where += [place.cloud and f"{place.cloud} {place.instance or ''}".strip(), place.product]
    nodes = f"{len(machine.numa)} NUMA node" + ("" if len(machine.numa) == 1 else "s")
    version = ".".join(map(str, libraries.nccl_version)) if libraries.nccl_version else UNKNOWN
    providers = ", ".join(libraries.ib_providers or ()) or "none"
    cpus = f"{said(machine.cpu.vendor)} {machine.cpu.arch or ''}".strip()
    plugin = f"; net plugin {libraries.net_plugins[0]}" if libraries.net_plugins else ""
    nccl = version if libraries.nccl_path else "none"
    return [
        f"  {'; '.join(text for text in where if text) or 'a host'}; {cpus}, {nodes}",
        f"  NCCL {nccl}; libibverbs {said(libraries.libibverbs)}, providers: {providers}{plugin}",
    ]


def page(machine: Machine) -> list[str]:
    """The whole view."""
    asked = {"unresponsive": " (the driver does not answer)", "failed": " (the driver refuses)", "absent": " (no NVML)"}
    note = asked.get(machine.nvml or "", "") + (f": {machine.nvml_error}" if machine.nvml_error else "")
    note += f", while it was asked about {machine.unresponsive_gpu}" if machine.unresponsive_gpu else ""
    return [
        f"machine {machine.surroundings.hostname or ''}".rstrip(),
        *place_lines(machine),
        f"GPUs{note}",
        *gpu_lines(machine),
        "HCAs",
        *hca_lines(machine),
        "network",
        *net_lines(machine),
        "GPUDirect RDMA",
        *gdr_lines(machine),
        "limits",
        *limit_lines(machine),
    ]


def run(argv: list[str]) -> int:
    """Print the facts; 0, or 64 for wrong usage and for a --root that is no machine."""
    import argparse

    parser = argparse.ArgumentParser("rig facts", description="What this machine is.")
    parser.add_argument("--json", action="store_true", help="for programs; null is unknown")
    parser.add_argument("--root", metavar="DIR|FILE", help="another machine: a folder laid out like one, or a capture")
    parser.add_argument("--no-driver", action="store_true", help="do not ask the NVIDIA driver")
    try:
        asked = parser.parse_args(argv)
    except SystemExit as end:
        return USAGE if end.code else 0
    try:
        root = open_root(asked.root) if asked.root is not None else Live()
    except ValueError as error:
        print(f"rig facts: {error}", file=sys.stderr)
        return USAGE
    machine = detect(root, ask_driver=not asked.no_driver)
    if asked.json:
        from rig.emit import facts_json

        print(facts_json(machine), end="")
    else:
        print(*map(printable, page(machine)), sep="\n")
    return 0
