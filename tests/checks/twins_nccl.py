"""Fixtures of the family nccl."""

from rig.finding import Finding
from rig.plan import Setting
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, healthy, rtx4090
from tests.checks.twin import Twin, changed
from tests.checks.twins_rdma import closed, sold
from tests.test_machine_plans import planned


def user(now: Snapshot, name: str, **environ: str) -> Snapshot:
    """Variables of the user, and the plan that follows from them."""
    return now._replace(environ={**now.environ, **environ}, plan=planned(name, environ).plan)


def environ(now: Snapshot, **values: str) -> Snapshot:
    return now._replace(environ={**now.environ, **values})


def nccl(now: Snapshot, *version: int) -> Snapshot:
    return changed(now, machine__libraries__nccl_version=version)  # type: ignore[no-any-return]


def model(now: Snapshot, name: str, capability: tuple[int, int]) -> Snapshot:
    gpus = tuple(gpu._replace(model=name, capability=capability) for gpu in now.machine.gpus)
    return changed(now, machine__gpus=gpus)  # type: ignore[no-any-return]


def planning(now: Snapshot, *findings: Finding, **nccl: str) -> Snapshot:
    """A plan with more findings and lines."""
    lines = tuple(Setting(name, value, "detection", "") for name, value in nccl.items())
    plan = now.plan._replace(findings=(*now.plan.findings, *findings), nccl=(*now.plan.nccl, *lines))
    return now._replace(plan=plan)


def topology(now: Snapshot, path: str | None, buses: tuple[str, ...] | None) -> Snapshot:
    return changed(now, host__topology_file=path, host__topology_buses=buses)  # type: ignore[no-any-return]


def buses(now: Snapshot) -> tuple[str, ...]:
    return ("ffff:ff:01.0", *(gpu.bus_id for gpu in now.machine.gpus if gpu.bus_id is not None))


FILE = "/opt/microsoft/ndv5-topo.xml"
BROKEN = Finding("P2P_BROKEN", "warn", "platform", "these GPUs cannot reach each other's memory over PCIe")
OTHERS = ("ffff:ff:01.0", "0001:00:00.0", "0002:00:00.0")
EFA = healthy("aws-p4d-efa")
SHARED = changed(h100(), machine__gpus__1__bus_id=h100().machine.gpus[0].bus_id)

TWINS = (
    Twin(
        "nccl_knows_these_gpus",
        nccl(h100(), 2, 14, 3),
        nccl(h100(), 2, 16, 2),
        says="NCCL 2.14.3 is older than NVIDIA H100 80GB HBM3: it needs 2.16.2",
        fix="newer NCCL",
        domain="image",
        reported=("mila-iqia/milabench#183",),
    ),
    Twin(
        "nccl_knows_these_gpus",
        model(h100(), "NVIDIA B200", (10, 0)),
        nccl(model(h100(), "NVIDIA B200", (10, 0)), 2, 26, 2),
        says="needs 2.25.1",
        fix="newer NCCL",
        domain="image",
    ),
    Twin(
        "nccl_variables_fit_the_machine",
        user(h100(), "hgx-h100-ib", NCCL_IB_HCA="mlx5_20"),
        user(h100(), "hgx-h100-ib", NCCL_IB_HCA="=mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_5,mlx5_6,mlx5_7,mlx5_8"),
        says="matches none of",
        fix="NCCL_IB_HCA==mlx5_0",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "nccl_variables_fit_the_machine",
        user(h100(), "hgx-h100-ib", NCCL_NET_GDR_LEVEL="NODE"),
        user(h100(), "hgx-h100-ib", NCCL_NET_GDR_LEVEL="PHB"),
        says="nvidia-smi's NODE is PHB",
        fix="NCCL_NET_GDR_LEVEL=PHB",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "nccl_can_use_the_sold_rdma",
        sold(environ(h100(), NCCL_IB_DISABLE="1"), hcas=8),
        sold(environ(closed(h100()), NCCL_IB_DISABLE="1"), hcas=8),  # rdma_devices_can_be_opened says it
        says="falls back to TCP between nodes: NCCL_IB_DISABLE=1",
        fix="rig plan --explain",
        domain="user",
    ),
    Twin(
        "nccl_can_use_the_sold_rdma",
        sold(environ(EFA, NCCL_NET="Socket"), hcas=4),
        sold(EFA, hcas=4),
        says="NCCL_NET=Socket",
        fix="Unset the variable",
        domain="user",
    ),
    Twin(
        "nccl_can_use_the_sold_rdma",
        sold(environ(h100(), NCCL_IB_HCA="=mlx5_20"), hcas=8),
        sold(environ(h100(), NCCL_IB_HCA="mlx5"), hcas=8),
        says="NCCL_IB_HCA==mlx5_20 matches none",
        fix="rig plan --explain",
        domain="user",
    ),
    Twin(  # told once: where it was sold it is a failure, and no warning besides
        "nccl_variables_fit_the_machine",
        user(h100(), "hgx-h100-ib", NCCL_IB_DISABLE="1"),
        sold(user(h100(), "hgx-h100-ib", NCCL_IB_DISABLE="1"), hcas=8),
        says="NCCL_IB_DISABLE",
        fix="",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "efa_has_its_plugin",
        sold(changed(EFA, machine__libraries__net_plugins=()), hcas=4),
        EFA,
        says="EFA without a network plugin",
        fix="aws-ofi-nccl",
        domain="image",
    ),
    Twin(
        "nccl_gets_one_rank_a_card",
        SHARED,
        h100(),
        says="8 GPU instances share 0000:19:00.0",
        fix="One MIG instance a card",
        domain="user",
    ),
    Twin(
        "peer_access_is_off_where_it_is_broken",
        environ(planning(rtx4090(), BROKEN, NCCL_P2P_DISABLE="1"), NCCL_P2P_DISABLE="0"),
        planning(rtx4090(), BROKEN, NCCL_P2P_DISABLE="1"),
        says="peer access does not work",
        fix="NCCL_P2P_DISABLE=1",
        domain="user",
        reported=(
            "NVIDIA/nccl-tests#117",
            "tinygrad/open-gpu-kernel-modules#17",
            "tinygrad/open-gpu-kernel-modules#45",
        ),
    ),
    Twin(
        "peer_access_is_off_where_it_is_broken",
        environ(rtx4090(), NCCL_P2P_LEVEL="SYS"),
        environ(rtx4090(), NCCL_P2P_LEVEL="LOC"),
        says="NCCL_P2P_LEVEL=SYS asks for peer access",
        fix="unset NCCL_P2P_LEVEL",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "nccl_is_the_pinned_one",
        nccl(h100(), 2, 18, 1),
        h100(),
        says="NCCL is 2.18.1, 2.21.5 is pinned",
        fix="Rebuild",
        domain="image",
        reported=("pytorch/pytorch#122571", "pytorch/pytorch#119072", "verl-project/verl#6621"),
    ),
    Twin(
        "nccl_is_none_that_corrupts",
        nccl(a100(), 2, 18, 1),
        nccl(a100(), 2, 18, 3),
        says="NCCL 2.18.1 can corrupt data",
        fix="2.18.3",
        domain="image",
        reported=("pytorch/pytorch#111677", "pytorch/pytorch#113245"),
    ),
    Twin(
        "topology_file_is_of_this_machine",
        environ(topology(h100(), FILE, OTHERS), NCCL_TOPO_FILE=FILE),
        environ(topology(h100(), FILE, buses(h100())), NCCL_TOPO_FILE=FILE),
        says="does not know 8 of 8 GPUs",
        fix="Unset NCCL_TOPO_FILE",
        domain="image",
        reported=("Azure/azurehpc-health-checks#142", "Azure/azurehpc-health-checks#143"),
    ),
    Twin(
        "topology_file_is_of_this_machine",
        environ(topology(h100(), FILE, None), NCCL_TOPO_FILE=FILE),
        h100(),
        says="is missing",
        fix="Unset NCCL_TOPO_FILE",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "nccl_is_not_left_talking",
        environ(h100(), NCCL_DEBUG="TRACE"),
        environ(h100(), NCCL_DEBUG="WARN"),
        says="NCCL_DEBUG=TRACE is on",
        fix="Unset NCCL_DEBUG",
        domain="user",
        outcome="warn",
    ),
)
