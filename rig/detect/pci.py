"""The PCI tree: where GPUs, HCAs, NICs and the bridges above them sit.

Sources: Documentation/ABI/testing/sysfs-bus-pci, drivers/pci/pci-sysfs.c, drivers/pci/proc.c (/proc/bus/pci/devices),
include/uapi/linux/pci_regs.h (ACS), drivers/iommu.
"""

from rig.lean import Iterable, NamedTuple
from rig.machine import PciDevice
from rig.root import Root
from rig.text import hexadecimal, is_bus_id, line, parse_ids, parse_speed, parse_uevent, parse_width, whole

DEVICES = "/sys/bus/pci/devices/"
NVIDIA, MELLANOX, BROADCOM = "10de", "15b3", "1000"
PCI_BRIDGE = "060400"
MAKERS = (NVIDIA, MELLANOX)  # whose devices are facts even where no driver is bound or no interface is visible
EXTENDED_CAPABILITY_ACS = 0x000D
ACS_REDIRECTS = 0x04 | 0x08 | 0x10  # P2P Request Redirect, P2P Completion Redirect, Upstream Forwarding


def parse_parents(path: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Host bridge and bridges above a device, nearest last, from its resolved sysfs path:
    `/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0` -> (`pci0000:17`, (`0000:17:01.0`,)).

    What stands before the last host bridge (VMD, Hyper-V) is not part of the tree that peers can use.
    """
    root: str | None = None
    above: list[str] = []
    for part in (path or "").split("/"):
        if part.startswith("pci") and ":" in part:
            root, above = part, []
        elif root is not None and is_bus_id(part):
            above.append(part)
    return root, tuple(above[:-1])


def parse_numa(text: str | None) -> int | None:
    """NUMA node; -1 (unknown, usual in a VM) is None. The kernel has at most 1024 (CONFIG_NODES_SHIFT <= 10)."""
    return whole(text, 0, 1023)


class BusTable(NamedTuple):
    """/proc/bus/pci/devices, which has no domains: `ids` = the first two columns (`1b00` -> `10de2330`), `makers` =
    `BB:DD.F` of each device of MAKERS, `unique` = whether no two domains share a slot."""

    ids: dict[str, str] = {}  # noqa: RUF012
    makers: tuple[str, ...] = ()
    unique: bool = False


def parse_bus_table(text: str | None) -> BusTable | None:
    """A line begins `1b00\\t10de2330\\t...`: bus and device-function, vendor and device; None when it is another text.
    One read instead of hundreds, and few of its lines are looked at closely."""
    if not text or text[4:5] != "\t":
        return None
    lines = [entry for entry in text.split("\n") if entry[4:5] == "\t"]
    makers = []
    for entry in lines:
        if entry[5:9] in MAKERS:
            slot = hexadecimal(entry[:4], 4)
            if slot is None:
                return None
            number = int(slot[2:], 16)
            makers.append(f"{slot[:2]}:{number >> 3:02x}.{number & 7}")
    ids = {entry[:4]: entry[5:13] for entry in lines}
    return BusTable(ids, tuple(makers), len(ids) == len(lines))


def ids_in(table: BusTable | None, bus_id: str) -> tuple[str, str] | None:
    """(vendor, device) of a function by the table; None where it does not tell for certain."""
    if table is None or not table.unique:
        return None
    text = table.ids.get(f"{bus_id[-7:-5]}{int(bus_id[-4:-2], 16) << 3 | int(bus_id[-1], 16):02x}", "")
    vendor, device = hexadecimal(text[:4], 4), hexadecimal(text[4:], 4)
    return None if vendor is None or device is None else (vendor, device)


def candidates(root: Root, names: list[str], table: BusTable | None) -> list[str]:
    """Bus ids of devices of MAKERS."""
    if table is None:
        return [name for name in names if hexadecimal(root.read(f"{DEVICES}{name}/vendor"), 4) in MAKERS]
    return [name for name in names if name[-7:] in table.makers]


def wanted(device: PciDevice) -> bool:
    """Display and 3D controllers (03), NVSwitches (0680), network controllers (02) of MAKERS."""
    code = device.class_code or ""
    return device.vendor in MAKERS and (code[:2] in ("02", "03") or code[:4] == "0680")


def read_ids(
    root: Root, folder: str
) -> tuple[str | None, tuple[str | None, str | None], tuple[str | None, str | None]]:
    """(class, (vendor, device), subsystem) of a function; the subsystem only of Broadcom's, whose switches need it."""
    read, told = root.read, root.read(folder + "uevent")
    code, ids = hexadecimal(parse_uevent(told, "PCI_CLASS"), 6), parse_ids(parse_uevent(told, "PCI_ID"))
    subsystem: tuple[str | None, str | None] = (None, None)
    if code is None:
        code = hexadecimal(read(folder + "class"), 6)
    if None in ids:
        ids = (hexadecimal(read(folder + "vendor"), 4), hexadecimal(read(folder + "device"), 4))
        told = None
    if ids[0] == BROADCOM:
        subsystem = parse_ids(parse_uevent(told, "PCI_SUBSYS_ID"))
        if told is None:
            subsystem = (
                hexadecimal(read(folder + "subsystem_vendor"), 4),
                hexadecimal(read(folder + "subsystem_device"), 4),
            )
    return code, ids, subsystem


def read_link(root: Root, folder: str) -> tuple[float | None, int | None, float | None, int | None]:
    """Speed and width of a link now, and the most that this end of it can."""
    read = root.read
    return (
        parse_speed(read(folder + "current_link_speed")),
        parse_width(read(folder + "current_link_width")),
        parse_speed(read(folder + "max_link_speed")),
        parse_width(read(folder + "max_link_width")),
    )


def read_bridge(root: Root, name: str, host: str | None, above: tuple[str, ...], ids: tuple[str, str]) -> PciDevice:
    """A bridge whose ids are known: what has functions below it is a PCI bridge, so its class need not be read."""
    folder = f"{DEVICES}{name}/"
    subsystem: tuple[str | None, str | None] = (None, None)
    if ids[0] == BROADCOM:
        subsystem = read_ids(root, folder)[2]
    numa = parse_numa(root.read(folder + "numa_node"))
    return PciDevice(
        name, above[-1] if above else None, host, PCI_BRIDGE, *ids, numa, None, None, None, None, None, *subsystem
    )


def read_device(root: Root, name: str, host: str | None, above: tuple[str, ...], links: bool) -> PciDevice:
    """One function's facts. `above` = the bridges above it, nearest last."""
    folder = f"{DEVICES}{name}/"
    code, ids, subsystem = read_ids(root, folder)
    return PciDevice(
        name,
        above[-1] if above else None,
        host,
        code,
        *ids,
        parse_numa(root.read(folder + "numa_node")),
        *(read_link(root, folder) if links else (None, None, None, None)),
        None,
        *subsystem,
    )


def read_tree(
    root: Root, also: Iterable[str], names: list[str] | None = None, *, links: bool = True
) -> tuple[PciDevice, ...]:
    """GPUs, NVSwitches, network controllers of MAKERS, the devices named in `also`, and every bridge above them.

    `links=False` leaves speeds and widths unread, four files a device, and takes the ids of bridges from the table of
    /proc: most of what there is to read.
    """
    present = root.ls(DEVICES[:-1]) if names is None else names
    known, asked = set(present), set(also)
    found: dict[str, PciDevice] = {}
    table = parse_bus_table(root.read("/proc/bus/pci/devices"))
    for name in dict.fromkeys((*candidates(root, present, table), *(name for name in asked if name in known))):
        host, above = parse_parents(root.link(DEVICES + name))
        device = read_device(root, name, host, above, links)
        if name not in asked and not wanted(device):
            continue
        found[name] = device
        for depth, bridge in enumerate(above):
            if bridge in found:
                continue
            ids = None if links else ids_in(table, bridge)
            if ids is None:
                found[bridge] = read_device(root, bridge, host, above[:depth], links)
            else:
                found[bridge] = read_bridge(root, bridge, host, above[:depth], ids)
    return tuple(found[name] for name in sorted(found))


def parse_acs(config: dict[int, bytes]) -> bool | None:
    """Whether ACSCtl redirects peer traffic, from the extended capabilities at their offsets; None without ACS."""
    for at, data in sorted(config.items()):
        if len(data) >= 8 and int.from_bytes(data[0:2], "little") == EXTENDED_CAPABILITY_ACS:
            return bool(int.from_bytes(data[6:8], "little") & ACS_REDIRECTS) and at >= 0x100
    return None


def read_extended(root: Root, name: str) -> dict[int, bytes]:
    """Offset -> first eight bytes of each extended capability. Without CAP_SYS_ADMIN the file ends after 64 bytes.

    Few bytes are read, each costs a transaction on the bus. Source: pci_regs.h, PCI_EXT_CAP_NEXT.
    """
    found: dict[int, bytes] = {}
    at = 0x100
    while at >= 0x100 and at not in found and len(found) < 64:
        data = root.peek(f"{DEVICES}{name}/config", at, 8)
        if data is None or len(data) < 8 or data[:4] in (b"\0\0\0\0", b"\xff\xff\xff\xff"):
            break
        found[at] = data
        at = int.from_bytes(data[2:4], "little") >> 4 & 0xFFC
    return found


def with_acs(root: Root, tree: tuple[PciDevice, ...]) -> tuple[PciDevice, ...]:
    """The tree with `acs_redirects` on bridges. Ask only as root with CAP_SYS_ADMIN: nobody else may read so far."""
    made = []
    for item in tree:
        redirects = parse_acs(read_extended(root, item.bus_id)) if item.class_code == PCI_BRIDGE else None
        made.append(item if redirects is None else item._replace(acs_redirects=redirects))
    return tuple(made)


def parse_iommu(units: list[str], group_type: str | None, cmdline: str | None) -> str | None:
    """ "off", "passthrough" or "translated", from the names in /sys/class/iommu, the type of a device's group
    (Documentation/ABI/testing/sysfs-kernel-iommu_groups) and, on kernels without that file, the command line."""
    kind = line(group_type)
    if kind == "identity":
        return "passthrough"
    if kind is not None and (kind == "DMA" or kind.startswith("DMA-")):
        return "translated"
    words = (cmdline or "").split()
    if not units:
        return "off"
    if "iommu=pt" in words or "iommu.passthrough=1" in words:
        return "passthrough"
    if "iommu=off" in words or "intel_iommu=off" in words or "amd_iommu=off" in words:
        return "off"
    return None


def read_iommu(root: Root, bus_id: str | None, cmdline: str | None) -> str | None:
    """How the IOMMU treats a device (a GPU or an HCA); None where sysfs is not visible or does not say."""
    if "iommu" not in root.ls("/sys/class"):
        return "off" if root.ls("/sys/class") else None
    group = root.read(f"{DEVICES}{bus_id}/iommu_group/type") if bus_id else None
    return parse_iommu(root.ls("/sys/class/iommu"), group, cmdline)
