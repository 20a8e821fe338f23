"""RDMA devices of any make and name, their ports and GID tables.

Sources: Documentation/ABI/stable/sysfs-class-infiniband, drivers/infiniband/core/{sysfs,uverbs_main}.c,
drivers/net/ethernet/mellanox/mlx5/core/main.c (PCI ids of virtual functions).
"""

from rig.machine import Gid, Hca, Port
from rig.root import Root
from rig.text import hexadecimal, is_bus_id, line, parse_ids, parse_uevent, whole

CLASS = "/sys/class/infiniband/"
VERBS = "/sys/class/infiniband_verbs/"
NODES = "/dev/infiniband/"
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
# Of an Ethernet port's GID table: empty entries before one gives up where there was none (pods' start late), and after.
LOOK_AT_LEAST, EMPTY_AT_MOST = 64, 32
LOOK_AT_LEAST_IB, EMPTY_AT_MOST_IB = 1, 3  # of an InfiniBand port, where RDMA is addressed by LID
PORTS_AT_MOST, GIDS_AT_MOST = 255, 4096
STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")
# ConnectX-3, Connect-IB, ConnectX-4, -4Lx, -5, -5Ex, -6 and "mlx5Gen": in a guest nothing else tells a VF.
MELLANOX_FUNCTIONS = ("1004", "1012", "1014", "1016", "1018", "101a", "101c", "101e")


def parse_state(text: str | None) -> str | None:
    """`4: ACTIVE` -> ACTIVE; None for what is no port state of the verbs."""
    word = (line(text, 40) or "").rpartition(":")[2].strip()
    return word if word in STATES else None


def parse_phys_state(text: str | None) -> str | None:
    """`5: LinkUp` -> LinkUp."""
    word = (line(text, 60) or "").rpartition(":")[2].strip()
    return word or None


def parse_rate(text: str | None) -> tuple[str | None, float | None]:
    """`400 Gb/sec (4X NDR)` -> the text and 400.0; the number is None where it is absurd."""
    first = line(text, 60)
    words = (first or "").split()
    if len(words) < 2 or words[1] != "Gb/sec" or words[0].strip("0123456789.") or words[0].count(".") > 1:
        return first, None
    try:
        rate = float(words[0])
    except ValueError:
        return first, None
    return first, rate if 0 < rate <= 10000 else None


def parse_gid(text: str | None) -> str | None:
    """Eight groups of four hex digits, in lower case; None otherwise."""
    first = (line(text, 48) or "").lower()
    if len(first) != 39 or first.count(":") != 7 or first.strip("0123456789abcdef:"):
        return None
    return first if all(len(group) == 4 for group in first.split(":")) else None


def parse_lid(text: str | None) -> int | None:
    """`0x1f` as a number; 0 (no subnet manager yet, or RoCE) stays 0."""
    digits = hexadecimal(text, 4)
    return None if digits is None else int(digits, 16)


def parse_guid(text: str | None) -> str | None:
    """`b83f:d203:0000:1234`; the all-zero GUID of an unset VF is None."""
    first = (line(text, 24) or "").lower()
    if len(first) != 19 or first.count(":") != 3 or first.strip("0123456789abcdef:") or not first.strip("0:"):
        return None
    return first


def interface(text: str | None) -> str | None:
    """A network interface's name (at most 15 characters)."""
    name = line(text, 15)
    return None if name is None or "/" in name or " " in name else name


def read_gids(root: Root, folder: str, ethernet: bool) -> tuple[tuple[Gid, ...], int]:
    """Entries that are not all zero, and how many entries this process may not read.

    The kernel prints zeros for an entry that is empty or that it would not tell (rdma_query_gid fails); `types` and
    `ndevs` of an entry of another network namespace fail with EINVAL.
    """
    at_least, at_most = (LOOK_AT_LEAST, EMPTY_AT_MOST) if ethernet else (LOOK_AT_LEAST_IB, EMPTY_AT_MOST_IB)
    found: list[Gid] = []
    refused = empty = index = 0
    gids, types, ndevs = f"{folder}gids/", f"{folder}gid_attrs/types/", f"{folder}gid_attrs/ndevs/"
    read = root.read
    while index < GIDS_AT_MOST and (empty < at_most or (not found and index < at_least)):
        text = read(gids + str(index))
        if text is None:
            if root.link(gids + str(index)) is None:
                break  # the table ends here
            refused += 1
        if text is None or text.startswith(ZERO):
            empty += 1
        elif (gid := parse_gid(text)) is not None:
            empty = 0
            kind = line(read(types + str(index)), 40)
            refused += kind is None
            netdev = interface(read(ndevs + str(index))) if ethernet else None  # no entry of InfiniBand's has one
            found.append(Gid(index, gid, kind, netdev))
        index += 1
    return tuple(found), refused


def read_port(root: Root, hca: str, number: int, netdevs: tuple[str, ...]) -> Port:
    """One port; `netdevs` are the interfaces that the device's folder names for it."""
    folder, read = f"{CLASS}{hca}/ports/{number}/", root.read
    layer = line(read(folder + "link_layer"), 40)
    gids, refused = read_gids(root, folder, layer == "Ethernet")
    text, rate = parse_rate(read(folder + "rate"))
    named = {gid.netdev: None for gid in gids if gid.netdev is not None}
    return Port(
        hca,
        number,
        parse_state(read(folder + "state")),
        parse_phys_state(read(folder + "phys_state")),
        layer,
        rate,
        text,
        parse_lid(read(folder + "lid")),
        gids,
        refused,
        tuple(named) + tuple(name for name in netdevs if name not in named),
    )


def read_netdevs(root: Root, hca: str, ports: int) -> dict[int, tuple[str, ...]]:
    """Port number -> interfaces on it. With several ports behind one function, `dev_port` counts them from 0."""
    found: dict[int, tuple[str, ...]] = {}
    for name in root.ls(f"{CLASS}{hca}/device/net"):
        shift = whole(root.read(f"/sys/class/net/{name}/dev_port"), 0, 254) if ports > 1 else 0
        if interface(name) is not None:
            number = (shift or 0) + 1
            found[number] = (*found.get(number, ()), name)
    return found


def read_function(root: Root, folder: str, vendor: str | None, device: str | None) -> tuple[str | None, str | None]:
    """("pf" or "vf", bus id of a VF's physical function where the guest can see it)."""
    physical = root.link(folder + "physfn")
    if physical is not None:
        name = physical.rpartition("/")[2]
        return "vf", name if is_bus_id(name) else None
    if vendor == "15b3" and device in MELLANOX_FUNCTIONS:
        return "vf", None
    return "pf", None


def read_place(root: Root, folder: str) -> tuple[str | None, str | None, str | None, str | None]:
    """(bus id, vendor, device, driver) of the function that carries an RDMA device. One file tells all four on PCI:
    dev_uevent() in drivers/base/core.c, pci_uevent() in drivers/pci/pci-driver.c."""
    told = root.read(folder + "uevent")
    place, driver = parse_uevent(told, "PCI_SLOT_NAME"), parse_uevent(told, "DRIVER")
    vendor, device = parse_ids(parse_uevent(told, "PCI_ID"))
    if place is None:
        place = (root.link(folder[:-1]) or "").rpartition("/")[2]
    if vendor is None or device is None:
        vendor, device = hexadecimal(root.read(folder + "vendor"), 4), hexadecimal(root.read(folder + "device"), 4)
    if driver is None:
        driver = (root.link(folder + "driver") or "").rpartition("/")[2]
    return place if is_bus_id(place) else None, vendor, device, line(driver, 60)


def read_hca(root: Root, name: str, node: str | None) -> Hca:
    """One device. `node` is its uverbs name (`uverbs0`), None where the kernel shows none."""
    folder, read = f"{CLASS}{name}/", root.read
    bus, vendor, device, driver = read_place(root, folder + "device/")
    function, physical = read_function(root, folder + "device/", vendor, device) if bus else (None, None)
    opens = root.opens(NODES + node) if node is not None else None
    numbers = [whole(number, 1, PORTS_AT_MOST) for number in root.ls(folder + "ports")]
    ports = sorted(number for number in numbers if number is not None)
    netdevs = read_netdevs(root, name, len(ports))
    return Hca(
        name,
        bus,
        whole(read(folder + "device/numa_node"), 0, 1023),
        vendor,
        device,
        line(read(folder + "hca_type"), 60) or line(read(folder + "board_id"), 60),
        driver,
        function,
        physical,
        parse_guid(read(folder + "sys_image_guid")),
        NODES + node if node is not None and opens is not None else None,
        opens,
        tuple(read_port(root, name, number, netdevs.get(number, ())) for number in ports),
    )


def natural(name: str) -> tuple[tuple[int, str, int], ...]:
    """Sort key under which mlx5_2 stands before mlx5_10."""
    key: list[tuple[int, str, int]] = []
    digits = ""
    for letter in name + "\0":
        if letter in "0123456789" and len(digits) < 9:
            digits += letter
            continue
        if digits:
            key.append((0, "", int(digits)))
            digits = ""
        key.append((1, letter, 0))
    return tuple(key)


def read_hcas(root: Root) -> tuple[Hca, ...]:
    """All RDMA devices that this kernel shows, in natural order."""
    names = root.ls(CLASS[:-1])
    if not names:
        return ()
    nodes: dict[str, str] = {}
    for node in root.ls(VERBS[:-1]):
        owner = line(root.read(f"{VERBS}{node}/ibdev"), 63) if node.startswith("uverbs") else None
        if owner is not None:
            nodes[owner] = node
    return tuple(read_hca(root, name, nodes.get(name)) for name in sorted(names, key=natural))
