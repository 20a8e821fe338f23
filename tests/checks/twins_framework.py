"""Fixtures of the family framework."""

from typing import Any

from rig.plan import Setting
from rig.snapshot import Probe, Snapshot
from tests.checks.healthy_image import PINS
from tests.checks.snapshots import h100, rtx4090
from tests.checks.twin import Twin, changed

ARCHS = ["sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"]
STACK = {"torch": "2.1.2+cu121", "torch_cuda": "12.1", "cudnn": "8.9.2", "arch_list": ARCHS, "errors": []}
SYMBOL = "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12"


def probed(name: str, data: dict[str, Any], now: Snapshot | None = None) -> Snapshot:
    now = now or changed(h100(), pins=PINS)
    then: Snapshot = changed(now, probes={**now.probes, name: Probe(name, "ok", data, "", 2.0)})
    return then


def stack(now: Snapshot | None = None, **told: Any) -> Snapshot:
    return probed("stack_import", {**STACK, **told}, now)


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
    *(
        Twin(  # a torch.py of the user's
            "torch_can_be_imported",
            changed(stack(torch=None, errors=[error]), environ=environ),
            stack(),
            says="torch: ImportError",
            fix=fix,
            domain="user",
        )
        for error, environ, fix in (
            ("ImportError: cannot import name 'x' from 'torch' (/b/torch.py)", {}, "move /b/torch.py away"),
            ("ImportError: no 'version'", {"PYTHONPATH": "/b"}, "unset PYTHONPATH (PYTHONPATH=/b)"),
        )
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
        stack(cudnn="8.7.0"),
        stack(cudnn="8.9.2"),
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
)
