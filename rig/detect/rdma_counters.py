"""The health of RDMA ports: counters, firmware, what RoCE was told about congestion; and who holds peer memory.

Each counter is read once: a card that is asked too often floods the kernel's log (leptonai/gpud#1164).
Sources: Documentation/ABI/stable/sysfs-class-infiniband, drivers/infiniband/hw/mlx5/counters.c,
Documentation/ABI/testing/sysfs-class-net, include/rdma/ib_addr.h (iboe_get_mtu). The folders `ecn` of an interface and
`tc` of a device are of the vendor's own driver (MLNX_OFED, DOCA); the kernel's has neither.
"""

import re

from rig.host import PortHealth
from rig.lean import Iterable
from rig.machine import Hca, Port
from rig.root import Root
from rig.text import line, whole

CLASS = "/sys/class/infiniband/"
NET = "/sys/class/net/"
COUNTERS = (
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
)
HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
)
PRIORITIES = 8
VERBS_MTUS = (4096, 2048, 1024, 512, 256)
ROCE_OVERHEAD = 40 + 8 + 12 + 4 + 28 + 4  # GRH, UDP, BTH, XRC and atomic headers, ICRC
TCLASS = re.compile(r"tclass=([0-9]{1,3})\b")
PEERMEM = "nvidia_peermem"
HELD_BY_PEERMEM = ("ib_core", "ib_uverbs", "nvidia")


def roce_mtu(netdev_mtu: int | None) -> int | None:
    """Bytes of payload in an RDMA packet over an Ethernet interface of that MTU; None where none fits."""
    room = (netdev_mtu or 0) - ROCE_OVERHEAD
    return next((size for size in VERBS_MTUS if size <= room), None)


def parse_traffic_class(text: str | None) -> int | None:
    """`Global tclass=106`, or the number alone; a file without a setting is empty."""
    told = TCLASS.search(text or "")
    return whole(told[1] if told else line(text, 20), 0, 255)


def parse_ecn(notify: str | None, react: str | None) -> bool | None:
    """Whether notification point and reaction point are both on for a priority; None where either is not told."""
    states = [whole(text, 0, 1) for text in (notify, react)]
    return None if None in states else states == [1, 1]


def read_counters(root: Root, folder: str, names: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Those of the counters that this driver has."""
    found = ((name, whole(root.read(f"{folder}/{name}"))) for name in names)
    return tuple((name, value) for name, value in found if value is not None)


def read_ecn(root: Root, netdev: str) -> tuple[bool | None, ...]:
    """Congestion notification for each priority; empty where the driver does not tell."""
    folder = f"{NET}{netdev}/ecn/"
    if not root.ls(folder + "roce_np/enable"):
        return ()
    return tuple(
        parse_ecn(root.read(f"{folder}roce_np/enable/{one}"), root.read(f"{folder}roce_rp/enable/{one}"))
        for one in range(PRIORITIES)
    )


def read_port(root: Root, port: Port, firmware: str | None) -> PortHealth:
    """One port. Of several interfaces on it (a bond and its members) the first that tells counts."""
    device, nets = f"{CLASS}{port.hca}/", port.netdevs if port.link_layer == "Ethernet" else ()
    folder = f"{device}ports/{port.number}/"
    flaps = (whole(root.read(f"{NET}{name}/carrier_changes")) for name in nets)
    mtus = (roce_mtu(whole(root.read(f"{NET}{name}/mtu"), 1)) for name in nets)
    return PortHealth(
        port.hca,
        port.number,
        read_counters(root, folder + "counters", COUNTERS),
        read_counters(root, folder + "hw_counters", HW_COUNTERS),
        firmware,
        next((mtu for mtu in mtus if mtu is not None), None),
        parse_traffic_class(root.read(f"{device}tc/{port.number}/traffic_class")),
        next((ecn for name in nets if (ecn := read_ecn(root, name))), ()),
        next((count for count in flaps if count is not None), None),
    )


def read_ports(root: Root, hcas: Iterable[Hca]) -> tuple[PortHealth, ...]:
    """Every port of these devices."""
    found = []
    for hca in hcas:
        firmware = line(root.read(f"{CLASS}{hca.name}/fw_ver"), 40)
        found += [read_port(root, port, firmware) for port in hca.ports]
    return tuple(found)


def read_peermem(root: Root) -> tuple[int | None, tuple[str, ...] | None]:
    """(reference count of nvidia_peermem, modules that it is tied to); None, None where it is not loaded.

    Tied to ib_core it was built against a stack with the peer-memory interface; loaded without that it registers
    nothing (NVIDIA/nccl#1537, #1939). Source: /sys/module/M/refcnt, /sys/module/M/holders.
    """
    if root.link(f"/sys/module/{PEERMEM}") is None:
        return None, None
    held = tuple(name for name in HELD_BY_PEERMEM if PEERMEM in root.ls(f"/sys/module/{name}/holders"))
    return whole(root.read(f"/sys/module/{PEERMEM}/refcnt"), -1, 1 << 31), held
