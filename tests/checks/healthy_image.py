"""A healthy image: what the finished one holds."""

from collections.abc import Mapping

from rig.image import Account, Image, Library

SITE = "/opt/venv/lib/python3.11/site-packages"
PINS: Mapping[str, str] = {
    "OS_CODENAME": "bookworm",
    "PYTHON_VERSION": "3.11",
    "CUDA_VERSION": "12.1",
    "TORCH_VERSION": "2.1.2",
    "DEEPSPEED_VERSION": "0.12.6",
    "NCCL_VERSION": "2.21.5",
    "CUDNN_VERSION": "8.9.2",
    "NVJITLINK_VERSION": "12.1.105",
}
PACKAGES: Mapping[str, str] = {
    "deepspeed": "0.12.6",
    "numpy": "1.26.4",
    "nvidia-cublas-cu12": "12.1.3.1",
    "nvidia-cuda-cupti-cu12": "12.1.105",
    "nvidia-cuda-nvrtc-cu12": "12.1.105",
    "nvidia-cuda-runtime-cu12": "12.1.105",
    "nvidia-cudnn-cu12": "8.9.2.26",
    "nvidia-cufft-cu12": "11.0.2.54",
    "nvidia-curand-cu12": "10.3.2.106",
    "nvidia-cusolver-cu12": "11.4.5.107",
    "nvidia-cusparse-cu12": "12.1.0.106",
    "nvidia-ml-py": "13.615.71",
    "nvidia-nccl-cu12": "2.21.5",
    "nvidia-nvjitlink-cu12": "12.1.105",
    "nvidia-nvtx-cu12": "12.1.105",
    "setuptools": "69.5.1",
    "torch": "2.1.2",
    "triton": "2.1.0",
}
WHEELS = (
    ("libcublas", "cublas", "12", "12.1.3.1"),
    ("libcudart", "cuda_runtime", "12", "12.1.105"),
    ("libcudnn", "cudnn", "8", "8.9.2.26"),
    ("libnccl", "nccl", "2", "2.21.5"),
    ("libnvJitLink", "nvjitlink", "12", "12.1.105"),
    ("libnvrtc", "cuda_nvrtc", "12", "12.1.105"),
)
VERBS = Library("libibverbs", "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0", "1.14.44.0")
LIBRARIES = (
    *(Library(name, f"{SITE}/nvidia/{folder}/lib/{name}.so.{major}", told) for name, folder, major, told in WHEELS),
    VERBS,
)
ROOT = Account(0, "root", "/root", True, True, "/root", True)
PROVIDERS = ("bnxt_re", "efa", "irdma", "mlx4", "mlx5")


def healthy_image() -> Image:
    return Image(
        packages=dict(PACKAGES),
        libraries=LIBRARIES,
        providers=PROVIDERS,
        loose=("/opt/venv/.lock",),
        setuid=("/usr/bin/passwd", "/usr/bin/su", "/usr/lib/openssh/ssh-keysign"),
        init="tini",
        tini="/usr/bin/tini",
        entrypoint=True,
        account=ROOT,
        compilers=("g++", "ninja"),
        python="3.11.2",
        os_release="bookworm",
        read=("modes", "secrets", "caches", "rights", "libraries", "packages"),
        python_headers=True,
        verbs_files=PROVIDERS,
        tools=("ssh", "sshd", "pdsh", "pkill", "ibv_devinfo", "ib_write_bw"),
    )
