"""Fixtures of the family cuda."""

from typing import Any

from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import a100, h100, rtx4090
from tests.checks.twin import Twin, changed

STARTED = {"code": 0, "name": None, "step": None, "seconds": 0.4}


def rows(now: Snapshot, **third: Any) -> list[dict[str, Any]]:
    """What gpu_init prints of each GPU; `third` is what differs on the third one."""
    told = [{"index": gpu.index, "bus_id": gpu.bus_id, **STARTED, "seconds": 0.3} for gpu in now.machine.gpus]
    told[2].update(third)
    return told


def tried(now: Snapshot, driver: dict[str, Any] | None = None, **third: Any) -> Snapshot:
    """A snapshot with the probe's answer: CUDA's own (`driver`), and the GPUs'."""
    data = {"driver": {**STARTED, **(driver or {})}, "gpus": [] if driver else rows(now, **third), "asking": None}
    return changed(now, probes__gpu_init=Probe("gpu_init", "ok", data, "", 3.0))  # type: ignore[no-any-return]


def refused(code: int, name: str) -> Snapshot:
    return tried(h100(), {"code": code, "name": name, "step": "cuInit"})


def use(says: str, fix: str, domain: str, broken: Snapshot, reported: tuple[str, ...] = ()) -> Twin:
    return Twin("every_gpu_can_be_used", broken, tried(h100()), says, fix, domain, reported=reported)


FABRIC = ("pytorch/pytorch#35710", "dstackai/dstack#2348", "huggingface/huggingface_hub#4134", "jax-ml/jax#34113")
COMPAT = ("NVIDIA/nvidia-container-toolkit#291", "NVIDIA/nvidia-docker#1515")
ALL = rows(h100())


def only(count: int) -> Snapshot:
    """CUDA sees the first `count` GPUs and says nothing of the others."""
    data = {"driver": STARTED, "gpus": ALL[:count], "asking": None}
    return changed(h100(), probes__gpu_init=Probe("gpu_init", "ok", data, "", 3.0))  # type: ignore[no-any-return]


HIDING = "CUDA_VISIBLE_DEVICES"

TWINS = (
    use("the fabric manager", "nvidia-fabricmanager", "host", refused(802, "CUDA_ERROR_SYSTEM_NOT_READY"), FABRIC),
    use("mismatch", "restart the container", "host", refused(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")),
    use("compat libraries", "compat folder", "image", refused(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED"), COMPAT),
    use("/dev/nvidia-uvm", "modprobe nvidia_uvm", "host", refused(999, "CUDA_ERROR_UNKNOWN")),
    use("the driver is older", "update the host's driver", "host", refused(35, "CUDA_ERROR_INSUFFICIENT_DRIVER")),
    use(
        "GPU 0000:4c:00.0: CUDA error 719: a kernel failed (at cuCtxSynchronize)",
        "Xid",
        "host",
        tried(h100(), code=719, name="CUDA_ERROR_LAUNCH_FAILED", step="cuCtxSynchronize"),
    ),
    use(
        "CUDA error 700: CUDA_ERROR_ILLEGAL_ADDRESS",
        "--gpu-reset",
        "host",
        tried(h100(), code=700, name="CUDA_ERROR_ILLEGAL_ADDRESS", step="cuCtxSynchronize"),
    ),
    use("stub, made for linking only", "stubs folder", "image", refused(34, "CUDA_ERROR_STUB_LIBRARY")),
    use("CUDA sees 7 of 8 GPUs, not GPU 7", "Xid", "host", only(7)),
    use("CUDA sees 0 of 8 GPUs", "start the container anew", "host", only(0)),
    Twin(  # the user hid the others
        "every_gpu_can_be_used",
        changed(only(1), environ={HIDING: "0,1"}),
        changed(only(2), environ={HIDING: "0,1"}),
        says="CUDA sees 1 of 2 GPUs",
        fix="Xid",
        domain="host",
    ),
    Twin(  # a GPU in MIG mode shows what was made of it
        "every_gpu_can_be_used",
        changed(only(7), machine__gpus__7__mig=True),
        h100(),
        says="CUDA sees 7 of 8 GPUs",
        fix="Xid",
        domain="host",
        outcome="unknown",
    ),
    Twin(
        "gpus_start_quickly",
        tried(a100(), seconds=34.0),
        tried(a100(), seconds=9.0),
        says="took 34 s, more than 10 s",
        fix="nvidia-persistenced",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "no_debugging_variable_slows_cuda",
        changed(rtx4090(), environ={"CUDA_LAUNCH_BLOCKING": "1"}),
        changed(rtx4090(), environ={"CUDA_LAUNCH_BLOCKING": "0"}),
        says="every kernel is waited for",
        fix="unset CUDA_LAUNCH_BLOCKING",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "visible_devices_are_there",
        changed(rtx4090(), environ={"CUDA_VISIBLE_DEVICES": "0,1,8"}),
        changed(rtx4090(), environ={"CUDA_VISIBLE_DEVICES": "7, 0"}),
        says="names 8, which is none of 8 GPUs",
        fix="correct or unset",
        domain="user",
    ),
    Twin(
        "visible_devices_are_there",
        changed(rtx4090(), environ={"CUDA_VISIBLE_DEVICES": "GPU-ffffffff"}),
        changed(rtx4090(), environ={"CUDA_VISIBLE_DEVICES": f"{rtx4090().machine.gpus[1].uuid},MIG-1"}),
        says="names GPU-ffffffff",
        fix="correct or unset",
        domain="user",
    ),
    Twin(  # hidden on purpose
        "visible_devices_are_there",
        changed(rtx4090(), environ={"CUDA_VISIBLE_DEVICES": "0,-1"}),
        changed(rtx4090(), environ={"CUDA_VISIBLE_DEVICES": "-1"}),
        says="names -1",
        fix="correct or unset",
        domain="user",
    ),
)
