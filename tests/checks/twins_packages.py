"""Fixtures of the family packages."""

from typing import Any

from rig.snapshot import Snapshot
from tests.checks.healthy_image import PACKAGES, PINS
from tests.checks.snapshots import h100
from tests.checks.twin import Twin, changed

PINNED = changed(h100(), pins=PINS)
UNPINNED = changed(h100(), pins={"TORCH_VERSION": "2.1.2"})


def holding(base: Snapshot = PINNED, **packages: str | None) -> Snapshot:
    """The snapshot with other versions of packages; None takes one away. `_` stands for a dash."""
    told: dict[str, Any] = {**PACKAGES, **{name.replace("_", "-"): version for name, version in packages.items()}}
    now: Snapshot = changed(
        base, image__packages={name: version for name, version in told.items() if version is not None}
    )
    return now


# A later torch, with all that belongs to it.
LATER = holding(
    changed(h100(), pins={"OS_CODENAME": "bookworm"}), torch="2.9.0", triton="3.5.0", numpy="2.2.6", setuptools="80.9.0"
)

TWINS = (
    Twin(
        "packages_equal_their_pins",
        holding(torch="2.3.0"),
        PINNED,
        says="torch is 2.3.0, the image was built with 2.1.2",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "packages_equal_their_pins",
        holding(deepspeed=None),
        holding(torch="2.1.2+cu121"),
        says="deepspeed 0.12.6 belongs in the image and is not there",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "nvjitlink_equals_its_pin",
        holding(nvidia_nvjitlink_cu12="12.9.86"),
        PINNED,
        says="nvJitLink is 12.9.86, cuSPARSE and cuSOLVER need 12.1.105",
        fix="lock files",
        domain="image",
        reported=("pytorch/pytorch#111469",),
    ),
    Twin(
        "cuda_wheels_are_of_one_line",
        holding(nvidia_cublas_cu12="12.4.5.8"),
        holding(nvidia_nvjitlink_cu12="12.9.86"),  # its own check says it
        says="nvidia-cublas-cu12 is 12.4.5.8, which is not of CUDA 12.1",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "cuda_wheels_are_of_one_line",
        holding(UNPINNED, nvidia_nvjitlink_cu12="12.9.86"),
        UNPINNED,
        says="nvidia-nvjitlink-cu12 is 12.9.86",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "numpy_suits_torch",
        holding(numpy="2.2.6"),
        PINNED,
        says="numpy is 2.2.6, torch 2.1.2 was compiled against numpy 1",
        fix="numpy<2",
        domain="image",
        reported=("deepspeedai/DeepSpeed#5671", "instructlab/training#47"),
    ),
    Twin(
        "numpy_suits_torch",
        holding(numpy=None),
        LATER,
        says="numpy is not there",
        fix="numpy<2",
        domain="image",
    ),
    Twin(
        "setuptools_suits_torch",
        holding(setuptools="80.9.0"),
        LATER,
        says="setuptools is 80.9.0: torch 2.1.2 cannot compile an op",
        fix="setuptools<70",
        domain="image",
        reported=("aws-neuron/aws-neuron-sdk#893", "flashinfer-ai/flashinfer#319"),
    ),
    Twin(
        "setuptools_suits_torch",
        holding(setuptools=None),
        PINNED,
        says="setuptools is not there",
        fix="setuptools<70",
        domain="image",
    ),
    Twin(
        "setuptools_suits_torch",
        holding(torch="2.4.0", setuptools="82.0.0"),
        holding(torch="2.4.0", setuptools="72.1.0"),
        says="setuptools is 82.0.0",
        fix="setuptools<70",
        domain="image",
        reported=("nerfstudio-project/gsplat#899",),
    ),
    Twin(
        "triton_suits_torch",
        holding(triton="3.1.0"),
        PINNED,
        says="triton is 3.1.0, torch 2.1.2 was released with 2.1.0",
        fix="lock files",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "python_equals_its_pin",
        changed(PINNED, image__python="3.12.4"),
        changed(PINNED, image__python="3.11.9"),
        says="/opt/venv runs on Python 3.12.4",
        fix="lock files",
        domain="image",
    ),
    Twin(
        "system_equals_its_pin",
        changed(PINNED, image__os_release="trixie"),
        PINNED,
        says="the system is trixie, the image was built on bookworm",
        fix="lock files",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "ops_can_be_compiled",
        changed(PINNED, image__compilers=("g++",)),
        PINNED,
        says="ninja is not on PATH",
        fix="apt-get install",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "ops_can_be_compiled",
        changed(PINNED, image__python_headers=False),
        PINNED,
        says="Python.h is not there",
        fix="python3-dev",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "nvcc_is_of_torchs_cuda",
        changed(PINNED, image__nvcc="11.8"),
        changed(PINNED, image__nvcc="12.1"),
        says="nvcc is of CUDA 11.8, torch of 12.1",
        fix="torch's own release",
        domain="image",
        reported=("deepspeedai/DeepSpeed#3223",),
    ),
    Twin(
        "nvcc_is_of_torchs_cuda",
        changed(PINNED, image__nvcc="12.4"),
        changed(PINNED, image__nvcc="12.1"),
        says="DS_SKIP_CUDA_CHECK",
        fix="torch's own release",
        domain="image",
        outcome="warn",
    ),
    Twin(
        "cuda_home_has_a_compiler",
        changed(PINNED, image__cuda_home_set="/usr/local/cuda"),
        changed(PINNED, image__cuda_home_set="/usr/local/cuda", image__nvcc="12.1"),
        says="CUDA_HOME is /usr/local/cuda, where no nvcc is",
        fix="unset CUDA_HOME",
        domain="user",
        outcome="warn",
        reported=("deepspeedai/DeepSpeed#2772",),
    ),
)
