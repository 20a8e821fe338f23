"""How far devices are apart, in NCCL's own classes.

Follows NVIDIA/nccl src/graph/{xml,topo,paths}.cc: a device's next node is two path components up (a switch is seen as
its upstream bridge), root ports are skipped, CPUs are NUMA nodes, Broadcom switches with virtual levels are flattened.
NVLink is not part of this: only PCI paths.
"""

from rig.lean import Iterable, Mapping, NamedTuple
from rig.machine import PciDevice, PciPath

DEPTH_AT_MOST = 32  # more bridges above a device than any machine has

CLASSES = ("LOC", "PIX", "PXB", "PHB", "SYS")


def tree(pci: Iterable[PciDevice]) -> dict[str, PciDevice]:
    """Bus id -> device; make it once where many pairs are asked."""
    return {device.bus_id: device for device in pci}


class Place(NamedTuple):
    """Where NCCL sees a device: the switches above it, nearest first, and the NUMA node that it is tied to."""

    bus_id: str
    switches: tuple[str, ...]
    cpu: int | None


def place_of(known: Mapping[str, PciDevice], bus_id: str) -> Place | None:
    """The place of a device; None where it is not in the tree. Make it once where many pairs are asked."""
    if bus_id not in known:
        return None
    above = bridges(known, bus_id)[1::2]  # one bridge alone is a root port and no switch (ncclTopoGetXmlFromSys)
    top = known[above[-1]].numa if above else None
    return Place(bus_id, tuple(flattened(known, above)), known[bus_id].numa if top is None else top)


def class_between(a: Place | None, b: Place | None) -> str | None:
    """LOC, PIX (one switch), PXB (several switches), PHB (through the CPU of one NUMA node), SYS (between NUMA nodes).

    None where a device is not in the tree, or only one of the two NUMA nodes is known.
    Where no NUMA node is known (-1, a VM), NCCL sees one CPU: then the class is PHB.
    """
    if a is None or b is None:
        return None
    if a.bus_id == b.bus_id:
        return "LOC"
    for bridge in a.switches:
        if bridge in b.switches:
            return "PIX" if a.switches[0] == bridge == b.switches[0] else "PXB"
    if a.cpu == b.cpu:
        return "PHB"
    return "SYS" if a.cpu is not None and b.cpu is not None else None


def path_class(pci: Mapping[str, PciDevice] | Iterable[PciDevice], a: str, b: str) -> str | None:
    """The class of one pair: see class_between."""
    known = pci if isinstance(pci, Mapping) else tree(pci)
    return class_between(place_of(known, a), place_of(known, b))


def paths(pci: Iterable[PciDevice], starts: Iterable[str], ends: Iterable[str]) -> tuple[PciPath, ...]:
    """The class of every pair (start, end)."""
    known = tree(pci)
    targets = [(end, place_of(known, end)) for end in ends]
    places = [(start, place_of(known, start)) for start in starts]
    return tuple(PciPath(a, b, class_between(here, there)) for a, here in places for b, there in targets)


def bridges(known: Mapping[str, PciDevice], bus_id: str) -> list[str]:
    """All bridges above a device, nearest first."""
    found: list[str] = []
    at = known[bus_id].parent
    while at is not None and at in known and at not in found and len(found) < DEPTH_AT_MOST:
        found.append(at)
        at = known[at].parent
    return found


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
