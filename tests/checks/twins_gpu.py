"""Fixtures of the family gpu."""

from typing import Any

from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, roce, rtx4090
from tests.checks.twin import Twin, changed

GONE = "GPU 3: GPU is lost (NVML error 15)"
MISMATCHED = "Driver/library version mismatch (NVML error 18)"
DENIED = "Insufficient Permissions (NVML error 4)"
TOOLKIT = ("NVIDIA/nvidia-container-toolkit#48", "NVIDIA/nvidia-container-toolkit#251")


def fewer(now: Snapshot, **values: Any) -> Snapshot:
    """Seven of the eight GPUs."""
    return changed(now, machine__gpus=now.machine.gpus[:7], **values)  # type: ignore[no-any-return]


def named(now: Snapshot, model: str, **values: Any) -> Snapshot:
    """All GPUs under another name."""
    gpus = tuple(gpu._replace(model=model) for gpu in now.machine.gpus)
    return changed(now, machine__gpus=gpus, **values)  # type: ignore[no-any-return]


def none(now: Snapshot, **values: Any) -> Snapshot:
    return changed(now, machine__gpus=(), **values)  # type: ignore[no-any-return]


def of_a_job(now: Snapshot, **values: Any) -> Snapshot:
    """Two of a host's eight GPUs, in a job's control group: the driver keeps the others from it."""
    assert now.host is not None
    given = changed(now, machine__gpus=now.machine.gpus[:2], host__gpus=now.host.gpus[:2], machine__gpus_denied=6)
    return changed(given, **values)  # type: ignore[no-any-return]


TWINS = (
    *(
        Twin(  # what is said of each GPU says that there is one
            "expected_gpus_are_here",
            none(rtx4090(), machine__surroundings__gpus_on_bus=0, **{f"expected__{word}": value}),
            changed(rtx4090(), **{f"expected__{word}": value}),
            says="0 of 1 expected GPUs are here (0 on the bus)",
            fix="return the machine",
            domain="host",
        )
        for word, value in (("model", "H100"), ("memory_gb", 80), ("nvlinks", 18), ("gdr", True))
    ),
    Twin(
        "expected_gpus_are_here",
        of_a_job(h100(), expected__gpus=8),
        of_a_job(h100(), expected__gpus=2),
        says="2 of 8 expected GPUs were given to this job",
        fix="scheduler",
        domain="user",
    ),
    Twin(  # on a host nobody gives GPUs: the driver has not started one
        "expected_gpus_are_here",
        fewer(h100(), expected__gpus=8),
        changed(h100(), expected__gpus=8),
        says="the driver has not started the rest",
        fix="Xid",
        domain="host",
    ),
    Twin(
        "expected_gpus_are_here",
        fewer(a100(), expected__gpus=8, machine__surroundings__gpus_on_bus=7),
        changed(a100(), expected__gpus=8),
        says="7 of 8 expected GPUs are here (7 on the bus)",
        fix="power cycle",
        domain="host",
    ),
    Twin(
        "expected_gpus_are_here",
        fewer(roce(), expected__gpus=8),
        changed(roce(), expected__gpus=4),
        says="7 of 8 expected GPUs were given to this container, 8 are on the bus",
        fix="docker run --gpus all",
        domain="user",
    ),
    Twin(  # the bus is hidden (gVisor): what is missing still fails
        "expected_gpus_are_here",
        fewer(rtx4090(), expected__gpus=8, machine__surroundings__gpus_on_bus=None),
        fewer(rtx4090(), expected__gpus=7, machine__surroundings__gpus_on_bus=None),
        says="the bus is not visible",
        fix="return the machine",
        domain="host",
        reported=("leptonai/gpud#420", "leptonai/gpud#409"),
    ),
    Twin(
        "gpus_of_the_host_are_given_to_the_container",
        changed(roce(), machine__gpus=()),
        fewer(roce()),
        says="8 GPUs on the bus, none was given",
        fix="nvidia.com/gpu",
        domain="user",
        outcome="warn",
    ),
    Twin(  # on a host they may all belong to guests; where some were expected another check counts them
        "gpus_of_the_host_are_given_to_the_container",
        none(h100()),
        none(h100(), machine__kernel__modules=("nvidia", "vfio_pci")),
        says="8 GPUs on the bus, the driver has none of them",
        fix="Xid",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "gpus_of_the_host_are_given_to_the_container",
        none(roce()),
        none(roce(), expected__gpus=8),
        says="none was given",
        fix="docker run --gpus all",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "gpu_device_nodes_are_there",
        changed(rtx4090(), machine__surroundings__nvidia_nodes=("nvidia0", "nvidiactl")),
        rtx4090(),
        says="/dev/nvidia-uvm is missing: CUDA error 999",
        fix="modprobe nvidia_uvm",
        domain="host",
    ),
    Twin(
        "gpu_device_nodes_can_be_used",
        changed(roce(), host__opens__0=("nvidia-uvm", False), machine__surroundings__uid=1000),
        changed(roce(), host__opens=(("nvidia-caps", False), ("nvidia0", True), ("nvidia-uvm", True))),
        says="user 1000 may not use /dev/nvidia-uvm",
        fix="NVreg_DeviceFileMode",
        domain="host",
    ),
    Twin(
        "nvml_lists_every_gpu",
        changed(h100(), host__gpus=h100().host.gpus[:7]),  # type: ignore[union-attr]
        h100(),
        says="the kernel has it, NVML does not list it",
        fix="Xid",
        domain="host",
    ),
    Twin(  # a GPU that is lent to a guest, and a container that was given seven, are no fault
        "nvml_lists_every_gpu",
        fewer(h100()),
        fewer(h100(), machine__kernel__modules=("nvidia", "vfio_pci")),
        says="8 GPUs on the bus, the driver has 7",
        fix="power cycle",
        domain="host",
    ),
    Twin(
        "nvml_lists_every_gpu",
        of_a_job(h100(), machine__gpus_denied=5),
        of_a_job(h100()),
        says="8 GPUs on the bus, the driver has 7",
        fix="power cycle",
        domain="host",
    ),
    Twin(
        "nvml_lists_every_gpu",
        changed(roce(), host__gpus=roce().host.gpus[1:]),  # type: ignore[union-attr]
        fewer(roce()),
        says="GPU 0",
        fix="Xid",
        domain="host",
    ),
    Twin(
        "gpus_stay_with_the_container",
        changed(roce(), host__nvml="failed", host__nvml_error="Unknown Error (NVML error 999)", host__gpus=()),
        roce(),
        says="the driver refuses this container: Unknown Error",
        fix="CDI",
        domain="host",
        reported=(*TOOLKIT, "NVIDIA/nvidia-container-toolkit#1227"),
    ),
    Twin(  # one GPU that is refused is not the container's matter
        "gpus_stay_with_the_container",
        changed(roce(), host__nvml="failed", host__nvml_error=DENIED),
        changed(roce(), host__nvml="failed", host__nvml_error="GPU 3: Unknown Error (NVML error 999)"),
        says="the driver refuses this container: Insufficient Permissions",
        fix="restart the container",
        domain="host",
    ),
    Twin(  # each reason is told, but for those that other checks tell
        "driver_reports_no_error",
        changed(roce(), host__nvml="failed", host__nvml_error=f"{GONE}; GPU 4: Unknown Error (NVML error 999)"),
        changed(roce(), host__nvml="failed", host__nvml_error=f"{GONE}; {DENIED}"),
        says="the driver reports: GPU 4: Unknown Error",
        fix="NVRM",
        domain="host",
    ),
    Twin(  # libraries of another version, where no module's version can be read to compare them with
        "driver_reports_no_error",
        changed(h100(), machine__kernel__driver=None, machine__nvml="failed", machine__nvml_error=MISMATCHED),
        changed(h100(), machine__nvml="failed", machine__nvml_error=MISMATCHED),
        says="version mismatch",
        fix="NVRM",
        domain="host",
    ),
    Twin(  # on a host no container can have lost its GPUs
        "driver_reports_no_error",
        changed(h100(), host__nvml="failed", host__nvml_error="Unknown Error (NVML error 999)", host__gpus=()),
        changed(h100(), host__nvml="failed", host__nvml_error=GONE),
        says="the driver reports: Unknown Error",
        fix="NVRM",
        domain="host",
    ),
    Twin(
        "driver_reports_no_error",
        changed(roce(), machine__nvml="failed", machine__nvml_error="External power missing (NVML error 8)"),
        roce(),
        says="External power",
        fix="power cables",
        domain="host",
    ),
    Twin(  # a child that died
        "driver_reports_no_error",
        changed(rtx4090(), host__nvml="failed", host__gpus=()),
        rtx4090(),
        says="broke off",
        fix="reboot",
        domain="host",
    ),
    Twin(
        "gpus_are_of_the_expected_model",
        named(h100(), "NVIDIA GH200 480GB", expected__model="H200"),
        named(h100(), "NVIDIA H200", expected__model="H200"),
        says="is NVIDIA GH200 480GB, not H200",
        fix="the machine that was sold",
        domain="platform",
        reported=("leptonai/gpud#1206",),
    ),
    Twin(
        "gpus_are_of_the_expected_model",
        changed(a100(), expected__model="A10"),
        changed(a100(), expected__model="A100-SXM4"),
        says="not A10",
        fix="RIG_EXPECT",
        domain="platform",
    ),
    Twin(
        "gpus_are_of_the_expected_model",
        named(rtx4090(), "NVIDIA GeForce RTX 4090 D", expected__model="RTX 4080"),
        changed(rtx4090(), expected__model="rtx 4090"),
        says="not RTX 4080",
        fix="RIG_EXPECT",
        domain="platform",
    ),
    Twin(
        "gpus_have_the_expected_memory",
        changed(a100(), expected__memory_gb=80),
        changed(a100(), expected__memory_gb=40),
        says="has 43 GB of memory, 80 GB were sold",
        fix="the machine that was sold",
        domain="platform",
    ),
    Twin(  # a T4 is sold with 16 GB; ECC and the driver keep 6 percent of it
        "gpus_have_the_expected_memory",
        changed(rtx4090(), expected__memory_gb=32),
        changed(rtx4090(), expected__memory_gb=16, machine__gpus__0__memory_bytes=15_109 << 20),
        says="32 GB were sold",
        fix="RIG_EXPECT",
        domain="platform",
    ),
)
