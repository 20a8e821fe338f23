"""Fixtures of the family identity."""

from typing import Any

from rig.image import Library
from rig.snapshot import Snapshot
from tests.checks.healthy_image import LIBRARIES, VERBS
from tests.checks.healthy_probes import CUDART, NCCL
from tests.checks.snapshots import h100, no_gpu, roce
from tests.checks.twin import Twin, changed
from tests.checks.twins_performance import probed

SYSTEM = "/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.1"


def mapped(now: Snapshot, *more: tuple[str, str, str | None], without: str = "", **values: Any) -> Snapshot:
    """The snapshot with other libraries mapped: `more` of them, and without those of a name."""
    told = [one for one in now.probes["library_identity"].data["libraries"] if one["name"] != without]
    told += [{"name": name, "path": path, "version": version, "sha256": "11"} for name, path, version in more]
    return probed(now, "library_identity", libraries=tuple(told), **values)


def replaced(now: Snapshot, name: str, path: str, version: str | None) -> Snapshot:
    return mapped(now, (name, path, version), without=name)


# torch with NCCL inside maps no file: innocent, and known by the line that NCCL prints.
STATIC = mapped(h100(), without="libnccl", nccl_static=True, nccl_banner="2.21.5")
PRELOADED = changed(replaced(h100(), "libnccl", SYSTEM, "2.18.1"), environ={"LD_PRELOAD": SYSTEM})
PINNED = changed(no_gpu(), pins={"NCCL_VERSION": "2.21.5", "CUDA_VERSION": "12.1"})
COMPAT = "/usr/local/cuda-12.1/compat/libcuda.so.530.30.02"
# A driver of 12.0's time under an image of 12.1, on data-centre GPUs: what compat libraries are for.
OLD_DRIVER = replaced(changed(h100(), machine__kernel__driver="525.60.13"), "libcuda", COMPAT, "530.30.02")

OTHER = "/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05"
RUNTIME = "nvidia-cuda-runtime-cu12"  # a wheel of another line gives itself away
SECOND = Library("libnccl", SYSTEM, "2.18.1")
UNLOADED = probed(h100(), "library_identity", verbs=False, verbs_error="OSError: libibverbs.so.1: no such file")
UNLISTED = probed(h100(), "library_identity", verbs_devices=())

TWINS = (
    Twin(
        "mapped_nccl_is_the_pinned_one",
        replaced(no_gpu(), "libnccl", NCCL, "2.18.1"),
        replaced(roce(), "libnccl", SYSTEM, "2.18.1"),  # another file: mapped_nccl_is_the_one_that_was_planned_for
        says="NCCL 2.18.1 is mapped, the pin is 2.21.5",
        fix="rebuild the image",
        domain="image",
        reported=(
            "pytorch/pytorch#122571",
            "pytorch/pytorch#186591",
            "verl-project/verl#6621",
            "pytorch/pytorch#31107",
        ),
    ),
    Twin(
        "mapped_nccl_is_the_pinned_one",
        mapped(h100(), without="libnccl", nccl_static=True, nccl_banner="2.14.3"),
        STATIC,
        says="NCCL 2.14.3 is mapped, the pin is 2.21.5 inside torch",
        fix="set the pin",
        domain="image",
        reported=("NVIDIA/nccl#1171", "NVIDIA/nccl#809", "pytorch/pytorch#107174"),
    ),
    Twin(
        "nccl_is_mapped_once",
        mapped(h100(), ("libnccl", SYSTEM, "2.18.1")),
        h100(),
        says="2 copies of NCCL are mapped",
        fix="remove the second copy",
        domain="image",
        reported=("pytorch/pytorch#119072",),
    ),
    Twin(
        "nccl_is_mapped_once",
        mapped(h100(), ("libnccl", SYSTEM, "2.18.1")),
        changed(mapped(h100(), ("libnccl", SYSTEM, "2.18.1")), image__libraries=(*LIBRARIES, SECOND)),  # told by files
        says="2 copies of NCCL are mapped",
        fix="remove the second copy",
        domain="image",
    ),
    Twin(
        "nccl_is_mapped_once",
        mapped(h100(), ("libnccl", SYSTEM, "2.18.1")),
        STATIC,
        says=SYSTEM,
        fix="remove the second copy",
        domain="image",
        reported=("NVIDIA/nccl#1171",),
    ),
    Twin(
        "mapped_nccl_is_the_one_that_was_planned_for",
        replaced(roce(), "libnccl", SYSTEM, "2.18.1"),
        roce(),
        says=f"{SYSTEM} is mapped, the plan is made for {NCCL}",
        fix="remove the copy",
        domain="image",
        reported=("NVIDIA/nccl#1212",),
    ),
    Twin(
        "mapped_nccl_is_the_one_that_was_planned_for",
        PRELOADED,
        h100(),
        says=SYSTEM,
        fix="unset LD_PRELOAD",
        domain="user",
    ),
    Twin(
        "cuda_runtime_is_mapped_once",
        mapped(h100(), ("libcudart", "/usr/local/cuda/lib64/libcudart.so.11.8.89", "11.8")),
        replaced(h100(), "libcudart", "/usr/local/cuda/lib64/libcudart.so.11.8.89", "11.8"),
        says="2 CUDA runtimes are mapped",
        fix="remove the second copy",
        domain="image",
    ),
    Twin(
        "mapped_cuda_runtime_is_the_pinned_one",
        replaced(PINNED, "libcudart", CUDART, "12.4"),
        changed(replaced(PINNED, "libcudart", CUDART, "12.4"), image__packages={RUNTIME: "12.4.127", "torch": "2.1.2"}),
        says="CUDA runtime 12.4 is mapped, the pin is 12.1",
        fix="rebuild the image",
        domain="image",
    ),
    Twin(
        "cuda_libraries_come_from_the_users_environment",
        replaced(h100(), "libcudart", "/usr/local/cuda/lib64/libcudart.so.12.1.105", "12.1"),
        h100(),
        says="which is not in /opt/venv/",
        fix="LD_LIBRARY_PATH",
        domain="image",
        reported=("NVIDIA/nccl#1212",),
    ),
    Twin(
        "cuda_libraries_come_from_the_users_environment",
        changed(
            replaced(h100(), "libcudart", "/opt/cuda/lib/libcudart.so.12.1.105", "12.1"),
            environ={"LD_LIBRARY_PATH": "/opt/cuda/lib:"},
        ),
        replaced(h100(), "libnccl", SYSTEM, "2.18.1"),  # another than was planned for, which its own check says
        says="/opt/cuda/lib/libcudart.so.12.1.105",
        fix="unset LD_LIBRARY_PATH",
        domain="user",
    ),
    Twin(
        "mapped_libcuda_is_of_the_driver_that_runs",
        replaced(h100(), "libcuda", OTHER, "535.104.05"),
        changed(replaced(h100(), "libcuda", OTHER, "535.104.05"), host__driver_libraries=(OTHER,)),  # told by its file
        says="libcuda 535.104.05 is mapped, the driver is 550.54.15: CUDA error 803",
        fix="restart the container",
        domain="host",
    ),
    Twin(
        "mapped_libcuda_is_of_the_driver_that_runs",
        replaced(h100(), "libcuda", "/usr/local/lib/libcuda.so.535.104.05", "535.104.05"),
        OLD_DRIVER,
        says="CUDA error 803",
        fix="restart the container",
        domain="host",
    ),
    Twin(
        "libibverbs_can_be_loaded",
        UNLOADED,
        changed(UNLOADED, image__libraries=tuple(one for one in LIBRARIES if one is not VERBS)),  # told by its files
        says="NCCL falls back to TCP",
        fix="libibverbs1",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#1877",),
    ),
    Twin(
        "libibverbs_lists_every_hca",
        UNLISTED,
        changed(UNLISTED, machine__libraries__ib_providers=("efa",)),  # verbs_providers_match_the_devices
        says="mlx5_0 is not listed by libibverbs",
        fix="ibverbs-providers",
        domain="image",
        reported=("NVIDIA/nccl#1044",),
    ),
    Twin(
        "libibverbs_lists_every_hca",
        probed(h100(), "library_identity", verbs_devices=tuple(hca.name for hca in h100().machine.hcas[1:])),
        changed(UNLISTED, image__providers=()),  # image_brings_rdma_providers
        says="mlx5_0 is not listed by libibverbs",
        fix="ibverbs-providers",
        domain="image",
        reported=("NVIDIA/nccl#1044",),
    ),
    Twin(
        "a_collective_can_be_made",
        probed(no_gpu(), "library_identity", collective=None, collective_error="ImportError: libtorch_cuda.so"),
        no_gpu(),
        says="no collective at all",
        fix="library_identity.py",
        domain="image",
    ),
    Twin(
        "a_collective_can_be_made",
        probed(no_gpu(), "library_identity", collective=None, collective_error="ImportError: 'torch' (/b/torch.py)"),
        no_gpu(),
        says="no collective at all",
        fix="move /b/torch.py away",
        domain="user",
    ),
    Twin(
        "a_collective_can_be_made",
        probed(h100(), "library_identity", collective="gloo", collective_error="RuntimeError: CUDA error 802"),
        h100(),
        says="over NCCL on the first GPU: RuntimeError: CUDA error 802",
        fix="library_identity.py",
        domain="host",
    ),
)
