"""The PCIe links of GPUs and HCAs: what they run at, what both ends can, what went wrong on them, how large the BAR is.

Sources: Documentation/ABI/testing/sysfs-bus-pci (current_link_speed and its kin, resource),
Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats, include/linux/ioport.h (flags of a resource).
"""

from rig.host import PciLink
from rig.lean import Iterable
from rig.root import Root
from rig.text import hexadecimal, is_bus_id, parse_speed, parse_width, whole

DEVICES = "/sys/bus/pci/devices/"
BARS = 6  # lines of `resource` that are BARs; the ROM and a bridge's windows follow
MEMORY, PREFETCHABLE = 0x200, 0x2000
TOTALS = {"correctable": "TOTAL_ERR_COR", "nonfatal": "TOTAL_ERR_NONFATAL", "fatal": "TOTAL_ERR_FATAL"}


def parse_errors(text: str | None, kind: str) -> int | None:
    """The sum of a file `aer_dev_KIND`: its last line (`TOTAL_ERR_COR 0`), else all lines together."""
    rows = [row.rpartition(" ") for row in (text or "").splitlines()]
    counts = {name: count for name, _, told in rows if name and (count := whole(told)) is not None}
    if not counts:
        return None
    return counts.get(TOTALS[kind], sum(counts.values()))


def parse_bar(text: str | None) -> int | None:
    """Bytes of the largest prefetchable BAR in a file `resource`: through it HCAs reach a GPU's memory."""
    sizes = []
    for row in (text or "").splitlines()[:BARS]:
        words = [hexadecimal(word, 16) for word in row.split()]
        if len(words) != 3 or None in words:
            return None
        start, end, flags = (int(word, 16) for word in words if word is not None)
        if flags & MEMORY and flags & PREFETCHABLE and end > start:
            sizes.append(end - start + 1)
    return max(sizes, default=None)


def port_above(path: str | None) -> str | None:
    """Bus id of the port that a device hangs on, from its resolved sysfs path; None below a host bridge."""
    parts = (path or "").split("/")
    return parts[-2] if len(parts) > 1 and is_bus_id(parts[-2]) else None


def read_link(root: Root, bus_id: str) -> PciLink:
    """One function's link; what the kernel does not tell is None."""
    folder, read = f"{DEVICES}{bus_id}/", root.read
    above = port_above(root.link(folder[:-1]))
    upper = f"{DEVICES}{above}/"
    return PciLink(
        bus_id,
        parse_speed(read(folder + "current_link_speed")),
        parse_width(read(folder + "current_link_width")),
        parse_speed(read(folder + "max_link_speed")),
        parse_width(read(folder + "max_link_width")),
        parse_errors(read(folder + "aer_dev_fatal"), "fatal"),
        parse_errors(read(folder + "aer_dev_nonfatal"), "nonfatal"),
        parse_errors(read(folder + "aer_dev_correctable"), "correctable"),
        parse_speed(read(upper + "max_link_speed")) if above else None,
        parse_width(read(upper + "max_link_width")) if above else None,
        parse_bar(read(folder + "resource")),
    )


def read_links(root: Root, bus_ids: Iterable[str | None]) -> tuple[PciLink, ...]:
    """The links of these functions, each once; those that this kernel does not show are left out."""
    wanted = [bus for bus in dict.fromkeys(bus_ids) if bus is not None]
    return tuple(read_link(root, bus) for bus in wanted if root.link(DEVICES + bus) is not None)
