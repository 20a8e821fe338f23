"""Fixtures of the family nvlink."""

from typing import Any

from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import a100, h100, healthy, roce
from tests.checks.twin import Twin, changed

NO_FABRIC: dict[str, Any] = {
    "fabric_state": "not-supported",
    "fabric_status": "success",
    "fabric_clique": 0,
    "fabric_cluster": False,
}


def boards(now: Snapshot, model: str, nvlinks: int | None, count: int = 8, **health: Any) -> Snapshot:
    """The first `count` GPUs as boards of another kind without NVSwitch, with `nvlinks` active links to their pair."""
    assert now.host is not None
    gpus = tuple(
        gpu._replace(model=model, nvlinks=nvlinks, nvswitch=None, nvlink_peers=()) for gpu in now.machine.gpus[:count]
    )
    told = tuple(one._replace(**health) for one in now.host.gpus[:count])
    pci = tuple(one for one in now.machine.pci if (one.class_code or "")[:4] != "0680")
    now = changed(now, machine__gpus=gpus, host__gpus=told, machine__pci=pci)
    return changed(now, machine__surroundings__gpus_on_bus=count)  # type: ignore[no-any-return]


def wired(now: Snapshot) -> Snapshot:
    """Every GPU reaches every other one by its own links."""
    buses = tuple(gpu.bus_id or "" for gpu in now.machine.gpus)
    gpus = tuple(
        gpu._replace(nvlink_peers=tuple(bus for bus in buses if bus != gpu.bus_id)) for gpu in now.machine.gpus
    )
    return changed(now, machine__gpus=gpus)  # type: ignore[no-any-return]


def fabric(now: Snapshot, **values: Any) -> Snapshot:
    """All GPUs with other answers about the fabric."""
    assert now.host is not None
    return changed(now, host__gpus=tuple(one._replace(**values) for one in now.host.gpus))  # type: ignore[no-any-return]


def in_container(now: Snapshot, code: int) -> Snapshot:
    """The fabric manager is not visible; CUDA starts, or refuses with a code."""
    gpus = () if code else now.probes["gpu_init"].data["gpus"]
    data = {"driver": {"code": code, "name": None, "step": "cuInit", "seconds": 1.0}, "gpus": gpus}
    return changed(  # type: ignore[no-any-return]
        now,
        host__fabric_manager=None,
        host__fabric_manager_version=None,
        probes__gpu_init=Probe("gpu_init", "ok", data),
    )


def guest() -> Snapshot:
    """A guest that sees no NVSwitch, and whose fabric was not set up: no link is active."""
    now = healthy("vm-flat-pci")
    gpus = tuple(gpu._replace(nvlinks=0, nvswitch=None, nvlink_peers=()) for gpu in now.machine.gpus)
    return fabric(changed(now, machine__gpus=gpus), fabric_state="not-started")


FOUR = boards(h100(), "NVIDIA H100 64GB HBM2", 18, 4, **NO_FABRIC)


LINKLESS = {"machine__gpus__0__nvlinks": 0}


def pcie_beside(now: Snapshot) -> Snapshot:
    """The first GPU is a PCIe board without a fabric."""
    return changed(now, machine__gpus__0__model="NVIDIA H100 PCIe", host__gpus__0__fabric_state="not-supported")  # type: ignore[no-any-return]


TWINS = (
    Twin(
        "all_nvlinks_are_active",
        changed(h100(), machine__gpus__2__nvlinks=12),
        h100(),
        says="12 of 18 NVLinks are active",
        fix="fabric manager",
        domain="host",
    ),
    Twin(
        "all_nvlinks_are_active",
        changed(a100(), machine__gpus__2__nvlinks=11),
        a100(),
        says="11 of 12 NVLinks are active",
        fix="reset the GPU",
        domain="host",
    ),
    Twin(  # GPUs that were passed through one by one
        "all_nvlinks_are_active",
        guest(),
        healthy("vm-flat-pci"),
        says="this guest was given none of its 18 NVLinks",
        fix="passes NVLink on",
        domain="platform",
        outcome="warn",
    ),
    Twin(  # a share of a board shows no links
        "all_nvlinks_are_active",
        boards(a100(), "NVIDIA A100-SXM4-40GB", 0, 2),
        changed(boards(a100(), "NVIDIA A100-SXM4-40GB", 12, 2), machine__gpus__0__model="GRID A100-40C", **LINKLESS),
        says="0 of 12 NVLinks are active",
        fix="reset the GPU",
        domain="host",
    ),
    Twin(  # 12 of 18 by design beside an SXM board with 12 of 18
        "nvlink_bridges_are_whole",
        boards(h100(), "NVIDIA H100 NVL", 8, 2, **NO_FABRIC),
        boards(h100(), "NVIDIA H100 NVL", 12, 2, **NO_FABRIC),
        says="8 of the 12 NVLinks of a bridged board are active",
        fix="bridges",
        domain="host",
        outcome="warn",
        reported=("Azure/azurehpc-health-checks#162",),
    ),
    Twin(  # boards without bridges
        "nvlink_bridges_are_whole",
        boards(a100(), "NVIDIA A100-PCIE-40GB", 4, 4),
        boards(a100(), "NVIDIA A100-PCIE-40GB", 0, 4),
        says="4 of the 12",
        fix="reseated",
        domain="host",
        outcome="warn",
        reported=("NVIDIA/NVSentinel#1481",),
    ),
    Twin(
        "nvlinks_are_as_many_as_expected",
        boards(changed(a100(), expected__nvlinks=12), "NVIDIA A100-PCIE-40GB", 0, 4),
        changed(a100(), expected__nvlinks=12),
        says="0 NVLinks are active, 12 were sold",
        fix="RIG_EXPECT",
        domain="host",
    ),
    Twin(
        "nvlinks_reach_every_gpu",
        changed(wired(FOUR), machine__gpus__0__nvlink_peers=("0000:3b:00.0", "0000:4c:00.0")),
        wired(FOUR),
        says="has no NVLink to 0000:5d:00.0",
        fix="ask the host",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "nvlink_errors_are_few",
        changed(h100(), host__gpus__3__nvlink_errors=1200),
        changed(h100(), host__gpus__3__nvlink_errors=2),
        says="1200 NVLink errors",
        fix="under load",
        domain="host",
        outcome="warn",
    ),
    Twin(  # registration is not over: CUDA would say 802, and no hint of the fabric manager
        "gpus_have_joined_the_fabric",
        fabric(h100(), fabric_state="in-progress"),
        h100(),
        says="fabric state in-progress: the fabric manager has not set it up (CUDA error 802)",
        fix="nvidia-fabricmanager",
        domain="host",
        reported=("leptonai/gpud#1151",),
    ),
    Twin(  # a PCIe board, whose NVML has no fabric, stands beside one that should have joined it
        "gpus_have_joined_the_fabric",
        pcie_beside(fabric(h100(), fabric_state="in-progress")),
        pcie_beside(h100()),
        says="fabric state in-progress",
        fix="nvidia-fabricmanager",
        domain="host",
        reported=("leptonai/gpud#1147",),
    ),
    Twin(
        "gpus_have_joined_the_fabric",
        guest(),
        healthy("vm-flat-pci"),
        says="fabric state not-started",
        fix="nvidia-fabricmanager",
        domain="host",
        reported=("NVIDIA/NVSentinel#883", "NVIDIA/NVSentinel#891"),
    ),
    Twin(
        "fabric_registration_succeeded",
        fabric(h100(), fabric_status="Insufficient Resources (NVML error 23)"),
        h100(),
        says="ended with: Insufficient Resources",
        fix="nvidia-fabricmanager",
        domain="host",
        reported=("Azure/azhpc-images#506",),
    ),
    Twin(
        "gpus_are_in_one_clique",
        fabric(roce(), fabric_cluster=True, fabric_clique=0),
        fabric(roce(), fabric_cluster=True, fabric_clique=4091),
        says="but to no clique",
        fix="IMEX",
        domain="host",
    ),
    Twin(
        "gpus_are_in_one_clique",
        changed(h100(), host__gpus__0__fabric_clique=1),
        h100(),
        says="in 2 cliques",
        fix="partition",
        domain="host",
    ),
    Twin(
        "fabric_manager_runs",
        changed(a100(), host__fabric_manager=False),
        a100(),
        says="CUDA error 802 on every GPU",
        fix="nvidia-fabricmanager",
        domain="host",
        reported=("NVIDIA/NVSentinel#883",),
    ),
    Twin(  # in a container the process is not visible, CUDA's answer is
        "fabric_manager_runs",
        in_container(a100(), 802),
        in_container(a100(), 0),
        says="does not run",
        fix="wait a minute",
        domain="host",
    ),
    Twin(
        "fabric_manager_is_of_the_drivers_version",
        changed(a100(), host__fabric_manager_version="535.183.01"),
        a100(),
        says="the fabric manager is 535.183.01, the driver 535.129.03",
        fix="pin both",
        domain="host",
    ),
    Twin(
        "every_nvswitch_is_on_the_bus",
        changed(a100(), machine__pci=tuple(one for one in a100().machine.pci if one.bus_id != "0000:c6:00.0")),
        a100(),
        says="5 of 6 NVSwitches",
        fix="power cycle",
        domain="host",
    ),
)
