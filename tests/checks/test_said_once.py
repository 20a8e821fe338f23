"""One fault, one finding: what an image's files tell is not told again by what runs, nor a cause by its consequence."""

import pytest

from checks import evaluate
from checks.catalogue import checks_of
from rig.image import Library
from rig.snapshot import Snapshot
from tests.checks.healthy_image import LIBRARIES, PINS, VERBS
from tests.checks.healthy_probes import CUDART, NCCL
from tests.checks.snapshots import h100
from tests.checks.twin import changed
from tests.checks.twins_identity import OTHER, SECOND, SYSTEM, mapped, replaced
from tests.checks.twins_performance import probed
from tests.checks.twins_rdma import LOST

SOLD = changed(h100(), expected__hcas=8, pins=PINS)
SILENT = {"verbs": False, "verbs_error": "OSError: libibverbs.so.1: no such file"}
STUB = "/usr/local/cuda/lib64/stubs/libcuda.so.1"
COMPAT = "/usr/local/cuda-12.1/compat/libcuda.so.530.30.02"
PACKAGES = h100().image.packages  # type: ignore[union-attr]
OLD_NCCL = replaced(changed(SOLD, machine__libraries__nccl_version=(2, 20, 5)), "libnccl", NCCL, "2.20.5")
FAULTS = {
    "no libibverbs": (
        changed(
            probed(SOLD, "library_identity", **SILENT),
            machine__libraries__libibverbs=False,
            machine__libraries__ib_providers=None,
            image__libraries=tuple(one for one in LIBRARIES if one is not VERBS),
        ),
        "image_brings_libibverbs",
    ),
    "a libibverbs that does not load": (probed(SOLD, "library_identity", **SILENT), "libibverbs_can_be_loaded"),
    "no providers": (
        changed(
            probed(SOLD, "library_identity", verbs_devices=()),
            machine__libraries__ib_providers=(),
            image__providers=(),
            image__verbs_files=(),
        ),
        "image_brings_rdma_providers",
    ),
    "a provider that is not registered": (
        changed(probed(SOLD, "library_identity", verbs_devices=()), image__providers=("efa",)),
        "image_brings_rdma_providers",
    ),
    "devices that the provider does not drive": (
        probed(SOLD, "library_identity", verbs_devices=()),
        "libibverbs_lists_every_hca",
    ),
    "a second NCCL": (
        changed(mapped(SOLD, ("libnccl", SYSTEM, "2.18.1")), image__libraries=(*LIBRARIES, SECOND)),
        "cuda_libraries_exist_once",
    ),
    "a second NCCL that is the one mapped": (
        changed(replaced(SOLD, "libnccl", SYSTEM, "2.18.1"), image__libraries=(*LIBRARIES, SECOND)),
        "cuda_libraries_exist_once",
    ),
    "another NCCL, from where no file was looked for": (
        replaced(SOLD, "libnccl", "/home/user/lib/libnccl.so.2.18.1", "2.18.1"),
        "mapped_nccl_is_the_one_that_was_planned_for",
    ),
    "another NCCL than the pinned": (OLD_NCCL, "nccl_is_the_pinned_one"),
    "a file that is another NCCL than it says": (
        replaced(SOLD, "libnccl", NCCL, "2.18.1"),
        "mapped_nccl_is_the_pinned_one",
    ),
    "a CUDA runtime of another line": (
        changed(
            replaced(SOLD, "libcudart", CUDART, "12.4"),
            image__packages={**PACKAGES, "nvidia-cuda-runtime-cu12": "12.4.127"},
        ),
        "cuda_wheels_are_of_one_line",
    ),
    "a CUDA runtime from elsewhere": (
        replaced(SOLD, "libcudart", "/home/user/lib/libcudart.so.12.4.99", "12.4"),
        "cuda_libraries_come_from_the_users_environment",
    ),
    "a second CUDA runtime": (
        changed(
            mapped(SOLD, ("libcudart", "/usr/local/lib/libcudart.so.12.4.99", "12.4")),
            image__libraries=(*LIBRARIES, Library("libcudart", "/usr/local/lib/libcudart.so.12.4.99", "12.4.99")),
        ),
        "cuda_libraries_exist_once",
    ),
    "a stub": (
        changed(replaced(SOLD, "libcuda", STUB, None), image__stub_libraries=(STUB,)),
        "loader_finds_no_stub_of_the_driver",
    ),
    "a needless compat library": (
        changed(replaced(SOLD, "libcuda", COMPAT, "530.30.02"), image__compat_libraries=(COMPAT,)),
        "loader_finds_no_needless_compat_libcuda",
    ),
    "libraries of another driver": (
        changed(replaced(SOLD, "libcuda", OTHER, "535.104.05"), host__driver_libraries=(OTHER,)),
        "driver_and_its_libraries_are_of_one_version",
    ),
    "libraries of another driver, elsewhere": (
        replaced(SOLD, "libcuda", "/opt/lib/libcuda.so.535.104.05", "535.104.05"),
        "mapped_libcuda_is_of_the_driver_that_runs",
    ),
    "a home that cannot be written": (
        changed(
            SOLD,
            environ__HOME="/",
            host__mounts__2__writable=False,
            image__account__home_variable="/",
            image__account__variable_writable=False,
            image__account__makeshift=False,
        ),
        "home_can_be_written",
    ),
    "RDMA that the user switched off": (changed(SOLD, environ__NCCL_IB_DISABLE="1"), "nccl_can_use_the_sold_rdma"),
    "cards whose devices are in another namespace": (
        changed(SOLD, machine__hcas=SOLD.machine.hcas[:1], machine__pci=(*SOLD.machine.pci, LOST)),
        "hcas_are_as_many_as_sold",
    ),
    "nodes that were not given": (
        changed(SOLD, machine__hcas=tuple(one._replace(uverbs=None, opens=None) for one in SOLD.machine.hcas)),
        "rdma_devices_can_be_opened",
    ),
}


def speaking(now: Snapshot) -> list[str]:
    results = [evaluate(one, now) for one in checks_of("quick")]
    return [one.id for one in results if any(finding.outcome != "unknown" for finding in one.findings)]


def test_of_a_healthy_machine_nothing_is_said() -> None:
    assert speaking(SOLD) == []


@pytest.mark.parametrize(("now", "name"), FAULTS.values(), ids=list(FAULTS))
def test_one_fault_is_told_once(now: Snapshot, name: str) -> None:
    assert speaking(now) == [name]
