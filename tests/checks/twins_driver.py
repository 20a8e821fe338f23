"""Fixtures of the family driver."""

from rig.host import Stuck
from tests.checks.snapshots import a100, h100, roce, rtx4090
from tests.checks.twin import Twin, changed

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
MISMATCH = "Driver/library version mismatch (NVML error 18)"
UNKNOWN_DRIVER = {"machine__kernel__driver": None, "machine__gpus": (), "machine__nvml": None}

TWINS = (
    Twin(
        "nvidia_driver_is_loaded",
        changed(h100(), **UNKNOWN_DRIVER, expected__gpus=8),
        h100(),
        says="not loaded; GPUs on the bus: 8",
        fix="modprobe nvidia",
        domain="host",
    ),
    Twin(  # nobody said that this machine is for GPUs: a warning
        "nvidia_driver_is_loaded",
        changed(rtx4090(), **UNKNOWN_DRIVER, machine__kernel__modules=("vfio_pci",)),
        rtx4090(),
        says="vfio-pci is",
        fix="dkms",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "driver_answers_in_time",
        changed(
            h100(),
            machine__nvml="unresponsive",
            machine__unresponsive_gpu="0000:3b:00.0",
            host__stuck=(Stuck(4711, "nvidia-smi", "D", 900.0),),
        ),
        h100(),
        says="unresponsive while GPU 0000:3b:00.0 was asked; in the kernel hang nvidia-smi (4711)",
        fix="--gpu-reset",
        domain="host",
        reported=("leptonai/gpud#117", "NVIDIA/NVSentinel#1576", "NVIDIA/gpu-monitoring-tools#46"),
    ),
    Twin(
        "driver_answers_in_time",
        changed(h100(), host__nvml="unresponsive", host__nvml_error="while 0000:19:00.0 was asked (...: vbios)"),
        changed(h100(), host__nvml="failed", host__nvml_error="GPU 1: Unknown Error (NVML error 999)"),
        says="unresponsive while 0000:19:00.0",
        fix="reboot",
        domain="host",
    ),
    Twin(
        "driver_is_new_enough_for_cuda",
        changed(a100(), pins={"DRIVER_FLOOR": "525.60.13"}, machine__kernel__driver="515.105.01"),
        changed(a100(), pins={"DRIVER_FLOOR": "525.60.13"}, machine__kernel__driver="525.60.13"),
        says="515.105.01 is older than 525.60.13, the oldest for this image's CUDA: CUDA error 35",
        fix="update the host's driver",
        domain="host",
    ),
    Twin(  # a boot that knows no pins goes by the CUDA runtime; a newer line than the image's is no matter
        "driver_is_new_enough_for_cuda",
        changed(rtx4090(), pins={}, machine__kernel__driver="470.256.02"),
        changed(rtx4090(), pins={}, machine__kernel__driver="580.65.06"),
        says="older than 525.60.13",
        fix="older CUDA",
        domain="host",
    ),
    Twin(
        "nvml_library_is_in_the_container",
        changed(roce(), machine__nvml="absent", environ={"NVIDIA_DRIVER_CAPABILITIES": "compute"}),
        roce(),
        says="libnvidia-ml.so.1 is not in the container",
        fix="compute,utility",
        domain="user",
    ),
    Twin(
        "driver_and_its_libraries_are_of_one_version",
        changed(h100(), machine__nvml="failed", machine__nvml_error=MISMATCH),
        h100(),
        says="CUDA error 803",
        fix="restart the container",
        domain="host",
    ),
    Twin(
        "driver_and_its_libraries_are_of_one_version",
        changed(h100(), host__driver_libraries=(f"{LIBRARIES}/libcuda.so.535.183.01",)),
        changed(h100(), host__driver_libraries=(f"{LIBRARIES}/libcuda.so.1",)),  # a file that names no version
        says="libcuda is of driver 535.183.01, the kernel module is 550.54.15",
        fix="reboot",
        domain="host",
    ),
    Twin(
        "libcuda_is_in_the_container",
        changed(roce(), host__driver_libraries=(f"{LIBRARIES}/libnvidia-ml.so.550.54.15",)),
        roce(),
        says="libcuda.so.1 is not in the container",
        fix="--gpus all",
        domain="user",
    ),
    Twin(
        "nouveau_is_not_loaded",
        changed(rtx4090(), **UNKNOWN_DRIVER, host__modules=("nouveau", "drm")),
        rtx4090(),
        says="nouveau is loaded",
        fix="blacklist",
        domain="host",
    ),
    Twin(
        "nouveau_is_not_loaded",
        changed(rtx4090(), host__modules=("nouveau", "nvidia")),
        changed(rtx4090(), host__modules=None),
        says="nouveau is loaded",
        fix="reboot",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "driver_can_compile_the_images_ptx",
        changed(a100(), machine__kernel__driver="525.147.05"),
        changed(a100(), machine__kernel__driver="530.30.02"),
        says="brings CUDA 12.0, the image has 12.1",
        fix="TORCH_CUDA_ARCH_LIST",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "persistence_mode_is_on",
        changed(a100(), machine__gpus__3__persistence=False),
        a100(),
        says="off on 1 of 8 GPUs",
        fix="nvidia-persistenced",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "gsp_firmware_is_the_same_on_all_gpus",
        changed(h100(), host__gpus__5__gsp_firmware="535.129.03"),
        h100(),
        says="GSP firmware 535.129.03, the others have 550.54.15",
        fix="reboot",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "vbios_is_the_same_on_all_gpus",
        changed(h100(), host__gpus__5__vbios="96.00.89.00.01"),
        changed(h100(), host__gpus__5__vbios="96.00.89.00.01", machine__gpus__5__model="NVIDIA H100 NVL"),
        says="VBIOS 96.00.89.00.01",
        fix="flash",
        domain="host",
        outcome="warn",
    ),
)
