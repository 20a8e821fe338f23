"""What is healthy about the fabric of a snapshot: full links, ports without errors, RoCE in its lossless class."""

from rig.host import PciLink, PortHealth
from rig.machine import Hca, Machine, PciDevice, Port
from rig.snapshot import Snapshot

GIB = 1 << 30
COUNTERS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors")
LOSSES = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "roce_adp_retrans")
LOSSLESS = tuple(priority == 3 for priority in range(8))
BRIDGE = "060400"


def healthy_link(device: PciDevice, window: int | None) -> PciLink:
    """All lanes at full speed, and a slot as good as the card."""
    gts, lanes = device.max_link_gts or 32.0, device.max_link_width or 16
    return PciLink(device.bus_id, gts, lanes, gts, lanes, 0, 0, 0, gts, lanes, window)


def healthy_links(machine: Machine) -> tuple[PciLink, ...]:
    windows = {gpu.bus_id: _window(gpu.memory_bytes) for gpu in machine.gpus}
    buses = {*windows, *(hca.bus_id for hca in machine.hcas)}
    return tuple(healthy_link(one, windows.get(one.bus_id)) for one in machine.pci if one.bus_id in buses)


def _window(memory: int | None) -> int | None:
    """The next power of two, as BARs are."""
    return None if memory is None else 1 << (memory - 1).bit_length()


def healthy_port(hca: Hca, port: Port) -> PortHealth:
    roce = port.link_layer == "Ethernet"
    return PortHealth(
        hca.name,
        port.number,
        tuple((name, 0) for name in COUNTERS),
        tuple((name, 3) for name in LOSSES) if roce else (),
        "28.39.1002",
        4096 if roce else None,
        106 if roce else None,
        LOSSLESS if roce else (),
        2 if roce else None,
    )


def with_healthy_fabric(now: Snapshot) -> Snapshot:
    """ACS is off on every bridge; where nvidia_peermem is loaded it is tied to the RDMA stack."""
    host, machine = now.host, now.machine
    assert host is not None
    loaded = bool(machine.kernel.nvidia_peermem)
    host = host._replace(
        links=healthy_links(machine),
        ports=tuple(healthy_port(hca, port) for hca in machine.hcas for port in hca.ports),
        peermem_users=0 if loaded else None,
        peermem_holders=("ib_core", "nvidia") if loaded else None,
        kernel_log=() if host.kernel_log is None else host.kernel_log,
    )
    pci = tuple(one._replace(acs_redirects=False) if one.class_code == BRIDGE else one for one in machine.pci)
    return now._replace(host=host, machine=machine._replace(pci=pci))
