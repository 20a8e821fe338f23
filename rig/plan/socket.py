"""The interface for NCCL's bootstrap and for traffic over sockets: the one that holds the route to the peers.

NCCL's own order (findInterfaces in misc/socket.cc, 2.18 to 2.28): names starting with `ib`; then anything but docker*
and lo*; then docker*; then lo*. A user's value replaces all of it, exclusions included. Until 2.28.3 it does not look
whether an interface is up, and a link-local IPv6 address is good enough.
"""

from rig.lean import NamedTuple
from rig.machine import Machine, NetDev
from rig.plan import Setting
from rig.plan.nccl_facts import Say, Scene, Version, listed, say
from rig.plan.nccl_heard import listen
from rig.plan.nccl_match import exact_list, matches
from rig.subnet import is_link_local, parse_address

MOST = 16  # MAX_IFS
STATE_TEST = (2, 28, 3)  # first version that skips interfaces that are down, and virbr*
LEFTOVERS = (
    "docker",
    "br-",
    "veth",
    "virbr",
    "cni",
    "cali",
    "flannel",
    "tunl",
    "tun",
    "lxc",
    "podman",
    "kube-",
    "vxlan",
)


class SocketPlan(NamedTuple):
    """The right interface (None: undecided), what to write, and remarks."""

    right: str | None = None
    settings: tuple[Setting, ...] = ()
    said: tuple[Say, ...] = ()


def bare(address: str) -> str:
    """An address without its prefix length."""
    return address.partition("/")[0]


def local_only(address: str) -> bool:
    """Loopback and link-local addresses of both families."""
    plain = bare(address)
    return plain.startswith("127.") or plain == "::1" or is_link_local(plain)


def is_loopback(dev: NetDev) -> bool:
    return dev.kind == "loopback" or dev.name == "lo"


def addresses(dev: NetDev) -> tuple[str, ...]:
    """In the order in which getifaddrs reports them."""
    return dev.ipv4 + dev.ipv6


def reachable_addresses(dev: NetDev) -> tuple[str, ...]:
    """Addresses that another machine can be given."""
    return tuple(address for address in addresses(dev) if not local_only(address))


def nccl_interfaces(machine: Machine, value: str | None = None, version: Version | None = None) -> tuple[str, ...]:
    """Interfaces that NCCL takes under this value of NCCL_SOCKET_IFNAME; the first serves the bootstrap."""
    devs = [dev for dev in machine.netdevs if any(bare(one) != "::1" for one in addresses(dev))]
    if version is not None and version >= STATE_TEST:
        devs = [dev for dev in devs if dev.up is not False and not dev.name.startswith("virbr")]
    if value is not None and len(value) > 1:
        return tuple(dev.name for dev in devs if matches(value, dev.name))[:MOST]
    groups = (
        [dev.name for dev in devs if dev.name.startswith("ib")],
        [dev.name for dev in devs if not dev.name.startswith(("docker", "lo"))],
        [dev.name for dev in devs if dev.name.startswith("docker")],
        [dev.name for dev in devs if dev.name.startswith("lo")],
    )
    return tuple(next((group for group in groups if group), []))[:MOST]


def subnet(address: str) -> tuple[int, int, int] | None:
    """(family, network, prefix length); None without a length, and for a host route."""
    told = parse_address(address)
    return None if told is None or told.is_host else (told.version, told.network, told.prefix)


def holds_route_to(dev: NetDev, peers: tuple[str, ...]) -> bool:
    """Whether one of the peers' addresses lies in a subnet of this interface."""
    there = [address for peer in peers if (address := parse_address(bare(peer))) is not None]
    here = [address for own in reachable_addresses(dev) if (address := parse_address(own)) and not address.is_host]
    return any(network.holds(peer) for network in here for peer in there)


def right_interface(scene: Scene) -> str | None:
    """The interface that reaches the peers: by their addresses, by the platform file, by the default route, or the
    only one."""
    real = [dev for dev in scene.machine.netdevs if not is_loopback(dev) and reachable_addresses(dev)]
    real = [dev for dev in real if dev.up is not False and dev.master is None]
    told = tuple(address for peer in scene.peers for address in peer.addresses)
    if told and (direct := [dev.name for dev in real if holds_route_to(dev, told)]):
        return direct[0]
    named = {nic.netdev for nic in scene.platform.nics if nic.role == "frontend"} if scene.platform else set()
    for devs in ([dev for dev in real if dev.name in named], [dev for dev in real if dev.default_route]):
        if devs:
            return devs[0].name
    plain = [dev.name for dev in real if not dev.name.startswith(LEFTOVERS)]
    return plain[0] if len(plain) == 1 else None


def plan_socket(scene: Scene) -> SocketPlan:
    """Write `=name` where NCCL, left alone, would take something else as well or instead."""
    machine = scene.machine
    right = right_interface(scene)
    said = [*overlapping(scene, right), *host_address_on_lo(machine)]
    if right is None:
        return SocketPlan(None, (), tuple(said))
    alone = nccl_interfaces(machine, None, scene.version)
    said.extend(wrong_first(scene, alone, right))
    if alone == (right,) or _equal_rails(machine, alone, right):
        return SocketPlan(right, (), tuple(said))
    reason = "it holds the route to the peers"
    setting = Setting("NCCL_SOCKET_IFNAME", exact_list((right,)), "detection", reason)
    return SocketPlan(right, (setting,), tuple(said))


def _equal_rails(machine: Machine, alone: tuple[str, ...], right: str) -> bool:
    """Several data interfaces, each a network of its own (host routes), with the right one first: NCCL's choice is
    right."""
    devs = {dev.name: dev for dev in machine.netdevs}
    taken = [devs[name] for name in alone]
    if alone[:1] != (right,) or len(taken) < 3:
        return False
    return all(address.endswith("/32") for dev in taken for address in dev.ipv4) and all(dev.ipv4 for dev in taken)


def overlapping(scene: Scene, right: str | None) -> tuple[Say, ...]:
    """Two interfaces that are up in one subnet: the kernel picks the source by the order of routes, which differs per
    node."""
    seen: dict[tuple[int, int, int], str] = {}
    shown: set[str] = set()
    for dev in scene.machine.netdevs:
        if is_loopback(dev) or dev.up is False or dev.master is not None or dev.name.startswith(LEFTOVERS):
            continue
        if len(scene.machine.netdevs) < 2:
            break
        for address in reachable_addresses(dev):
            if address in shown:  # a bond and its members, or an alias, can show one address twice
                continue
            shown.add(address)
            key = subnet(address)
            other = seen.setdefault(key, dev.name) if key is not None else dev.name
            if other != dev.name and (right is None or right in (other, dev.name)):
                text = (
                    f"{other} and {dev.name} are up in the same subnet ({address}): replies may leave by the wrong one"
                )
                fix = "Give them different subnets, or different route metrics"
                return (say("OVERLAPPING_SUBNETS", text, verdict="host-fix-needed", subject=dev.name, fix=fix),)
    return ()


def host_address_on_lo(machine: Machine) -> tuple[Say, ...]:
    """The host's own address sits on lo (routing to the host): NCCL leaves lo out, or takes 127.0.0.1 from it first."""
    for dev in machine.netdevs:
        if is_loopback(dev) and (own := reachable_addresses(dev)):
            others = [one for one in machine.netdevs if not is_loopback(one) and any(map(_global, addresses(one)))]
            text = f"{own[0]} is an address of {dev.name}, which NCCL leaves out (or takes 127.0.0.1 from first)"
            verdict = None if others else "host-fix-needed"
            outcome = "warn" if others else None
            fix = "Put the host's address on a dummy interface and name that in NCCL_SOCKET_IFNAME"
            return (say("SOCKET_IF_LO_GLOBAL", text, verdict=verdict, outcome=outcome, subject=dev.name, fix=fix),)
    return ()


def _global(address: str) -> bool:
    return not local_only(address)


def wrong_first(scene: Scene, alone: tuple[str, ...], right: str) -> tuple[Say, ...]:
    """NCCL alone would use a leftover interface, or bootstrap on one that has no address a peer can reach."""
    if not alone or alone == (right,) or scene.user_value("NCCL_SOCKET_IFNAME"):
        return ()
    first = next(dev for dev in scene.machine.netdevs if dev.name == alone[0])
    leftovers = [name for name in alone if name != right and name.startswith(LEFTOVERS)]
    lost = first.name != right and (not reachable_addresses(first) or first.up is False or first.name in leftovers)
    if not lost and not leftovers:
        return ()
    if lost:
        text = f"NCCL alone would bootstrap on {first.name}, which peers cannot reach; {right} holds the route"
    else:
        text = f"NCCL alone would also use {listed(leftovers)}, which lead nowhere; {right} holds the route"
    verdict = "misconfigured" if lost or listen(scene.symptoms).failed else None
    fix = f"NCCL_SOCKET_IFNAME={exact_list((right,))}"
    return (say("SOCKET_IF_AMBIGUOUS", text, verdict=verdict, want=right, got=list(alone), fix=fix),)
