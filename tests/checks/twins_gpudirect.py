"""Fixtures of the family gpudirect."""

from typing import Any

from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import a100, h100, healthy, roce
from tests.checks.twin import Twin, changed

SOLD = {"expected__gdr": True}


def kernel(now: Snapshot, **values: Any) -> Snapshot:
    """Another kernel, on which nothing has been measured yet."""
    now = now._replace(probes={})
    return changed(now, **{f"machine__kernel__{name}": value for name, value in values.items()})  # type: ignore[no-any-return]


def closed(now: Snapshot) -> Snapshot:
    """Neither peer memory nor dma-buf."""
    return kernel(now, memory_peers=None, nvidia_peermem=False, dmabuf_gpu=False, open_modules=False)


def loaded(now: Snapshot, **values: Any) -> Snapshot:
    """nvidia_peermem is loaded on a machine without dma-buf, and no client is registered."""
    return kernel(now, **{"memory_peers": None, "nvidia_peermem": True, "dmabuf_gpu": False, **values})


def model(now: Snapshot, name: str) -> Snapshot:
    gpus = tuple(gpu._replace(model=name) for gpu in now.machine.gpus)
    return changed(now, machine__gpus=gpus)  # type: ignore[no-any-return]


def far(now: Snapshot, number: int) -> Snapshot:
    """A GPU that hangs on a root port of its own."""
    bus = now.machine.gpus[number].bus_id
    pci = tuple(one._replace(parent=None) if one.bus_id == bus else one for one in now.machine.pci)
    assert pci != now.machine.pci
    return changed(now, machine__pci=pci)  # type: ignore[no-any-return]


def network(now: Snapshot, **told: Any) -> Snapshot:
    ranks = {"gpus": len(now.machine.gpus), "codes": (0,) * len(now.machine.gpus)}
    return now._replace(probes={**now.probes, "nccl_network": Probe("nccl_network", "ok", {**ranks, **told})})


def loops(now: Snapshot, name: str = "rdma_loopback", **all_of_them: Any) -> Snapshot:
    """What the loops through the ports said."""
    told = {"rate_gbps": 400.0, "gbps": 372.5, "error": None, **all_of_them}
    ports = [port for hca in now.machine.hcas for port in hca.ports if port.state == "ACTIVE"]
    rows = tuple({"hca": port.hca, "port": port.number, **told} for port in ports)
    return now._replace(probes={**now.probes, name: Probe(name, "ok", {"ports": rows})})


def looped(now: Snapshot, name: str = "rdma_loopback", **odd: Any) -> Snapshot:
    """The same, and what the first said besides."""
    rows = loops(now, name).probes[name].data["ports"]
    return now._replace(probes={**now.probes, name: Probe(name, "ok", {"ports": ({**rows[0], **odd}, *rows[1:])})})


def without_cuda(now: Snapshot) -> Snapshot:
    """The shipped image: Debian's perftest."""
    probe = Probe("gdr_loopback", "absent", {}, "perftest was built without CUDA")
    return now._replace(probes={**now.probes, probe.name: probe})


NEWER = changed(loaded(a100()), machine__libraries__nccl_version=(2, 23, 4))

TWINS = (
    Twin(
        "gpudirect_is_possible_where_sold",
        changed(closed(a100()), **SOLD),
        changed(a100(), **SOLD),
        says="neither peer memory nor dma-buf",
        fix="nvidia_peermem",
        domain="host",
    ),
    Twin(
        "gpudirect_is_possible_where_sold",
        changed(model(h100(), "NVIDIA GeForce RTX 4090"), **SOLD),
        changed(h100(), **SOLD),
        says="NVIDIA GeForce RTX 4090 does not support it",
        fix="Return the node",
        domain="platform",
    ),
    Twin(
        "gpudirect_is_possible_where_sold",
        changed(h100(), machine__hcas=(), **SOLD),
        changed(healthy("aws-p4d-efa"), **SOLD),
        says="there is no RDMA device",
        fix="nvidia_peermem",
        domain="host",
    ),
    Twin(
        "a_way_to_gpu_memory_is_open",
        closed(h100()),
        kernel(h100(), nvidia_peermem=False, memory_peers=None),  # dma-buf alone is enough
        says="goes through host memory",
        fix="dma-buf",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "peer_memory_is_registered",
        loaded(a100(), memory_peers=()),
        a100(),
        says="registered with nobody",
        fix="load the HCA's driver first",
        domain="host",
        outcome="warn",
        reported=("NVIDIA/nccl#1537", "NVIDIA/nccl#897", "NVIDIA/nccl#988", "NVIDIA/nccl#475", "NVIDIA/nccl#1343"),
    ),
    Twin(
        "peer_memory_is_registered",
        changed(loaded(a100()), host__peermem_holders=("nvidia",)),
        loaded(a100()),  # a kernel from 6.4 on: no folder, but tied to ib_core
        says="not tied to ib_core",
        fix="load the HCA's driver first",
        domain="host",
        outcome="warn",
        reported=("NVIDIA/nccl#1939",),
    ),
    Twin(
        "nccl_looks_where_peer_memory_is",
        loaded(a100()),
        NEWER,
        says="NCCL 2.21.5 does not look",
        fix="NCCL 2.23.4",
        domain="image",
        outcome="warn",
        reported=("ROCm/rccl#1328", "NVIDIA/nccl#1676"),
    ),
    Twin(
        "dma_buf_is_whole",
        kernel(roce(), p2pdma=False),
        roce(),
        says="CONFIG_PCI_P2PDMA",
        fix="nvidia_peermem",
        domain="host",
        outcome="warn",
        reported=("ofiwg/libfabric#12409",),
    ),
    Twin(
        "dma_buf_is_whole",
        kernel(roce(), dmabuf_nic=False, release="5.4.0-150-generic"),
        kernel(a100(), dmabuf_gpu=True, dmabuf_nic=False),  # peer memory serves
        says="5.4.0-150-generic does not take it",
        fix="5.12",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "each_gpu_has_a_near_rail",
        far(h100(), 2),
        changed(far(h100(), 2), machine__hcas=h100().machine.hcas[:1]),  # one HCA for all: nothing to pair
        says="GPU 2 is PHB from every rail",
        fix="switches",
        domain="platform",
        outcome="warn",
        reported=("leptonai/gpud#200",),
    ),
    Twin(
        "gpudirect_moves_data",
        looped(h100(), "gdr_loopback", gbps=None, error="ibv_reg_mr: Bad address"),  # every file says that it works
        looped(h100(), "gdr_loopback"),
        says="mlx5_0:1: no data from GPU memory",
        fix="nvidia_peermem",
        domain="host",
        reported=("ofiwg/libfabric#12409", "NVIDIA/nccl#897", "NVIDIA/nccl#1343"),
    ),
    Twin(
        "gpudirect_moves_data",
        loops(closed(h100()), "gdr_loopback", gbps=None, error="ibv_reg_mr: Bad address"),
        looped(roce(), "gdr_loopback"),
        says="Bad address",
        fix="nvidia_peermem",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "gpudirect_is_as_fast_as_host_memory",
        looped(looped(h100()), "gdr_loopback", gbps=93.4),
        looped(looped(h100()), "gdr_loopback", gbps=361.0),
        says="93.4 Gb/s from GPU memory, 372.5 from host memory",
        fix="ACS off",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "nccl_uses_gpudirect",
        network(h100(), nets=("IB",), gdr=False),
        network(closed(h100()), nets=("IB",), gdr=False),  # no way is open: another check says so
        says="NCCL over IB did not use GPUDirect RDMA",
        fix="NCCL_NET_GDR_LEVEL",
        domain="image",
        outcome="warn",
        reported=("NVIDIA/nccl#1560", "NVIDIA/nccl#1676"),
    ),
    Twin(  # sold, and neither NCCL nor a loop proved it
        "nccl_uses_gpudirect",
        changed(network(without_cuda(h100()), nets=("IB",), gdr=False), **SOLD),
        changed(network(without_cuda(h100()), nets=("IB",), gdr=True), **SOLD),
        says="NCCL over IB did not use GPUDirect RDMA",
        fix="NCCL_NET_GDR_LEVEL",
        domain="image",
    ),
    Twin(  # a loop moved the data: the choice is NCCL's
        "nccl_uses_gpudirect",
        changed(network(h100(), nets=("IB",), gdr=False), **SOLD),
        network(h100(), nets=("Socket",), gdr=False),  # network_transport_uses_rdma says it
        says="although it can",
        fix="NCCL_NET_GDR_LEVEL",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "gpudirect_is_possible_where_sold",
        changed(kernel(h100(), nvidia_peermem=False, memory_peers=None, p2pdma=False), **SOLD),
        changed(kernel(h100(), nvidia_peermem=False, memory_peers=None, p2pdma=True), **SOLD),
        says="neither peer memory nor dma-buf",
        fix="nvidia_peermem",
        domain="host",
        reported=("ofiwg/libfabric#12409",),
    ),
)
