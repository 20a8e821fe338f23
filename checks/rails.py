"""Which RDMA devices carry the job's traffic, for the checks that judge only those."""

from checks import known
from checks.needs import several_nodes
from rig.lean import TYPE_CHECKING, Iterable
from rig.machine import Hca, Port
from rig.plan.hca import USABLE_LAYERS, is_efa, reachable
from rig.plan.nccl_facts import Candidate
from rig.snapshot import Snapshot

if TYPE_CHECKING:
    from rig.host import PortHealth

LEFT_OUT = ("FRONT_END_NIC_EXCLUDED", "STORAGE_NIC_EXCLUDED")  # what the plan says of ports of another network


def fabric(now: Snapshot) -> tuple[Hca, ...]:
    """Devices that are meant to carry the job's traffic, whether or not they can: of the fabric's link layer, no
    virtual function beside its own physical one, none that the plan left out as front-end or storage. EFA where it is.
    """
    hcas = now.machine.hcas
    if efa := tuple(hca for hca in hcas if is_efa(hca)):
        return efa
    layer = fabric_layer(hcas)
    left_out = {one.subject for one in now.plan.findings if one.id in LEFT_OUT}
    return tuple(hca for hca in hcas if rail_ports(hca, layer, left_out) and not _is_double(hca, hcas))


def rail_ports(hca: Hca, layer: str | None, left_out: Iterable[str] = ()) -> tuple[Port, ...]:
    return tuple(port for port in hca.ports if port.link_layer == layer and port.name not in left_out)


def fabric_layer(hcas: Iterable[Hca]) -> str | None:
    """InfiniBand where such a port is up, or where most ports are; else Ethernet; None without either."""
    ports = [port for hca in hcas if not is_efa(hca) for port in hca.ports if port.link_layer in USABLE_LAYERS]
    infiniband = [port for port in ports if port.link_layer == "InfiniBand"]
    if any(port.state == "ACTIVE" for port in infiniband) or 2 * len(infiniband) > len(ports):
        return "InfiniBand"
    return "Ethernet" if ports else None


def _is_double(hca: Hca, hcas: Iterable[Hca]) -> bool:
    """Another function of the same card counts in its place: the physical one where this process can open it (NCCL
    would take both), else the virtual one (a pod sees its host's too)."""
    if hca.function != "vf" and reachable(hca):
        return False
    kin = [one for one in hcas if {one.function, hca.function} == {"pf", "vf"} and _one_card(one, hca)]
    return any(map(reachable, kin))


def _one_card(a: Hca, b: Hca) -> bool:
    buses = {a.bus_id, b.bus_id} - {None}
    return a.pf_bus_id in buses or b.pf_bus_id in buses or (a.sys_image_guid == b.sys_image_guid is not None)


def rails(now: Snapshot) -> tuple[Candidate, ...]:
    """The fabric's ports that are up, of devices that this process can open; EFA's are not among them."""
    layer = fabric_layer(now.machine.hcas)
    left_out = {one.subject for one in now.plan.findings if one.id in LEFT_OUT}
    return tuple(
        Candidate(hca, port)
        for hca in fabric(now)
        if not is_efa(hca) and reachable(hca)
        for port in rail_ports(hca, layer, left_out)
        if port.state == "ACTIVE"
    )


def wanted(now: Snapshot) -> bool:
    """Whether somebody counts on RDMA: it was sold, or the job has several nodes."""
    return now.expected.promises_hcas or several_nodes(now)


def gravity(now: Snapshot) -> str:
    """Outcome of a finding that keeps RDMA from being used: nobody misses it on a single node."""
    return "fail" if wanted(now) else "warn"


def port_health(now: Snapshot) -> "list[PortHealth]":
    """What was read of the fabric's ports; CannotTell where nothing was."""
    names = {hca.name for hca in fabric(now)}
    found = [one for one in (now.host.ports if now.host else ()) if one.hca in names]
    return found or known(None, "the health of the RDMA ports")


def effective(now: Snapshot, name: str) -> str | None:
    """What ranks will read: the user's value, else the plan's."""
    if told := now.environ.get(name):
        return told
    lines = (*now.plan.environment, *now.plan.nccl)
    return next((str(line.value) for line in lines if line.name == name), None)
