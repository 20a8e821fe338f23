"""How far devices are apart, in NCCL's own classes.

Follows NVIDIA/nccl src/graph/{xml,topo,paths}.cc: a device's next node is two path components up (a switch is seen as
its upstream bridge), root ports are skipped, CPUs are NUMA nodes, Broadcom switches with virtual levels are flattened.
NVLink is not part of this: only PCI paths.
"""

from rig.lean import Iterable, Mapping
from rig.machine import PciDevice, PciPath

DEPTH_AT_MOST = 32  # more bridges above a device than any machine has

CLASSES = ("LOC", "PIX", "PXB", "PHB", "SYS")


def tree(pci: Iterable[PciDevice]) -> dict[str, PciDevice]:
    """Bus id -> device; make it once where many pairs are asked."""
    return {device.bus_id: device for device in pci}


def path_class(pci: Mapping[str, PciDevice] | Iterable[PciDevice], a: str, b: str) -> str | None:
    """LOC, PIX (one switch), PXB (several switches), PHB (through the CPU of one NUMA node), SYS (between NUMA nodes).

    None where a device is not in the tree, or only one of the two NUMA nodes is known.
    Where no NUMA node is known (-1, a VM), NCCL sees one CPU: then the class is PHB.
    """
    known = pci if isinstance(pci, Mapping) else tree(pci)
    if a not in known or b not in known:
        return None
    if a == b:
        return "LOC"
    first, second = switches(known, a), switches(known, b)
    common = next((bridge for bridge in first if bridge in second), None)
    if common is not None:
        return "PIX" if first[0] == common == second[0] else "PXB"
    here, there = cpu_of(known, a), cpu_of(known, b)
    if here == there:
        return "PHB"
    return "SYS" if here is not None and there is not None else None


def paths(pci: Iterable[PciDevice], starts: Iterable[str], ends: Iterable[str]) -> tuple[PciPath, ...]:
    """The class of every pair (start, end)."""
    known, targets = tree(pci), tuple(ends)
    return tuple(PciPath(start, end, path_class(known, start, end)) for start in starts for end in targets)


def bridges(known: Mapping[str, PciDevice], bus_id: str) -> list[str]:
    """All bridges above a device, nearest first."""
    found: list[str] = []
    at = known[bus_id].parent
    while at is not None and at in known and at not in found and len(found) < DEPTH_AT_MOST:
        found.append(at)
        at = known[at].parent
    return found


def switches(known: Mapping[str, PciDevice], bus_id: str) -> list[str]:
    """The switches above a device that NCCL sees, nearest first: every second bridge (ncclTopoGetXmlFromSys), then
    flattened. One bridge alone is a root port and no switch."""
    return flattened(known, bridges(known, bus_id)[1::2])


def cpu_of(known: Mapping[str, PciDevice], bus_id: str) -> int | None:
    """The NUMA node to which NCCL ties a device: that of the topmost switch above it; its own where that is silent."""
    above = bridges(known, bus_id)[1::2]
    top = known[above[-1]].numa if above else None
    return known[bus_id].numa if top is None else top


def broadcom_generation(device: PciDevice, level: int) -> int:
    """4 or 5 for a Broadcom switch in base mode (ids 1000:c010 with subsystem 1000:aXXX, 1000:c030 with subsystem
    1000:0XXX above and 1000:1XXX below), else 0. Source: getBcmGen in topo.cc."""
    if device.vendor != "1000" or device.subsystem_vendor != "1000" or device.subsystem_device is None:
        return 0
    digit = device.subsystem_device[0]
    if device.device == "c010" and digit == "a":
        return 4
    return 5 if device.device == "c030" and digit == str(level) else 0


def flattened(known: Mapping[str, PciDevice], chain: list[str]) -> list[str]:
    """The chain (nearest first) without Broadcom switches that are levels of the switch above them. A switch that took
    others in is not taken in itself (ncclTopoFlattenBcmSwitches)."""
    kept: list[str] = []
    for name in reversed(chain):
        above = known[kept[-1]] if kept else None
        generation = broadcom_generation(above, 0) if above is not None else 0
        if generation and broadcom_generation(known[name], 1) == generation:
            continue
        kept.append(name)
    return kept[::-1]
