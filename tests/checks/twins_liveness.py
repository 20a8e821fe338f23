"""Fixtures of the family liveness."""

from typing import Any

from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import h100, no_gpu, rtx4090
from tests.checks.twin import Twin, changed

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
NO_DUMPS = "AttributeError: module 'json' has no attribute 'dumps'"
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
        fix="rebuild",
        domain="image",
    ),
    *(
        answers(  # the user's own json.py, in a folder that PYTHONPATH names, and without that
            changed(
                became(h100(), name, "failed", error, 0.1),
                environ={"PYTHONPATH": folder} if folder else {},
            ),
            f"{name} crashed: ",
            fix=fix,
            domain="user",
        )
        for name in ("gpu_init", "stack_import")
        for error, folder, fix in (
            (NO_DUMPS, "/b", "unset PYTHONPATH (PYTHONPATH=/b)"),
            ("ended with exit code 1", "/b:/c", "unset PYTHONPATH (PYTHONPATH=/b:/c)"),
            (f'File "/b/json.py", line 1, in <module>; {NO_DUMPS}', "", "move /b/json.py away"),
        )
    ),
    *(
        answers(  # a driver that kills who asks it is not the user's, and no reboot is known to help
            changed(became(h100(), "gpu_init", "failed", error, 1.0, asking=GPU), environ={"PYTHONPATH": folder}),
            "gpu_init crashed",
            fix="ask the host what its kernel log",
        )
        for error, folder in (
            ("ended by signal 11", "/workspace/src"),
            ('File "/usr/lib/python3.11/ctypes/__init__.py", line 376; OSError: libcuda.so.1', ""),
            ('File "/home/me/rig/checks/probes/gpu_init.py", line 9; OSError', ""),
        )
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
