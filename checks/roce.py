"""RoCE: addresses, MTU and loss control of the rails; and whether the rails' subnets fit together."""

from checks import Need, check, known, say, silent
from checks.needs import HOST, RAILS, ROCE
from checks.rails import effective, port_health, rails
from rig.finding import Finding
from rig.host import PortHealth
from rig.lean import Iterator
from rig.machine import NetDev
from rig.plan.gid import ipv4_of, right_gid, routable
from rig.plan.hca import netdevs_of
from rig.plan.nccl_facts import Candidate, listed
from rig.snapshot import Snapshot
from rig.subnet import parse_address

FABRIC_TEAM = "Ask whoever runs the fabric; the switches must agree with the hosts"
FULL_MTU = 4096


def roce_rails(now: Snapshot) -> tuple[Candidate, ...]:
    found = tuple(one for one in rails(now) if one.port.link_layer == "Ethernet")
    return known(found or None, "the RoCE ports of the fabric")  # type: ignore[no-any-return]


def interfaces(now: Snapshot, one: Candidate) -> list[NetDev]:
    """The interfaces on a port that this namespace has; of a bond and its members the bond."""
    names = netdevs_of(one.port)
    found = [dev for dev in now.machine.netdevs if dev.name in names]
    masters = {dev.master for dev in found}
    return [dev for dev in now.machine.netdevs if dev.name in masters] or found


@check(
    at="quick",
    needs=(ROCE,),
    domain="host",
    fix="Give each RoCE interface an IPv4 address; in a container use --network=host, or its own virtual function",
    covers=("ROCE_V1_ONLY_DEVICE", "GID_LINK_LOCAL", "GID_IPV6_ONLY"),
)
def roce_ports_have_a_routable_gid(now: Snapshot) -> Iterator[Finding]:
    """Each RoCE rail has a RoCE v2 address that other nodes can reach.

    Needed is an entry of the GID table that is v2 and not link-local. Entries of another network namespace cannot be
    read (EINVAL, or all zero): then nothing can be told.

    Symptom: `Connection timed out` or completion status 12 in the first collective.
    Source: ports/N/gids, gid_attrs/types; NVIDIA/nccl#426, #769, #1131, #925, #1573.
    """
    for one in roce_rails(now):
        if right_gid(one.port, now.machine.netdevs) is not None:
            continue
        foreign = one.port.gids_refused or any(gid.type is None for gid in one.port.gids)
        if foreign or not (one.port.gids or interfaces(now, one)):
            text = f"{one.port.name}: its GID table belongs to another network namespace"
            yield say(text, one.port.name, outcome="unknown")
        else:
            good = any(routable(gid) for gid in one.port.gids)
            text = "has RoCE v1 addresses only" if good else "has no address that other nodes can reach"
            yield say(f"{one.port.name} {text}", one.port.name, "RoCE v2", [gid.type for gid in one.port.gids])


@check(at="quick", needs=(ROCE,), domain="host", severity="warn", fix="ip link set DEV up; ip address add ... dev DEV")
def roce_interfaces_are_up_with_an_address(now: Snapshot) -> Iterator[Finding]:
    """The network interface of each RoCE rail is up and has an address.

    A port may be ACTIVE while its interface is down or bare: then it has no GID, and no route leads to it.

    Symptom: one rail that never connects.
    Source: /sys/class/net/DEV/operstate, rtnetlink(7).
    """
    for one in roce_rails(now):
        devs = known(interfaces(now, one) or None, f"the interface of {one.port.name}")
        words = listed(dev.name for dev in devs)
        if all(dev.up is False for dev in devs):
            yield say(f"{words} of {one.port.name} is down", one.port.name, "up", "down")
        elif not any(dev.ipv4 or dev.ipv6 for dev in devs):
            yield say(f"{words} of {one.port.name} has no address", one.port.name, "an address", None)


@check(
    at="quick", needs=(ROCE,), domain="host", severity="warn", fix="ip link set DEV mtu 9000 on every rail and switch"
)
def roce_rails_have_one_mtu(now: Snapshot) -> Iterator[Finding]:
    """All RoCE rails have the same MTU.

    Symptom: one rail at half its rate, or large messages that never arrive.
    Source: /sys/class/net/DEV/mtu.
    """
    found = {one.port.name: dev.mtu for one in roce_rails(now) for dev in interfaces(now, one)[:1] if dev.mtu}
    sizes = set(known(found or None, "the MTU of the RoCE interfaces").values())
    if len(sizes) > 1:
        words = listed(f"{name} {mtu}" for name, mtu in found.items())
        yield say(f"RoCE rails of different MTU: {words}", "mtu", max(sizes), sorted(sizes))


@check(
    at="quick",
    needs=(ROCE, HOST),
    domain="host",
    severity="warn",
    fix="ip link set DEV mtu 9000, where the switches carry it",
)
def roce_packets_carry_4096_bytes(now: Snapshot) -> Iterator[Finding]:
    """RoCE sends packets of 4096 bytes.

    An interface with MTU 1500 leaves room for 1024 bytes a packet: four times as many packets for the same data.

    Symptom: 70 to 90 % of the rate.
    Source: include/rdma/ib_addr.h (iboe_get_mtu), which the MTU here is computed with.
    """
    names = {one.port.name for one in roce_rails(now)}
    told = [one for one in port_health(now) if f"{one.hca}:{one.port}" in names]
    yield from silent([(f"{one.hca}:{one.port}", one.active_mtu) for one in told], "its MTU")
    for one in told:
        if one.active_mtu is not None and one.active_mtu < FULL_MTU:
            text = f"{one.hca}:{one.port} sends packets of {one.active_mtu} bytes"
            yield say(text, f"{one.hca}:{one.port}", FULL_MTU, one.active_mtu)


def traffic_class(now: Snapshot, port: PortHealth) -> int:
    """Of NCCL's packets: what the device forces on all of them, else NCCL_IB_TC, else 0."""
    if port.traffic_class is not None:
        return port.traffic_class
    text = effective(now, "NCCL_IB_TC")
    return int(text) if text is not None and text.isdigit() else 0


def _signalling(now: Snapshot) -> list[PortHealth]:
    """Ports of RoCE rails of which congestion control is shown."""
    names = {one.port.name for one in roce_rails(now)}
    shown = [one for one in (now.host.ports if now.host else ()) if any(on is not None for on in one.ecn)]
    return [one for one in shown if f"{one.hca}:{one.port}" in names]


ECN = Need(
    "roce-ecn",
    "RoCE congestion control is not shown here: only the vendor's driver does, and only on the host",
    lambda now: bool(_signalling(now)),
)


@check(at="quick", needs=(ROCE, HOST, ECN), domain="host", severity="warn", fix=FABRIC_TEAM)
def roce_traffic_is_in_the_lossless_class(now: Snapshot) -> Iterator[Finding]:
    """RoCE packets are sent in a class in which congestion is signalled.

    The traffic class's upper six bits are the DSCP, whose upper three are the priority under the vendor's default
    mapping (106 is DSCP 26, priority 3). Read are the notification and reaction points of that priority; the
    switches' side cannot be seen from here. The kernel's own driver shows none of it.

    Symptom: fine with two nodes, collapse with sixteen.
    Source: /sys/class/net/DEV/ecn/roce_{np,rp}/enable/P, tc/N/traffic_class; vendor's page on RoCE flow control.
    """
    for one in _signalling(now):
        name, on = f"{one.hca}:{one.port}", [priority for priority, state in enumerate(one.ecn) if state]
        priority = traffic_class(now, one) >> 5
        if not on:
            yield say(f"{name}: congestion notification is off for all priorities", name, "on for one", "off")
        elif priority not in on:
            text = f"{name}: traffic goes in priority {priority}, congestion is signalled for {listed(on)} only"
            fix = f"NCCL_IB_TC={on[0] << 5 | 10} if the switches map it so ({FABRIC_TEAM[:1].lower()}{FABRIC_TEAM[1:]})"
            yield say(text, name, on, priority, fix=fix)


@check(
    at="quick",
    needs=(RAILS,),
    domain="platform",
    severity="warn",
    fix=FABRIC_TEAM,
    covers=("OVERLAPPING_SUBNETS",),
)
def rails_agree_about_subnets(now: Snapshot) -> Iterator[Finding]:
    """The rails are all in one subnet, or each in its own.

    Anything between is a rail with a wrong address or on the wrong switch: it reaches some peers, and others never.

    Symptom: an all-to-all that hangs while rings work.
    Source: GID 0's prefix on InfiniBand, IPv4 address on RoCE; NVIDIA/nccl#2013.
    """
    nets: dict[str, list[str]] = {}
    for one in rails(now):
        net = _network(now, one)
        if net is not None:
            nets.setdefault(net, []).append(one.port.name)
    if sum(map(len, nets.values())) < 3:
        return
    sizes = sorted(map(len, nets.values()))
    if len(nets) > 1 and sizes[0] == 1 and sizes[-1] > 1:
        odd = [name for names in nets.values() if len(names) == 1 for name in names]
        words = listed(f"{net} ({listed(names, 2)})" for net, names in nets.items())
        yield say(f"Rails in subnets that do not fit together: {words}", listed(odd), "one, or one each", sizes)


def _network(now: Snapshot, one: Candidate) -> str | None:
    """The network of a rail's address; of InfiniBand the subnet prefix."""
    if one.port.link_layer == "InfiniBand":
        return next((gid.gid[:19] for gid in one.port.gids if gid.index == 0), None)
    gid = right_gid(one.port, now.machine.netdevs)
    address = ipv4_of(gid.gid) if gid else None
    told = [text for dev in now.machine.netdevs for text in dev.ipv4 if text.partition("/")[0] == address]
    if not told:
        return None
    network = parse_address(told[0])
    if network is None:
        return None
    return ".".join(str(network.network >> shift & 255) for shift in (24, 16, 8, 0)) + f"/{network.prefix}"
