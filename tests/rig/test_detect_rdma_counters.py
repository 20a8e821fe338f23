"""RDMA ports for checks: counters, RoCE settings, who holds peer memory; each counter is asked for once."""

import pytest

from rig.captured import Captured, parse
from rig.detect import rdma_counters
from rig.host import PortHealth
from rig.machine import Hca, Port

TREE = """rig-capture 1
/sys/class/infiniband/mlx5_0
  fw_ver = 28.39.1002
/sys/class/infiniband/mlx5_0/ports/1/counters
  symbol_error = 5
  link_downed = 2
  port_rcv_errors = 4294967295
  link_error_recovery = garbage
  port_rcv_data = 99
/sys/class/infiniband/mlx5_0/ports/1/hw_counters
  out_of_sequence = 7
  packet_seq_err !
  roce_adp_retrans = 0
/sys/class/infiniband/mlx5_0/tc/1
  traffic_class = Global tclass=106
/sys/class/net/bond1
  mtu = 9000
  carrier_changes = 4
/sys/class/net/ens2f0np0/ecn/roce_np/enable
  0 = 0
  3 = 1
  5 = 1
/sys/class/net/ens2f0np0/ecn/roce_rp/enable
  0 = 0
  3 = 1
  5 = 0
/sys/class/infiniband/mlx5_1
  fw_ver !
"""
ROCE = Hca("mlx5_0", ports=(Port("mlx5_0", 1, link_layer="Ethernet", netdevs=("bond1", "ens2f0np0")),))
IB = Hca("mlx5_1", ports=(Port("mlx5_1", 1, link_layer="InfiniBand", netdevs=("bond1",)),))


class Counting(Captured):
    """Notes what is asked for."""

    def __init__(self, text: str) -> None:
        super().__init__(parse(text))
        self.asked: list[str] = []

    def read(self, path: str) -> str | None:
        self.asked.append(path)
        return super().read(path)


def test_a_roce_port_with_the_vendors_driver() -> None:
    (port,) = rdma_counters.read_ports(Captured(parse(TREE)), (ROCE,))
    assert port == PortHealth(
        "mlx5_0",
        1,
        (("symbol_error", 5), ("link_downed", 2), ("port_rcv_errors", 4294967295)),
        (("out_of_sequence", 7), ("roce_adp_retrans", 0)),
        "28.39.1002",
        4096,
        106,
        (False, None, None, True, None, False, None, None),
        4,
    )


def test_an_infiniband_port_asks_no_interface() -> None:
    (port,) = rdma_counters.read_ports(Captured(parse(TREE)), (IB,))
    assert port == PortHealth("mlx5_1", 1)


def test_every_counter_is_asked_for_once() -> None:
    """leptonai/gpud#1164: polling itself floods the kernel's log."""
    root = Counting(TREE)
    rdma_counters.read_ports(root, (ROCE, IB))
    counters = [path for path in root.asked if "counters/" in path]
    assert counters and len(counters) == len(set(counters))


@pytest.mark.parametrize(
    ("netdev", "roce"),
    [(9000, 4096), (4192, 4096), (4191, 2048), (4096, 2048), (1500, 1024), (352, 256), (351, None), (None, None)],
)
def test_the_mtu_of_roce_follows_from_the_interfaces(netdev: int | None, roce: int | None) -> None:
    assert rdma_counters.roce_mtu(netdev) == roce


@pytest.mark.parametrize(
    ("text", "value"),
    [("Global tclass=106\n", 106), ("106\n", 106), ("", None), (None, None), ("tclass=300", None), ("none", None)],
)
def test_traffic_classes(text: str | None, value: int | None) -> None:
    assert rdma_counters.parse_traffic_class(text) == value


@pytest.mark.parametrize(
    ("notify", "react", "on"),
    [("1", "1", True), ("1", "0", False), ("0", "1", False), (None, "1", None), ("1", "2", None), ("", "", None)],
)
def test_congestion_is_signalled_only_with_both_points(notify: str | None, react: str | None, on: bool | None) -> None:
    assert rdma_counters.parse_ecn(notify, react) == on


def peermem(*lines: str) -> Captured:
    return Captured(parse("rig-capture 1\n" + "\n".join(lines) + "\n"))


def test_peer_memory_is_tied_to_the_rdma_stack() -> None:
    root = peermem(
        "/sys/module/nvidia_peermem",
        "  refcnt = 0",
        "/sys/module/ib_core/holders",
        "  + nvidia_peermem mlx5_ib",
        "/sys/module/nvidia/holders",
        "  + nvidia_peermem nvidia_uvm",
    )
    assert rdma_counters.read_peermem(root) == (0, ("ib_core", "nvidia"))


def test_peer_memory_is_loaded_and_tied_to_nothing() -> None:
    root = peermem("/sys/module/nvidia_peermem", "  refcnt = x", "/sys/module/ib_core/holders", "  + mlx5_ib")
    assert rdma_counters.read_peermem(root) == (None, ())


def test_peer_memory_is_not_loaded() -> None:
    assert rdma_counters.read_peermem(peermem("/sys/module/ib_core/holders", "  + mlx5_ib")) == (None, None)
