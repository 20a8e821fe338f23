"""Fixtures of the family libraries."""

from rig.image import Library
from rig.snapshot import Snapshot
from tests.checks.healthy_image import LIBRARIES, VERBS
from tests.checks.snapshots import h100, no_gpu, rtx4090
from tests.checks.twin import Twin, changed

STUB = "/usr/local/cuda/lib64/stubs/libcuda.so.1"
STUBBED = changed(h100(), image__stub_libraries=(STUB,), image__ld_path=("/usr/local/cuda/lib64/stubs",))
COMPAT = "/usr/local/cuda-12.1/compat/libcuda.so.530.30.02"
COMPATIBLE = changed(h100(), image__compat_libraries=(COMPAT,), machine__kernel__driver="525.60.13")


def beside(*more: Library) -> Snapshot:
    now: Snapshot = changed(h100(), image__libraries=(*LIBRARIES, *more))
    return now


def on_path(*elements: str) -> Snapshot:
    now: Snapshot = changed(h100(), image__ld_path=elements)
    return now


TWINS = (
    Twin(
        "cuda_libraries_exist_once",
        beside(Library("libnccl", "/usr/local/lib/libnccl.so.2.18.1", "2.18.1")),
        h100(),
        says="2 copies of libnccl",
        fix="ldconfig",
        domain="image",
        reported=("pytorch/pytorch#119072", "NVIDIA/nccl#1212"),
    ),
    Twin(
        "cuda_libraries_exist_once",
        beside(Library("libcudart", "/usr/local/cuda/lib64/libcudart.so.12.1.105", "12.1.105")),
        beside(Library("libcuda", "/usr/lib/x86_64-linux-gnu/libcuda.so.535.54.03", "535.54.03")),  # the driver's
        says="2 copies of libcudart",
        fix="ldconfig",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "loader_finds_no_stub_of_the_driver",
        STUBBED,
        h100(),
        says="CUDA error 34",
        fix="stubs",
        domain="image",
    ),
    Twin(
        "loader_finds_no_needless_compat_libcuda",
        changed(h100(), image__compat_libraries=(COMPAT,), machine__kernel__driver="535.54.03"),
        COMPATIBLE,
        says="the driver 535.54.03 is not older",
        fix="compat",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#291", "NVIDIA/nvidia-docker#1515"),
    ),
    Twin(
        "loader_finds_no_needless_compat_libcuda",
        changed(rtx4090(), image__compat_libraries=(COMPAT,), machine__kernel__driver="525.60.13"),
        COMPATIBLE,
        says="CUDA error 804",
        fix="compat",
        domain="image",
        reported=("NVIDIA/nvidia-docker#1515",),
    ),
    Twin(
        "loader_finds_no_needless_compat_libcuda",
        changed(no_gpu(), image__compat_libraries=(COMPAT,)),
        no_gpu(),
        says="whose driver is not older",
        fix="compat",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "ld_library_path_is_clean",
        on_path("", "/usr/local/lib"),
        on_path("/usr/local/nvidia/lib", "/usr/local/nvidia/lib64"),  # set in every image of NVIDIA
        says="has an empty element",
        fix="no empty element",
        domain="image",
    ),
    Twin(
        "ld_library_path_is_clean",
        on_path("/usr/lib/stubs/"),
        STUBBED,  # loader_finds_no_stub_of_the_driver says it
        says="stubs are for linking only",
        fix="no empty element",
        domain="image",
    ),
    Twin("ld_library_path_is_clean", on_path("lib"), h100(), says="working folder", fix="no empty", domain="image"),
    Twin("ld_library_path_is_clean", on_path("/tmp/lib"), h100(), says="everybody", fix="no empty", domain="image"),
    Twin(
        "ld_library_path_is_clean",
        on_path("/host/usr/lib"),
        h100(),
        says="another system",
        fix="no empty element",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "preloaded_libraries_are_harmless",
        changed(h100(), image__ld_preload=("/usr/lib/libnccl.so.2",)),
        changed(h100(), image__ld_preload=("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "libtcmalloc.so.4")),
        says="/usr/lib/libnccl.so.2 is preloaded",
        fix="unset LD_PRELOAD",
        domain="user",
        outcome="warn",
        reported=("verl-project/verl#6621",),
    ),
    Twin(
        "image_brings_libibverbs",
        changed(no_gpu(), image__libraries=tuple(one for one in LIBRARIES if one is not VERBS)),
        no_gpu(),
        says="NCCL will use TCP and not say so",
        fix="apt-get install libibverbs1",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#1877",),
    ),
    Twin(
        "image_brings_rdma_providers",
        changed(no_gpu(), image__providers=(), image__verbs_files=()),
        no_gpu(),
        says="no RDMA provider in /etc/libibverbs.d",
        fix="ibverbs-providers",
        domain="image",
        reported=("NVIDIA/nvidia-container-toolkit#1877",),
    ),
    Twin(
        "image_brings_rdma_providers",
        changed(no_gpu(), image__verbs_files=("efa",)),
        no_gpu(),
        says="the provider mlx5 is not whole",
        fix="ibverbs-providers",
        domain="image",
        reported=("NVIDIA/nccl#1044",),
    ),
)
