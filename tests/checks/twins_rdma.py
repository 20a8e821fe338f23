"""Fixtures of the family rdma."""

from typing import Any

from rig.machine import Gid, Hca, PciDevice
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, healthy, no_gpu, roce
from tests.checks.twin import Twin, changed


def sold(now: Snapshot, **told: Any) -> Snapshot:
    return now._replace(expected=now.expected._replace(**told))


def hcas(now: Snapshot, kept: slice) -> Snapshot:
    """The same machine with some of its HCAs."""
    return changed(now, machine__hcas=now.machine.hcas[kept])  # type: ignore[no-any-return]


def closed(now: Snapshot, *numbers: int) -> Snapshot:
    """HCAs without a node in this container."""
    found = list(now.machine.hcas)
    for number in numbers or range(len(found)):
        found[number] = found[number]._replace(uverbs=None, opens=None)
    return changed(now, machine__hcas=tuple(found))  # type: ignore[no-any-return]


def port(now: Snapshot, number: int, **values: Any) -> Snapshot:
    """The first port of an HCA, changed."""
    return changed(  # type: ignore[no-any-return]
        now, **{f"machine__hcas__{number}__ports__0__{name}": value for name, value in values.items()}
    )


def bare_vf(hca: Hca) -> Hca:
    """A virtual function beside its physical one."""
    return hca._replace(name=f"{hca.name}v", function="vf", pf_bus_id=hca.bus_id, bus_id="0000:3c:00.2")


def with_vfs(now: Snapshot) -> Snapshot:
    return changed(now, machine__hcas=(*now.machine.hcas, bare_vf(now.machine.hcas[1])))  # type: ignore[no-any-return]


def issm(now: Snapshot, *nodes: str) -> Snapshot:
    """Nodes in /dev/infiniband."""
    return changed(now, machine__surroundings__infiniband_nodes=nodes)  # type: ignore[no-any-return]


def ethernet_rail(now: Snapshot) -> Snapshot:
    """The second rail has come up in the other mode, without an address."""
    return port(now, 1, link_layer="Ethernet", rate_gbps=400.0, gids=(Gid(0, "fe80" + ":0000" * 7, "RoCE v2"),))


LOST = PciDevice("0000:77:00.0", class_code="020700", vendor="15b3", device="1021")
UVERBS = [f"uverbs{number}" for number in range(9)]
EFA = healthy("aws-p4d-efa")
ONE_HCA = hcas(h100(), slice(0, 1))  # some boxes with eight H100

BARE = sold(changed(h100(), machine__libraries__libibverbs=False), hcas=8)
UNDRIVEN = sold(changed(h100(), machine__libraries__ib_providers=("efa", "irdma")), hcas=8)

TWINS = (
    Twin(
        "hcas_are_as_many_as_sold",
        sold(hcas(with_vfs(h100()), slice(1, 10)), hcas=8),  # seven rails; front-end and virtual ones do not fill up
        sold(with_vfs(h100()), hcas=8),
        says="7 HCAs of the fabric are here, 8 were sold",
        fix="Return the node",
        domain="host",
        reported=("leptonai/gpud#200", "NVIDIA/nccl#2428"),
    ),
    Twin(
        "hcas_are_as_many_as_sold",
        sold(changed(h100(), machine__hcas=()), hcas=1),
        sold(ONE_HCA, hcas=1),
        says="0 HCAs of the fabric",
        fix="--device=/dev/infiniband",
        domain="host",
        reported=("leptonai/gpud#200",),
    ),
    Twin(  # the cards are there, their devices are in another network namespace
        "hcas_are_as_many_as_sold",
        sold(changed(h100(), machine__hcas=(), machine__pci=(*h100().machine.pci, LOST)), hcas=8),
        sold(h100(), hcas=8),
        says="InfiniBand cards on the bus have no RDMA device",
        fix="--network=host",
        domain="host",
    ),
    Twin(
        "hcas_are_as_many_as_sold",
        sold(hcas(roce(), slice(0, 7)), hcas=8),
        sold(roce(), hcas=8),  # bonds count once, and the front-end's not at all
        says="not counted: mlx5_bond_0",
        fix="Return the node",
        domain="host",
    ),
    Twin(
        "rdma_devices_can_be_opened",
        sold(closed(h100()), hcas=8),
        issm(sold(h100(), hcas=8), *UVERBS),  # neither issm nor umad nor rdma_cm
        says="mlx5_0, mlx5_1",
        fix="--device=/dev/infiniband",
        domain="user",
        reported=("NVIDIA/NVSentinel#1716", "NVIDIA/NVSentinel#1663"),
    ),
    Twin(
        "rdma_devices_can_be_opened",
        closed(h100(), 2),  # nobody counts on it
        healthy("aws-p4d-efa"),
        says="mlx5_2",
        fix="--device=/dev/infiniband",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "rdma_ports_are_up",
        sold(port(h100(), 3, state="DOWN", phys_state="Polling"), hcas=8),
        sold(a100(), hcas=8),  # a storage port of DGX A100 is down, and no rail is missing
        says="mlx5_3:1 is DOWN (Polling): 7 of 8 rails are up",
        fix="cable",
        domain="host",
        reported=("NVIDIA/NVSentinel#642",),
    ),
    Twin(
        "rdma_ports_are_up",
        port(h100(), 3, state="INIT"),
        ONE_HCA,
        says="mlx5_3:1 is INIT",
        fix="subnet manager",
        domain="host",
        outcome="warn",
        reported=("leptonai/gpud#200",),
    ),
    Twin(
        "verbs_library_is_in_the_image",
        BARE,
        changed(BARE, image__libraries=()),  # image_brings_libibverbs says it
        says="libibverbs is not in the image",
        fix="libibverbs1",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#1877",),
    ),
    Twin(
        "verbs_providers_match_the_devices",
        sold(changed(h100(), machine__libraries__ib_providers=("efa", "irdma")), rate=400),
        changed(h100(), machine__libraries__ib_providers=("mlx5", "efa", "hns", "rxe", "siw")),  # others are harmless
        says="No mlx5 provider",
        fix="ibverbs-providers",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#1877", "NVIDIA/nccl#1044"),
    ),
    Twin(  # at boot, when the image was not searched
        "verbs_providers_match_the_devices",
        changed(UNDRIVEN, image=None),
        changed(UNDRIVEN, image__verbs_files=("efa", "irdma")),  # image_brings_rdma_providers says it
        says="No mlx5 provider",
        fix="ibverbs-providers",
        domain="image",
    ),
    Twin(
        "rails_run_at_the_sold_rate",
        sold(port(h100(), 5, rate_gbps=200.0, rate_text="200 Gb/sec (2X NDR)"), rate=400),
        sold(h100(), rate=400),  # the front-end port is slower, and no rail
        says="mlx5_5:1 runs at 200 Gb/s, 400 were sold",
        fix="Reseat",
        domain="host",
    ),
    Twin(  # without HCAs nothing runs at any rate
        "rails_run_at_the_sold_rate",
        sold(no_gpu(), rate=100),
        sold(EFA, rate=100),
        says="no RDMA device is here, 100 Gb/s were sold",
        fix="--device=/dev/infiniband",
        domain="host",
    ),
    Twin(  # every device of older drivers says 100
        "rails_run_at_the_sold_rate",
        sold(EFA, rate=200),
        sold(EFA, rate=100),
        says="the rate is not known",
        fix="",
        domain="host",
        outcome="unknown",
    ),
    Twin(
        "rails_run_at_the_sold_rate",
        sold(changed(EFA, machine__hcas__0__ports__0__rate_gbps=50.0), rate=100),
        sold(EFA, rate=100),
        says="runs at 50 Gb/s, 100 were sold",
        fix="Reseat",
        domain="host",
    ),
    Twin(
        "rails_run_at_one_rate",
        port(h100(), 5, rate_gbps=100.0),
        h100(),
        says="mlx5_5:1 runs at 100 Gb/s, its siblings at 400",
        fix="Reseat",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "rails_have_one_link_layer",
        ethernet_rail(h100()),
        h100(),  # one Ethernet card of the same model, beside a rail for each GPU
        says="mlx5_1:1 is Ethernet",
        fix="LINK_TYPE_P1=1",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "infiniband_cards_have_devices",
        changed(h100(), machine__pci=(*h100().machine.pci, LOST)),
        healthy("pod-sriov-vfs"),
        says="0000:77:00.0",
        fix="modprobe mlx5_ib",
        domain="host",
    ),
)
