"""Fixtures of the family collectives."""

from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, roce, rtx4090
from tests.checks.twin import Twin, changed
from tests.checks.twins_performance import alone, of_kind, probed, sold


def in_pairs(now: Snapshot) -> Snapshot:
    """GPUs that bridges join by two, without a switch: PCIe carries what goes to the others."""
    ids = [gpu.bus_id for gpu in now.machine.gpus]
    partner = {one: ids[index ^ 1] for index, one in enumerate(ids)}
    gpus = tuple(gpu._replace(nvswitch=None, nvlink_peers=(str(partner[gpu.bus_id]),)) for gpu in now.machine.gpus)
    rows = now.probes["gpu_p2p"].data["pairs"]
    pairs = tuple({**row, "gb_s": 256.0 if row["b"] == partner.get(row["a"]) else 41.0} for row in rows)
    return changed(probed(now, "gpu_p2p", pairs=pairs), machine__gpus=gpus)  # type: ignore[no-any-return]


# H100 NVL: twelve of eighteen links by design, in pairs; the rule for SXM boards called each of them broken.
NVL = in_pairs(of_kind(h100(), "2321", "NVIDIA H100 NVL", 12))
NVL_PAIR = probed(
    of_kind(h100(), "2321", "NVIDIA H100 NVL", 12, count=2), "nccl_node", gpus=2, codes=(0, 0), busbw_gb_s=230.0
)
# A100 on PCIe without bridges: no link is active, and 20 GB/s are right.
NO_BRIDGE = probed(of_kind(a100(), "20b5", "NVIDIA A100 80GB PCIe", 0), "nccl_node", busbw_gb_s=19.8)
WARNING = "node-1:71:99 [0] misc/socket.cc:484 NCCL WARN Net : Connection refused"
FAILED = {"codes": (0, 1, 0, 0, 0, 0, 0, 0), "right": None, "busbw_gb_s": None, "log": (WARNING,)}

TWINS = (
    Twin(
        "copies_between_gpus_arrive",
        probed(rtx4090(), "gpu_p2p", pairs__0__right=False, pairs__0__claimed=True),
        rtx4090(),
        says="wrong data arrived, though the driver claims peer access",
        fix="NCCL_P2P_DISABLE=1",
        domain="platform",
        reported=(
            "NVIDIA/nccl-tests#117",
            "tinygrad/open-gpu-kernel-modules#17",
            "tinygrad/open-gpu-kernel-modules#45",
        ),
    ),
    Twin(
        "copies_between_gpus_arrive",
        probed(
            h100(),
            "gpu_p2p",
            pairs__3__right=None,
            pairs__3__error="RuntimeError: CUDA error: unspecified launch failure",
        ),
        h100(),
        says="unspecified launch failure",
        fix="NCCL_P2P_DISABLE=1",
        domain="platform",
    ),
    Twin(
        "copies_between_gpus_arrive",
        probed(h100(), "gpu_p2p", pairs__3__right=None),
        h100(),
        says="what arrived is not known",
        fix="NCCL_P2P_DISABLE=1",
        domain="platform",
        outcome="unknown",
    ),
    Twin(
        "copies_over_nvlink_reach_their_floor",
        probed(h100(), "gpu_p2p", pairs__9__gb_s=210.0),
        NVL,
        says="210 GB/s over NVLink; H100 SXM5 80 GB: 335 at least",
        fix="NVLinks",
        domain="host",
        reported=("Azure/azurehpc-health-checks#162",),
    ),
    Twin(  # of one pair, over its bridge
        "copies_over_nvlink_reach_their_floor",
        probed(NVL, "gpu_p2p", pairs__0__gb_s=110.0),
        NVL,
        says="110 GB/s over NVLink; H100 NVL: 192 at least",
        fix="NVLinks",
        domain="host",
        reported=("Azure/azurehpc-health-checks#162",),
    ),
    Twin(
        "copies_through_the_nvswitch_are_equally_fast",
        probed(h100(), "gpu_p2p", pairs__9__gb_s=340.0),
        h100(),
        says="340 GB/s, the other pairs 39",
        fix="NVLinks",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "all_reduce_in_the_node_sums_up",
        probed(h100(), "nccl_node", **FAILED, error="rank 1: DistBackendError: NCCL error: unhandled system error"),
        h100(),
        says="failed on rank 1: rank 1: DistBackendError",
        fix="read NCCL's warning",
        domain="host",
        reported=("NVIDIA/DCGM#284", "NVIDIA/NVSentinel#763"),
    ),
    Twin(
        "all_reduce_in_the_node_sums_up",
        probed(rtx4090(), "nccl_node", right=False),
        rtx4090(),
        says="gave a wrong sum",
        fix="NCCL_P2P_DISABLE=1",
        domain="host",
    ),
    Twin(  # a topology file of another SKU in the image: 15 GB/s on a healthy machine
        "all_reduce_in_the_node_reaches_its_floor",
        probed(of_kind(h100(), "2335", "NVIDIA H200", 18), "nccl_node", busbw_gb_s=15.0),
        of_kind(h100(), "2335", "NVIDIA H200", 18),
        says="15 GB/s; H200 SXM: 330 at least",
        fix="NCCL_TOPO_FILE",
        domain="host",
        reported=("Azure/azurehpc-health-checks#142", "Azure/azurehpc-health-checks#143"),
    ),
    Twin(  # 365 is what a ring reaches
        "all_reduce_in_the_node_reaches_its_floor",
        probed(h100(), "nccl_node", busbw_gb_s=365.0, nvls=False),
        h100(),
        says="440 with NVLink SHARP, which was not set up",
        fix="fabric manager",
        domain="host",
        outcome="warn",
    ),
    Twin(  # twelve links by design
        "all_reduce_in_the_node_reaches_its_floor",
        probed(NVL_PAIR, "nccl_node", busbw_gb_s=110.0),
        NVL_PAIR,
        says="110 GB/s; H100 NVL: 208 at least",
        fix="NVLink",
        domain="host",
        reported=("Azure/azurehpc-health-checks#162",),
    ),
    Twin(
        "all_reduce_in_the_node_reaches_its_floor",
        probed(NO_BRIDGE, "nccl_node", busbw_gb_s=4.0),
        NO_BRIDGE,
        says="4 GB/s; A100 PCIe 80 GB: 10 at least",
        fix="PCIe topology",
        domain="host",
        reported=("NVIDIA/NVSentinel#1481", "NVIDIA/nccl-tests#149", "NVIDIA/nccl-tests#178"),
    ),
    Twin(  # 20 GB/s through host memory is what eight of these have
        "all_reduce_in_the_node_reaches_its_floor",
        probed(rtx4090(), "nccl_node", busbw_gb_s=3.1),
        rtx4090(),
        says="3.1 GB/s; GeForce RTX 4090: 10 at least",
        fix="PCIe topology",
        domain="host",
        reported=("NVIDIA/nccl#1530", "NVIDIA/nccl#1639"),
    ),
    Twin(  # a table asked for 300 GB/s, which twelve links of 25 cannot show
        "all_reduce_in_the_node_reaches_its_floor",
        probed(a100(), "nccl_node", busbw_gb_s=120.0),
        probed(a100(), "nccl_node", busbw_gb_s=229.0),
        says="120 GB/s; A100 SXM4 40 GB: 185 at least",
        fix="NVLink",
        domain="host",
        reported=("aws-samples/awsome-distributed-training@7217859",),
    ),
    Twin(  # a short message says nothing about the links
        "all_reduce_in_the_node_reaches_its_floor",
        probed(h100(), "nccl_node", busbw_gb_s=180.0, bytes=1 << 30),
        probed(h100(), "nccl_node", busbw_gb_s=335.0, bytes=1 << 30),
        says="180 GB/s; H100 SXM5 80 GB: 330 at least",
        fix="NVLink",
        domain="host",
        reported=("NVIDIA/nccl-tests#212",),
    ),
    Twin(
        "all_reduce_through_the_network_sums_up",
        sold(probed(roce(), "nccl_network", **FAILED, error=None)),
        roce(),
        says="through the network transport failed on rank 1: node-1:71:99 [0] misc/socket.cc:484 NCCL WARN",
        fix="rig check --only",
        domain="host",
        reported=("NVIDIA/nccl#1131",),
    ),
    Twin(  # one node alone does not need it
        "all_reduce_through_the_network_sums_up",
        alone(probed(roce(), "nccl_network", **FAILED, error=None)),
        alone(roce()),
        says="through the network transport failed on rank 1",
        fix="roce,limits,gpudirect --level full",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "network_transport_uses_rdma",
        sold(probed(h100(), "nccl_network", nets=("Socket",), gdr=False)),
        h100(),
        says="NET/Socket, though RDMA devices are there",
        fix="libibverbs, its provider, GIDs, memlock",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#1877", "NVIDIA/nccl-tests#206", "microsoft/superbenchmark#569"),
    ),
    Twin(
        "network_transport_uses_rdma",
        changed(sold(probed(roce(), "nccl_network", nets=("Socket",))), environ={"NCCL_IB_DISABLE": "1"}),
        roce(),
        says="NET/Socket",
        fix="unset NCCL_IB_DISABLE",
        domain="user",
    ),
    Twin(
        "network_transport_uses_rdma",
        alone(probed(roce(), "nccl_network", nets=("Socket",))),
        alone(roce()),
        says="NET/Socket",
        fix="rig check --only rdma,roce,limits,identity",
        domain="image",
        outcome="warn",
    ),
)
