"""Machines that other tools report though nothing is wrong with them: no check of GPUs and NVLink may speak."""

from typing import Any

import pytest

from checks import Result, evaluate
from checks.catalogue import family_checks
from checks.nvlink_boards import links_of, registers
from rig.host import GpuHealth
from rig.machine import Gpu
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, healthy, roce, rtx4090
from tests.checks.twin import changed
from tests.checks.twins_nvlink import FOUR, NO_FABRIC, boards, fabric, in_container, wired

FAMILIES = ("driver", "gpu", "cuda", "gpu_state", "memory", "kernel", "nvlink", "system")


def judged(now: Snapshot) -> list[Result]:
    return [evaluate(one, now) for family in FAMILIES for one in family_checks(family)]


def one_gpu(now: Snapshot, **values: Any) -> Snapshot:
    """A guest that was given one GPU of a machine: its NVLinks are off."""
    assert now.host is not None
    gpu = now.machine.gpus[0]._replace(nvlinks=0, nvswitch=None, nvlink_peers=(), p2p_peers=())
    alone = changed(now, machine__gpus=(gpu,), host__gpus=now.host.gpus[:1], machine__surroundings__gpus_on_bus=1)
    return changed(alone, **values)  # type: ignore[no-any-return]


def shared_container() -> Snapshot:
    """Two of eight GPUs, the fabric manager out of sight, the bus in full."""
    now = roce()
    assert now.host is not None
    few = changed(now, machine__gpus=now.machine.gpus[:2], host__gpus=now.host.gpus[:2])
    return changed(few, host__fabric_manager=None, host__fabric_manager_version=None)  # type: ignore[no-any-return]


def silent_consumer() -> Snapshot:
    """A consumer card whose driver refuses most questions."""
    now = rtx4090()
    assert now.host is not None
    told = tuple(
        GpuHealth(one.bus_id, uuid=one.uuid, vbios="x", compute_mode="default", memory_used_bytes=0)
        for one in now.host.gpus
    )
    return changed(now, host__gpus=told)  # type: ignore[no-any-return]


INNOCENT = {
    "two H100 NVL, 12 of 18 links (Azure/azurehpc-health-checks#162)": boards(
        h100(), "NVIDIA H100 NVL", 12, 2, **NO_FABRIC
    ),
    "H100 PCIe has no fabric (leptonai/gpud PR#1147)": boards(h100(), "NVIDIA H100 PCIe", 0, **NO_FABRIC),
    "A100 PCIe without bridges (NVIDIA/NVSentinel PR#1481)": boards(a100(), "NVIDIA A100 80GB PCIe", 0),
    "four H100 wired without a switch": wired(FOUR),
    "a guest with one H100": one_gpu(healthy("vm-flat-pci"), host__gpus__0__fabric_state="not-supported"),
    "two of eight in a container": shared_container(),
    "eight A100 in a container": in_container(a100(), 0),
    "a guest that sees no switch": healthy("vm-flat-pci"),
    "eight A100 of a cloud": healthy("aws-p4d-efa"),
    "four V100 of a guest, some links lead away": boards(a100(), "Tesla V100-SXM2-16GB", 4, 4),
    "GH200 alone": boards(h100(), "NVIDIA GH200 480GB", 0, 1, **NO_FABRIC),
    "L40S": boards(a100(), "NVIDIA L40S", 0),
    "consumer cards": rtx4090(),
    "consumer cards whose driver tells little": silent_consumer(),
    "in the middle of a burn": changed(h100(), host__gpus__0__clock_reasons=4, host__gpus__0__temperature_c=80),
    "no GPU": healthy("nothing"),
}


@pytest.mark.parametrize("now", INNOCENT.values(), ids=list(INNOCENT))
def test_nothing_is_said_of_the_innocent(now: Snapshot) -> None:
    said = [
        (one.id, one.outcome, one.why, [finding.text for finding in one.findings])
        for one in judged(now)
        if one.outcome not in ("pass", "skip")
    ]
    assert said == []


@pytest.mark.parametrize(
    ("model", "links", "bridged", "joins"),
    [
        ("NVIDIA A100-SXM4-80GB", 12, None, False),
        ("NVIDIA A100 80GB PCIe", None, 12, False),
        ("NVIDIA A100-PCIE-40GB", None, 12, False),
        ("NVIDIA H100 80GB HBM3", 18, None, True),
        ("NVIDIA H100 NVL", None, 12, False),
        ("NVIDIA H200", 18, None, True),
        ("NVIDIA H200 NVL", None, 18, False),
        ("NVIDIA GH200 480GB", None, None, False),
        ("NVIDIA GB200", None, None, True),
        ("NVIDIA H800", 8, None, True),
        ("NVIDIA B200", 18, None, True),
        ("Tesla V100-SXM2-32GB", 6, None, False),
        ("Tesla V100-PCIE-32GB", None, None, False),
        ("NVIDIA A10", None, None, False),
        ("NVIDIA GeForce RTX 4090", None, None, False),
        (None, None, None, False),
    ],
)
def test_boards_by_whole_words(model: str | None, links: int | None, bridged: int | None, joins: bool) -> None:
    hopper = model is not None and any(word in model for word in ("H100", "H200", "H800", "B200"))
    gpu = Gpu(0, "0000:1b:00.0", model, capability=(9, 0) if hopper else (8, 0))
    eight = changed(a100(), machine__gpus=(gpu,) * 8)
    assert (links_of(gpu, eight), links_of(gpu, eight, bridged=True), registers(gpu)) == (links, bridged, joins)


@pytest.mark.parametrize(
    ("now", "name"),
    [
        (changed(h100(), machine__gpus__0__nvlinks=None), "all_nvlinks_are_active"),
        (fabric(h100(), fabric_state=None), "gpus_have_joined_the_fabric"),
        (changed(a100(), host__fabric_manager=None, probes={}), "fabric_manager_runs"),
        (changed(h100(), machine__gpus__0__model=None), "gpus_are_of_one_kind"),
        (changed(h100(), host__off_bus=None), "no_gpu_fell_off_the_bus"),
        (changed(h100(), host__opens=()), "gpu_device_nodes_can_be_used"),
        (changed(h100(), host__driver_libraries=None), "libcuda_is_in_the_container"),
        (changed(h100(), probes={}), "every_gpu_can_be_used"),
        (changed(h100(), machine__libraries__cuda=None, pins={}), "driver_is_new_enough_for_cuda"),
        (changed(h100(), host__gpus__0__inforom_valid=None), "inforom_is_valid"),
        (changed(rtx4090(), expected__model="4090", machine__gpus__0__model=None), "gpus_are_of_the_expected_model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_known_never_passes(now: Snapshot, name: str) -> None:
    assert [one.outcome for one in judged(now) if one.id == name] == ["unknown"]
