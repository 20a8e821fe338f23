"""Fixtures of the family liveness."""

from typing import Any

from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import h100, no_gpu, rtx4090
from tests.checks.twin import Twin

STARTED = {"code": 0, "name": None, "step": None, "seconds": 0.5}
LATE = "budget: ended after 9.1 s, when the time of all checks was over"


def became(now: Snapshot, name: str, state: str, error: str, seconds: float, **data: Any) -> Snapshot:
    return now._replace(probes={**now.probes, name: Probe(name, state, data, error, seconds)})


def stuck(now: Snapshot, name: str, asking: str) -> Snapshot:
    return became(now, name, "unresponsive", "did not end within 60 s", 60.0, asking=asking)


def late(name: str, **data: Any) -> Snapshot:
    error = LATE + (f", while it asked {data['asking']}" if data.get("asking") else "")
    return became(h100(), name, "unasked", error, 9.1, **data)


def answers(broken: Snapshot, says: str, outcome: str = "fail", **more: Any) -> Twin:
    told = {"fix": "return it", "domain": "host", "healthy": h100(), **more}
    return Twin("every_probe_answers", broken, says=says, outcome=outcome, **told)


REPORTED = (
    "leptonai/gpud#117",
    "NVIDIA/gpu-monitoring-tools#46",
    "Azure/azhpc-diagnostics#11",
    "NVIDIA/DCGM#136",
    "NVIDIA/DCGM#247",
    "NVIDIA/DCGM#209",
    "NVIDIA/NVSentinel#1576",
)
GPU = "0000:5d:00.0"

TWINS = (
    answers(
        stuck(h100(), "gpu_init", GPU), f"gpu_init is unresponsive: it was at {GPU}", fix="reboot", reported=REPORTED
    ),
    answers(
        stuck(rtx4090(), "gpu_p2p", "0000:01:00.0 -> 0000:21:00.0"),
        "0000:01:00.0 -> 0000:21:00.0",
        healthy=no_gpu(),
        reported=("NVIDIA/nccl-tests#117",),
    ),
    answers(  # three GPUs were well before it died
        became(
            h100(), "gpu_init", "failed", "ended by signal 11", 1.0, driver=STARTED, gpus=(STARTED,) * 3, asking=GPU
        ),
        f"gpu_init crashed: ended by signal 11, at {GPU}",
    ),
    answers(
        became(h100(), "stack_import", "failed", "ended by signal 4", 1.0, errors=(), asking="import of torch"),
        "stack_import crashed: ended by signal 4, at import of torch",
        domain="image",
    ),
    answers(late("gpu_init", driver=STARTED, gpus=(STARTED,), asking=GPU), f"{GPU} gave no answer for 8 s"),
    answers(  # without persistence cuInit alone may take that long
        late("gpu_init", gpus=(), asking="the driver (cuInit)"),
        "gpu_init was still at the driver (cuInit) when the level's time was over, after 9 s",
        "unknown",
        fix="nvidia-persistenced",
    ),
    answers(
        late("gpu_init", driver={**STARTED, "seconds": 5.0}, gpus=(), asking=GPU),
        f"gpu_init was still at {GPU}",
        "unknown",
        fix="--level deep waits longer",
    ),
    answers(
        late("nccl_node", asking="all-reduce of all GPUs"), "still at all-reduce of all GPUs", "unknown", fix="deep"
    ),
    answers(late("disk"), "disk was still at its work", "unknown", fix="--level deep"),
)
