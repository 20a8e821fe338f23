"""Fixtures of the family training."""

from typing import Any

from rig.plan import Setting
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100, no_gpu
from tests.checks.twin import Twin, changed
from tests.checks.twins_framework import probed

LOSSES = [5.8, 5.1, 4.0, 2.2]
DEVICE = "zero_optimization.offload_optimizer.device"


def op(now: Snapshot | None = None, name: str = "deepspeed_ops", **told: Any) -> Snapshot:
    one = {"name": "cpu_adam", "installed": False, "compatible": True, "loads": None, "seconds": None, "error": None}
    return probed(name, {"ops": [{**one, **told}]}, now)


def built(**told: Any) -> Snapshot:
    return op(name="deepspeed_build", **told)


def offload() -> Snapshot:
    line = Setting(DEVICE, "cpu", "detection", "the model does not fit otherwise")
    return changed(h100(), plan__ds_config=(*h100().plan.ds_config, line))  # type: ignore[no-any-return]


def step(**told: Any) -> Snapshot:
    return probed("zero3_step", {"ranks": 8, "codes": [0] * 8, "losses": LOSSES, "tokens_per_s": 8000, **told})


TWINS = (
    Twin(
        "deepspeed_can_be_imported",
        probed("deepspeed_ops", {"ops": [], "error": "ImportError: cannot import name 'BUFSIZE' from 'numpy'"}),
        op(),
        says="numpy is not of the line",
        fix="lock files",
        domain="image",
        reported=("deepspeedai/DeepSpeed#5671",),
    ),
    Twin(
        "deepspeed_ops_can_be_loaded",
        op(installed=True, loads=False, error="ImportError: fused_adam.so: undefined symbol: _ZN3c104cuda"),
        op(installed=True, loads=True),
        says="cpu_adam cannot be loaded",
        fix="lock files",
        domain="image",
        reported=("deepspeedai/DeepSpeed#3223",),
    ),
    Twin(
        "deepspeed_ops_can_be_loaded",
        op(installed=True),
        op(installed=True, loads=True),
        says="cpu_adam was not loaded",
        fix="lock files",
        domain="image",
        outcome="unknown",
    ),
    Twin(
        "cpu_adam_is_there_for_offload",
        op(offload(), compatible=False),
        op(offload(), installed=True, loads=True),
        says="no offload",
        fix="DS_BUILD_CPU_ADAM=1",
        domain="image",
    ),
    Twin(  # nobody offloads yet
        "cpu_adam_is_there_for_offload",
        op(compatible=False),
        op(),
        says="cannot be compiled",
        fix="train without offload",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "cpu_adam_is_there_for_offload",
        op(offload()),
        op(),
        says="the first step waits for its compiling",
        fix="DS_BUILD_CPU_ADAM=1",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "cpu_adam_is_compiled_in_time",
        built(loads=True, seconds=410.0),
        built(loads=True, seconds=170.0),
        says="takes 410 s to compile",
        fix="DS_BUILD_CPU_ADAM=1",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "cpu_adam_is_compiled_in_time",
        built(loads=False, error="CalledProcessError: ninja -v"),
        built(installed=True, loads=True),
        says="cannot be compiled: CalledProcessError",
        fix="DS_BUILD_CPU_ADAM=1",
        domain="image",
        reported=("deepspeedai/DeepSpeed#3223",),
    ),
    Twin(
        "zero3_step_ends_well",
        step(codes=[0, -7, 0, 0, 0, 0, 0, 0]),
        step(),
        says="rank 1 of the ZeRO-3 probe ended with -7",
        fix="rig check",
        domain="image",
    ),
    Twin(
        "zero3_step_learns",
        step(losses=[5.8, None, 5.7]),
        step(),
        says="the loss is not finite at step 2",
        fix="give the machine back",
        domain="host",
    ),
    Twin(
        "zero3_step_learns",
        step(losses=[5.8, 5.8, 5.8]),
        probed("zero3_step", {"ranks": 1, "codes": [0], "losses": LOSSES}, no_gpu()),
        says="the loss does not fall: 5.8 -> 5.8",
        fix="give the machine back",
        domain="host",
    ),
)
