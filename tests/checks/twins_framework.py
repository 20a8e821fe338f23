"""Fixtures of the family framework."""

from typing import Any

from rig.plan import Setting
from rig.snapshot import Probe, Snapshot
from tests.checks.healthy_image import PINS
from tests.checks.snapshots import h100, no_gpu, rtx4090
from tests.checks.twin import Twin, changed

ARCHS = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
STACK = {"torch": "2.1.2+cu121", "torch_cuda": "12.1", "cudnn": "8.9.2", "arch_list": ARCHS, "errors": []}
SYMBOL = "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12"
LOSSES = [5.8, 5.1, 4.0, 2.2]


def probed(
    name: str, data: dict[str, Any], state: str = "ok", error: str = "", now: Snapshot | None = None
) -> Snapshot:
    now = now or changed(h100(), pins=PINS)
    then: Snapshot = changed(now, probes={**now.probes, name: Probe(name, state, data, error, 2.0)})
    return then


def stack(now: Snapshot | None = None, **told: Any) -> Snapshot:
    return probed("stack_import", {**STACK, **told}, now=now)


def op(**told: Any) -> Snapshot:
    one = {"name": "cpu_adam", "installed": False, "compatible": True, "loads": None, "error": None}
    return probed("deepspeed_ops", {"ops": [{**one, **told}]})


def step(state: str = "ok", error: str = "", **told: Any) -> Snapshot:
    return probed("zero3_step", {"codes": [0, 0], "losses": LOSSES, "tokens_per_s": 8000, **told}, state, error)


def capable(now: Snapshot, capability: tuple[int, int]) -> Snapshot:
    then: Snapshot = changed(now, machine__gpus=tuple(gpu._replace(capability=capability) for gpu in now.machine.gpus))
    return then


def bf16(now: Snapshot) -> Snapshot:
    then: Snapshot = changed(now, plan__ds_config=(Setting("bf16.enabled", True, "user file", "as you wrote it"),))
    return then


TWINS = (
    Twin(
        "torch_can_be_imported",
        stack(torch=None, errors=[SYMBOL]),
        stack(),
        says="was built against another torch or CUDA library",
        fix="lock files",
        domain="image",
        reported=("pytorch/pytorch#111469",),
    ),
    Twin(
        "torch_can_be_imported",
        probed("stack_import", {"deepspeed": None, "errors": []}, "failed", "it ended with signal 4"),
        stack(),
        says="signal 4",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "torch_can_be_imported",
        probed("stack_import", {"errors": []}, "unresponsive"),
        stack(),
        says="did not end in time",
        fix="lock files",
        domain="host",
    ),
    Twin(
        "torch_is_built_for_cuda",
        stack(torch="2.1.2+cpu", torch_cuda=None),
        stack(),
        says="is built for CPUs only",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "torch_is_built_for_cuda",
        stack(torch_cuda="11.8"),
        stack(),
        says="is built for CUDA 11.8, the image for 12.1",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "imported_torch_is_the_installed_one",
        stack(torch="2.5.1"),
        stack(),
        says="programs import torch 2.5.1, /opt/venv holds 2.1.2",
        fix="unset PYTHONPATH",
        domain="user",
    ),
    Twin(
        "loaded_cudnn_is_the_pinned",
        stack(cudnn=8700),
        stack(cudnn=8902),
        says="torch loads cuDNN 8.7.0",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "torch_has_kernels_for_every_gpu",
        stack(capable(h100(), (10, 0))),
        stack(),
        says="'no kernel image is available'",
        fix="built for this GPU",
        domain="image",
    ),
    Twin(
        "torch_has_kernels_for_every_gpu",
        stack(capable(h100(), (10, 0)), arch_list=[*ARCHS, "compute_90"]),
        stack(capable(rtx4090(), (8, 9))),  # code of 8.6 runs on 8.9
        says="only PTX for compute capability 10.0",
        fix="built for this GPU",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "torch_has_kernels_for_every_gpu",
        stack(capable(h100(), (5, 0)), arch_list=["sm_52", "sm_80"]),
        stack(arch_list=["sm_90a"]),
        says="no kernels for compute capability 5.0",
        fix="built for this GPU",
        domain="image",
    ),
    Twin(
        "bf16_is_asked_of_gpus_that_have_it",
        bf16(capable(h100(), (7, 0))),
        bf16(h100()),
        says="compute capability 7.0) has none",
        fix='"fp16": {"enabled": true}',
        domain="user",
    ),
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
        "deepspeed_can_be_imported",
        probed("deepspeed_ops", {"ops": []}, "unresponsive"),
        op(),
        says="did not end in time",
        fix="lock files",
        domain="host",
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
        op(compatible=False),
        op(),
        says="no offload",
        fix="lock files",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "zero3_step_ends_well",
        step("failed", codes=[0, -7]),
        step(),
        says="rank 1 of the ZeRO-3 probe ended with -7",
        fix="rig check",
        domain="image",
    ),
    Twin(
        "zero3_step_ends_well",
        step("unresponsive"),
        step(),
        says="did not end in time",
        fix="rig check",
        domain="host",
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
        probed("zero3_step", {"codes": [0], "losses": LOSSES}, now=no_gpu()),
        says="the loss does not fall: 5.8 -> 5.8",
        fix="give the machine back",
        domain="host",
    ),
)
