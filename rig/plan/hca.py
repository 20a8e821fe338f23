"""Which HCAs carry the job's traffic: by role, from facts, and never by a guess.

Candidates are ports that NCCL can really use. Each rule then drops ports of another network and says why; no rule may
drop the last port. What two rules leave undecided is not written: the operator names the roles in the platform file.
"""

from rig.lean import Callable, NamedTuple
from rig.machine import Hca, Machine, Port
from rig.plan.gid import ipv4_of
from rig.plan.nccl_facts import Candidate, Say, Scene, listed, names, say
from rig.plan.nccl_paths import NEAR, closest_gpu, gpu_less_numa
from rig.plan.nccl_vars import hca_limit

USABLE_LAYERS = ("InfiniBand", "Ethernet")
_PROVIDERS = {"15b3": "mlx5", "8086": "irdma", "14e4": "bnxt_re", "1ded": "erdma", "1d0f": "efa"}  # by PCI vendor


class Choice(NamedTuple):
    """The chosen ports, what NCCL would take without a filter, and whether the choice is a decision."""

    chosen: tuple[Candidate, ...] = ()
    unfiltered: tuple[Candidate, ...] = ()
    decided: bool = True
    said: tuple[Say, ...] = ()


class Kept(NamedTuple):
    """What a rule leaves, with its reasons. `undecided`: two groups remain and nothing tells them apart."""

    ports: tuple[Candidate, ...]
    said: tuple[Say, ...] = ()
    undecided: bool = False


def is_efa(hca: Hca) -> bool:
    """An AWS device: shown under /sys/class/infiniband, but not usable by NCCL's own IB transport."""
    return hca.driver == "efa" or hca.vendor == "1d0f"


def reachable(hca: Hca) -> bool:
    """Whether this process can open the device. Unknown counts as yes."""
    return hca.opens is not False and not (hca.opens is None and hca.uverbs is None)


def provider_of(hca: Hca) -> str | None:
    """Name of the user-space provider that drives the device; None where it cannot be told."""
    words = f"{hca.driver or ''} {hca.name}"
    for family in ("mlx4", "mlx5", "efa", "irdma", "bnxt_re", "erdma", "hfi1", "qedr", "hns", "qib", "rxe", "siw"):
        if family in words:
            return {"qib": "ipathverbs", "hfi1": "hfi1verbs"}.get(family, family)
    return _PROVIDERS.get(hca.vendor or "")


def has_provider(machine: Machine, hca: Hca) -> bool:
    """Whether the image carries the device's provider library. Unknown counts as yes."""
    present = machine.libraries.ib_providers
    if machine.libraries.libibverbs is False:
        return False
    wanted = provider_of(hca)
    return present is None or (bool(present) and (wanted is None or wanted in present))


def active_ports(machine: Machine) -> tuple[Candidate, ...]:
    """Ports that are up and of a link layer that NET/IB knows, whether or not this container may use them."""
    return tuple(
        Candidate(hca, port)
        for hca in machine.hcas
        for port in hca.ports
        if port.state == "ACTIVE" and port.link_layer in USABLE_LAYERS and not is_efa(hca)
    )


def usable_ports(machine: Machine) -> tuple[Candidate, ...]:
    """What NCCL would take without a filter."""
    return tuple(one for one in active_ports(machine) if reachable(one.hca) and has_provider(machine, one.hca))


def by_platform(scene: Scene, ports: tuple[Candidate, ...]) -> Kept:
    """The operator's roles narrow the choice; a device that is named there and absent here adds nothing."""
    if scene.platform is None or not scene.platform.nics:
        return Kept(ports)
    roles = {one: role_of(scene, one) for one in ports}
    compute = tuple(one for one in ports if roles[one] == "compute")
    kept = compute or tuple(one for one in ports if roles[one] is None)
    said = []
    for one in ports:
        if one not in kept and kept:
            code = "STORAGE_NIC_EXCLUDED" if roles[one] == "storage" else "FRONT_END_NIC_EXCLUDED"
            said.append(_excluded(code, one, f"the platform file gives it the role {roles[one] or 'none'}"))
    return Kept(kept or ports, tuple(said))


def role_of(scene: Scene, one: Candidate) -> str | None:
    """Role that the platform file gives to a port."""
    for nic in scene.platform.nics if scene.platform else ():
        same = nic.name == one.hca.name or (nic.bus_id is not None and nic.bus_id == one.hca.bus_id)
        if same and nic.port == one.port.number:
            return nic.role
    return None


def by_link_layer(scene: Scene, ports: tuple[Candidate, ...]) -> Kept:
    """Beside InfiniBand, Ethernet ports are front-end."""
    layers = {one.port.link_layer for one in ports}
    if len(layers) < 2:
        return Kept(ports)
    said = (
        _excluded("FRONT_END_NIC_EXCLUDED", one, "it is Ethernet beside InfiniBand ports, so of another network")
        for one in ports
        if one.port.link_layer == "Ethernet"
    )
    return Kept(tuple(one for one in ports if one.port.link_layer == "InfiniBand"), tuple(said))


def by_card(scene: Scene, ports: tuple[Candidate, ...]) -> Kept:
    """A physical function wins over its virtual functions: NCCL would fuse or double them."""
    physical = {one.hca.sys_image_guid for one in ports if one.hca.function == "pf"} - {None}
    buses = {one.hca.bus_id for one in ports if one.hca.function == "pf"} - {None}
    twins = tuple(
        one
        for one in ports
        if one.hca.function == "vf" and (one.hca.sys_image_guid in physical or one.hca.pf_bus_id in buses)
    )
    if not twins:
        return Kept(ports)
    text = f"{listed(names(twins))}: virtual functions are visible beside their own physical function"
    fix = "Expose either the physical or the virtual function to the container"
    said = say("PF_VF_DUPLICATE", text, verdict="misconfigured", subject=listed(names(twins)), fix=fix)
    return Kept(tuple(one for one in ports if one not in twins), (said,))


def by_default_route(scene: Scene, ports: tuple[Candidate, ...]) -> Kept:
    """The Ethernet port that owns the default route is the front-end, and so are others in its subnet, where ports
    remain."""
    owners = _default_route_devices(scene.machine)
    ethernet = tuple(one for one in ports if one.port.link_layer == "Ethernet")
    front = {one: "its interface owns the default route" for one in ethernet if owners & netdevs_of(one.port)}
    beside = _front_end_networks(scene.machine)
    also = {one: "it is in the subnet of the default route" for one in ethernet if beside & _networks(one.port)}
    if len(front | also) < len(ports):
        front = also | front
    if not front or len(front) == len(ports):
        return Kept(ports)
    said = (_excluded("FRONT_END_NIC_EXCLUDED", one, why) for one, why in front.items())
    return Kept(tuple(one for one in ports if one not in front), tuple(said))


def _front_end_networks(machine: Machine) -> set[str]:
    """Networks of the default route's interfaces, by the first three bytes: what an unknown or a host's prefix
    allows."""
    return {address.rpartition(".")[0] for dev in machine.netdevs if dev.default_route for address in dev.ipv4}


def _networks(port: Port) -> set[str]:
    found = (ipv4_of(gid.gid) for gid in port.gids)
    return {address.rpartition(".")[0] for address in found if address is not None}


def netdevs_of(port: Port) -> set[str]:
    """Interfaces on a port, from sysfs and from its GID table."""
    return set(port.netdevs) | {gid.netdev for gid in port.gids if gid.netdev is not None}


def _default_route_devices(machine: Machine) -> set[str]:
    owners = {dev.name for dev in machine.netdevs if dev.default_route}
    return owners | {dev.name for dev in machine.netdevs if dev.master in owners}


def by_distance(scene: Scene, ports: tuple[Candidate, ...]) -> Kept:
    """Ports near a GPU are the rails; a card on a NUMA node without GPUs, or known to be far while others are near, is
    not."""
    kinds = {one: closest_gpu(scene, one.hca) for one in ports}
    some_near = any(kind in NEAR for kind in kinds.values())
    far = []
    for one in ports:
        if gpu_less_numa(scene.machine, one.hca) and kinds[one] not in NEAR:
            far.append((one, "it hangs on a NUMA node without GPUs"))
        elif some_near and kinds[one] is not None and kinds[one] not in NEAR:
            far.append((one, f"no GPU is nearer than {kinds[one]} while other ports are beside one"))
    if not far or len(far) == len(ports):
        return Kept(ports)
    gone = {one for one, _ in far}
    said = (_excluded("STORAGE_NIC_EXCLUDED", one, why) for one, why in far)
    return Kept(tuple(one for one in ports if one not in gone), tuple(said))


def by_rate(scene: Scene, ports: tuple[Candidate, ...]) -> Kept:
    """Of several speeds the group with the greatest sum is the fabric, unless there is just one port for each GPU."""
    rates = {one.port.rate_gbps for one in ports} - {None}
    if len(rates) < 2:
        return Kept(ports)
    slow = listed(f"{one.port.name} {one.port.rate_gbps:g}" for one in ports if one.port.rate_gbps is not None)
    if len(ports) == len(scene.machine.gpus):
        text = f"Rails of different speed (Gb/s): {slow}; the slowest sets the pace"
        fix = "Check the cable and the switch port of the slower one"
        return Kept(ports, (say("RATE_MISMATCH", text, verdict="degraded", fix=fix),))
    total = {rate: sum(rate for one in ports if one.port.rate_gbps == rate) for rate in rates if rate is not None}
    best = sorted(total, key=lambda rate: total[rate])
    if total[best[-1]] == total[best[-2]]:
        return Kept(ports, (), undecided=True)
    kept = tuple(one for one in ports if one.port.rate_gbps in (best[-1], None))
    said = []
    for one in ports:
        if one not in kept:
            said.append(_excluded("FRONT_END_NIC_EXCLUDED", one, f"{one.port.rate_gbps:g} beside {best[-1]:g} Gb/s"))
    return Kept(kept, tuple(said))


def _excluded(code: str, one: Candidate, why: str) -> Say:
    return say(code, f"{one.port.name} is left out: {why}", domain="platform", subject=one.port.name)


RULES: tuple[Callable[[Scene, tuple[Candidate, ...]], Kept], ...] = (
    by_platform,
    by_link_layer,
    by_card,
    by_default_route,
    by_distance,
    by_rate,
)


def choose(scene: Scene) -> Choice:
    """Apply the rules in order to the ports that NCCL would take."""
    everything = usable_ports(scene.machine)
    ports, said, decided = everything, list(mixed_rates(everything)), True
    for rule in RULES:
        kept = rule(scene, ports)
        ports = kept.ports
        said.extend(kept.said)
        decided = decided and not kept.undecided
    limit = hca_limit(scene.version)
    if len(ports) > limit:
        decided = False
        text = f"{len(ports)} ports are usable, NCCL keeps the first {limit} and does not say so"
        fix = "Expose only the physical functions, or this container's own virtual functions"
        said.append(say("TOO_MANY_HCAS", text, verdict="misconfigured", want=limit, got=len(ports), fix=fix))
    elif not decided or _odd_number(scene, ports):
        decided = False
        text = f"Not all of these HCAs can be rails, and nothing tells which: {listed(names(ports), 16)}"
        fix = "Name the roles in /etc/rdma/network_topology.json (nics[].role), or set NCCL_IB_HCA"
        said.append(say("HCA_AMBIGUOUS", text, outcome="unknown", domain="platform", fix=fix))
    return Choice(ports, everything, decided, tuple(said))


def _odd_number(scene: Scene, ports: tuple[Candidate, ...]) -> bool:
    """More ports than GPUs, and not a multiple: some are of another network. Ports that are down count as rails."""
    if any(role_of(scene, one) == "compute" for one in ports):
        return False
    layers = {one.port.link_layer for one in ports}
    lost = sum(
        port.state not in (None, "ACTIVE") and port.link_layer in layers
        for hca in scene.machine.hcas
        for port in hca.ports
    )
    gpus = len({gpu.bus_id or gpu.index for gpu in scene.machine.gpus})
    return gpus > 1 and len(ports) > gpus and len(ports) % gpus != 0 and (len(ports) + lost) % gpus != 0


def mixed_rates(ports: tuple[Candidate, ...]) -> tuple[Say, ...]:
    """Told for the record: usable ports of one link layer differ in speed."""
    for layer in USABLE_LAYERS:
        rates = sorted({one.port.rate_gbps for one in ports if one.port.link_layer == layer and one.port.rate_gbps})
        if len(rates) > 1:
            text = f"{layer} ports of different speed: {listed(f'{rate:g}' for rate in rates)} Gb/s"
            return (say("RATE_MISMATCH", text, got=rates),)
    return ()
