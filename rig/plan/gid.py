"""Which GID a RoCE port must use, and which one NCCL would take on its own.

Rule: entries that this process can read and whose interface is in this namespace; type RoCE v2; an address in the
platform's subnet, else IPv4, else global IPv6; never link-local, never v1. Per HCA, since vendors and namespaces order
their tables differently: index 3 is a habit of mlx5 hosts, not a rule.
"""

from rig.machine import Gid, NetDev, Port
from rig.plan.nccl_facts import Version
from rig.plan.nccl_vars import GID_DETECTION, GID_WALK_FIXED
from rig.subnet import is_link_local as link_local
from rig.subnet import parse_address

V1, V2 = "IB/RoCE v1", "RoCE v2"
TABLE_LIMIT = 256  # longest GID table that is modelled

_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_NOTHING = "0000:0000:0000:0000:0000:0000:0000:0000"


def ipv4_of(gid: str) -> str | None:
    """Dotted IPv4 address of a mapped GID (0000:...:ffff:c633:640a); None for others."""
    if not gid.startswith(_MAPPED):
        return None
    tail = gid[len(_MAPPED) :].replace(":", "")
    try:
        value = int(tail, 16)
    except ValueError:
        return None
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


def is_link_local(gid: str) -> bool:
    """fe80::/10, and IPv4 169.254/16 in mapped form."""
    return link_local(ipv4_of(gid) or gid)


def in_subnet(gid: str, subnet: str) -> bool:
    """Whether the address of a GID lies in a CIDR subnet of either family. A bad subnet holds nothing."""
    address, network = parse_address(ipv4_of(gid) or gid), parse_address(subnet)
    return address is not None and network is not None and network.holds(address)


def routable(entry: Gid) -> bool:
    """A GID that peers in other subnets can reach, whatever its RoCE version."""
    return entry.gid != _NOTHING and not is_link_local(entry.gid)


def visible(port: Port, netdevs: tuple[NetDev, ...]) -> tuple[Gid, ...]:
    """Entries of this namespace. Where no interface of the table is known at all, every readable entry counts."""
    here = {dev.name for dev in netdevs}
    own = tuple(entry for entry in port.gids if entry.type is not None and entry.netdev in here)
    return own or tuple(entry for entry in port.gids if entry.type is not None)


def _is_vlan(entry: Gid, netdevs: tuple[NetDev, ...]) -> bool:
    if entry.netdev is None:
        return False
    return "." in entry.netdev or any(dev.kind == "vlan" for dev in netdevs if dev.name == entry.netdev)


def right_gid(port: Port, netdevs: tuple[NetDev, ...] = (), subnet: str | None = None) -> Gid | None:
    """The entry that this port must use; None where the table has none that is fit (or is not known)."""
    fit = [entry for entry in visible(port, netdevs) if entry.type == V2 and routable(entry)]
    if subnet is not None and (inside := [entry for entry in fit if in_subnet(entry.gid, subnet)]):
        return inside[0]
    order = sorted(fit, key=lambda entry: (ipv4_of(entry.gid) is None, _is_vlan(entry, netdevs), entry.index))
    return order[0] if order else None


def v1_only(port: Port) -> bool:
    """A readable table without any v2 entry: an old card, or one with RoCE switched off."""
    types = {entry.type for entry in port.gids}
    return bool(port.gids) and V2 not in types and None not in types


def ipv6_only(port: Port) -> bool:
    """Routable entries exist, and none of them is IPv4."""
    good = [entry for entry in port.gids if routable(entry)]
    return bool(good) and all(ipv4_of(entry.gid) is None for entry in good)


def starts_late(port: Port) -> bool:
    """A table whose first entries belong to another namespace or are empty."""
    return bool(port.gids) and min(entry.index for entry in port.gids) > 0


def nccl_choice(
    port: Port, version: Version, *, family: str = "AF_INET", subnet: str | None = None, roce: int = 2
) -> int | None:
    """The index that NCCL takes when NCCL_IB_GID_INDEX is unset. None: the walk aborts (entries of other namespaces).

    Up to 2.20.5 it is 0. From 2.21.5 the table is walked (ncclIbGetGidIndex, ncclUpdateGidIndex in
    transport/net_ib.cc): a candidate replaces the current entry when its family is the wanted one and the current's is
    not - whatever its RoCE version -, or when it is of the wanted family, valid and of the wanted version while the
    current is not.
    """
    if version < GID_DETECTION:
        return 0
    if port.gids_refused and version < GID_WALK_FIXED:
        return None
    table = {entry.index: entry for entry in port.gids if 0 <= entry.index < TABLE_LIMIT}
    wanted_type = V2 if roce == 2 else V1
    now = 0
    for index in range(1, max(table, default=0) + 1):
        entry = table.get(index)
        if entry is None or not _same_family(entry.gid, family) or (subnet and not in_subnet(entry.gid, subnet)):
            continue
        current = table.get(now)
        gid = current.gid if current else _NOTHING
        if not _same_family(gid, family):
            now = index
        elif _valid_to_nccl(entry.gid) and entry.type == wanted_type:
            if current is None and version < GID_WALK_FIXED:
                return None  # the type of the empty current entry cannot be read, and that ends the walk
            differs = current is None or current.type != entry.type or not _valid_to_nccl(gid)
            now = index if differs else now
    return now


def _valid_to_nccl(gid: str) -> bool:
    return gid != _NOTHING and not gid.startswith("fe80:0000:0000:0000:")


def _same_family(gid: str, family: str) -> bool:
    return (ipv4_of(gid) is not None) == (family != "AF_INET6")
