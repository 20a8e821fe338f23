"""Network interfaces in kernel order, with addresses and the default route.

Sources: Documentation/ABI/testing/sysfs-class-net, net/core/net-sysfs.c, include/uapi/linux/if_arp.h, net/ipv4/
fib_trie.c (/proc/net/route), net/ipv6/{addrconf,route}.c (/proc/net/if_inet6, /proc/net/ipv6_route).
"""

from rig.lean import NamedTuple
from rig.machine import NetDev
from rig.root import Root
from rig.text import is_bus_id, line, whole

CLASS = "/sys/class/net/"
ARP_TYPES = {"772": "loopback", "32": "ipoib", "768": "tunnel", "769": "tunnel", "776": "tunnel", "778": "tunnel"}
DEVTYPES = {
    "bond": "bond",
    "vlan": "vlan",
    "bridge": "bridge",
    "vxlan": "tunnel",
    "gre": "tunnel",
    "wireguard": "tunnel",
}
ROUTE_UP, ROUTE_REJECT = 0x1, 0x200  # RTF_*, include/uapi/linux/route.h
IFF_UP = 0x1
INTERFACES_AT_MOST = 1024


class Route(NamedTuple):
    """A default route: its interface and metric, the lower the better."""

    interface: str
    metric: int


class Known(NamedTuple):
    """What is known of all interfaces together: addresses by interface, and who has the default route."""

    ipv4: dict[str, tuple[str, ...]]
    ipv6: dict[str, tuple[str, ...]]
    defaults: set[str]


def parse_uevent(text: str | None) -> dict[str, str]:
    """`INTERFACE=eth0`, `IFINDEX=2`, `DEVTYPE=vlan` lines."""
    return dict(entry.split("=", 1) for entry in (text or "").splitlines() if "=" in entry)


def parse_routes(text: str | None) -> tuple[Route, ...]:
    """IPv4 default routes of /proc/net/route (main table)."""
    found = []
    for entry in (text or "").splitlines()[1:]:
        words = entry.split()
        if len(words) < 8 or words[1] != "00000000" or words[7] != "00000000":
            continue
        flags, metric = _hex(words[3]), whole(words[6])
        if flags is not None and flags & ROUTE_UP and not flags & ROUTE_REJECT:
            found.append(Route(words[0], metric or 0))
    return tuple(found)


def parse_routes6(text: str | None) -> tuple[Route, ...]:
    """IPv6 default routes of /proc/net/ipv6_route; the kernel's own reject route on lo does not count."""
    found = []
    for entry in (text or "").splitlines():
        words = entry.split()
        if len(words) < 10 or words[0] != "0" * 32 or words[1] != "00" or words[9] == "lo":
            continue
        flags, metric = _hex(words[8]), _hex(words[5])
        if flags is not None and flags & ROUTE_UP and not flags & ROUTE_REJECT:
            found.append(Route(words[9], metric or 0))
    return tuple(found)


def best(routes: tuple[Route, ...]) -> set[str]:
    """Interfaces of the default routes with the lowest metric."""
    lowest = min((route.metric for route in routes), default=0)
    return {route.interface for route in routes if route.metric == lowest}


def parse_ipv4(text: str | None) -> dict[str, tuple[str, ...]]:
    """Interface -> addresses, from lines `eth0 192.0.2.1/24`."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in (text or "").splitlines():
        words = entry.split()
        if len(words) == 2 and is_ipv4(words[1]):
            found[words[0]] = (*found.get(words[0], ()), words[1])
    return found


def is_ipv4(text: str) -> bool:
    """Whether text is `a.b.c.d/len`."""
    address, slash, length = text.partition("/")
    parts = address.split(".")
    return (
        bool(slash)
        and whole(length, 0, 32) is not None
        and len(parts) == 4
        and all(whole(part, 0, 255) is not None for part in parts)
    )


def parse_ipv6(text: str | None) -> dict[str, tuple[str, ...]]:
    """Interface -> addresses `2001:db8::1/64`, from /proc/net/if_inet6 (address, index, length, scope, flags, name)."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in (text or "").splitlines():
        words = entry.split()
        length = _hex(words[2]) if len(words) == 6 else None
        if length is not None and length <= 128 and len(words[0]) == 32 and _hex(words[0]) is not None:
            found[words[5]] = (*found.get(words[5], ()), f"{short_ipv6(words[0])}/{length}")
    return found


def short_ipv6(digits: str) -> str:
    """32 hex digits in the form of RFC 5952: no leading zeros, the longest run of zero groups as `::`."""
    groups = [digits[at : at + 4].lstrip("0") or "0" for at in range(0, 32, 4)]
    start = length = 0
    for at in range(8):
        run = 0
        while at + run < 8 and groups[at + run] == "0":
            run += 1
        if run > length:
            start, length = at, run
    if length < 2:
        return ":".join(groups).lower()
    return (":".join(groups[:start]) + "::" + ":".join(groups[start + length :])).lower()


def _hex(text: str) -> int | None:
    return int(text, 16) if text and len(text) <= 32 and not text.strip("0123456789abcdefABCDEF") else None


def kind_of(
    path: str, uevent: dict[str, str], arp: str | None, names: tuple[str, str | None, str | None]
) -> str | None:
    """What an interface is. `names` = (its name, its ifindex, its iflink). None without any sign."""
    name, index, below = names
    if arp in ARP_TYPES:
        return ARP_TYPES[arp]
    devtype = uevent.get("DEVTYPE")
    if devtype in DEVTYPES:
        return DEVTYPES[devtype]
    if not path:
        return None
    if "/devices/virtual/" not in path:
        return "physical"
    # veth pairs, macvlan and ipvlan lie on another interface; only the first have no DEVTYPE
    if devtype is None and below is not None and below != index and arp == "1":
        return "veth"
    return "tunnel" if name.startswith("tun") else "virtual"


def is_up(operstate: str | None, flags: str | None, carrier: str | None) -> bool | None:
    """operstate (RFC 2863), or, where a driver keeps none (`unknown`: lo, tun, some guests), IFF_UP and carrier."""
    if operstate == "up":
        return True
    if operstate in ("down", "lowerlayerdown", "notpresent", "dormant", "testing"):
        return False
    bits = _hex((flags or "").removeprefix("0x"))
    if bits is None:
        return None
    return bool(bits & IFF_UP) and carrier != "0"


def bus_of(path: str) -> str | None:
    """The PCI function under an interface, the last bus id in its path (virtio and multi-port cards lie deeper)."""
    return next((part for part in reversed(path.split("/")) if is_bus_id(part)), None)


def read_netdev(root: Root, name: str, uevent: dict[str, str], known: Known) -> NetDev:
    """One interface."""
    folder, read = f"{CLASS}{name}/", root.read
    path = root.link(CLASS + name) or ""
    bus = bus_of(path)
    operstate = line(read(folder + "operstate"), 20)
    told = operstate in ("up", "down")
    arp = line(read(folder + "type"), 8)
    virtual = "/devices/virtual/" in path
    below = line(read(folder + "iflink"), 12) if virtual else None
    master = root.link(folder + "master")
    return NetDev(
        name,
        kind_of(path, uevent, arp, (name, uevent.get("IFINDEX"), below)),
        is_up(
            operstate, None if told else line(read(folder + "flags")), None if told else line(read(folder + "carrier"))
        ),
        whole(read(folder + "speed"), 1, 10_000_000),
        whole(read(folder + "mtu"), 1, 1 << 24),
        known.ipv4.get(name, ()),
        known.ipv6.get(name, ()),
        name in known.defaults,
        bus,
        master=master.rpartition("/")[2] if master else None,
    )


def read_netdevs(root: Root) -> tuple[NetDev, ...]:
    """All interfaces of this network namespace by ifindex, which is the order of getifaddrs and of NCCL."""
    found: list[tuple[int, NetDev]] = []
    known = Known(
        parse_ipv4(root.ipv4()),
        parse_ipv6(root.read("/proc/net/if_inet6")),
        best(parse_routes(root.read("/proc/net/route"))) or best(parse_routes6(root.read("/proc/net/ipv6_route"))),
    )
    for name in root.ls(CLASS[:-1])[:INTERFACES_AT_MOST]:
        if name == "bonding_masters":
            continue  # a file of the bonding driver among the interfaces
        uevent = parse_uevent(root.read(f"{CLASS}{name}/uevent"))
        index = whole(uevent.get("IFINDEX"), 1)
        if index is None:
            index = whole(root.read(f"{CLASS}{name}/ifindex"), 1)
        found.append((index if index is not None else 1 << 31, read_netdev(root, name, uevent, known)))
    return tuple(device for _, device in sorted(found, key=lambda pair: (pair[0], pair[1].name)))
