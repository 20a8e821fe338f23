"""The devices that a measurement runs on: all GPUs that torch sees, or, to rehearse, as many times the CPU.

`--rehearse N` lets every line of a probe run on a machine without a GPU, on small sizes: the figures mean nothing.
"""

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from telling import tell


class Device(NamedTuple):
    """One device. `name` is torch's (cuda:0); `bus_id` as the kernel writes it, the key to everything else."""

    name: str
    bus_id: str
    model: str

    @property
    def is_gpu(self) -> bool:
        return self.name != "cpu"

    def wait(self) -> None:
        """Until all that was asked of it is done."""
        import torch

        if self.is_gpu:
            torch.cuda.synchronize(self.name)

    def free_bytes(self) -> int:
        import torch

        return int(torch.cuda.mem_get_info(self.name)[0]) if self.is_gpu else 64 << 20


def rehearsed() -> int | None:
    """The N of --rehearse N."""
    words = sys.argv[1:]
    return int(words[words.index("--rehearse") + 1]) if "--rehearse" in words else None


def devices() -> list[Device]:
    """In torch's order."""
    import torch

    number = rehearsed()
    if number is not None:
        return [Device("cpu", f"rehearsal {index}", "cpu") for index in range(number)]
    tell(asking="the driver")
    if not torch.cuda.is_available():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        tell(asking=f"GPU {index}")
        found.append(Device(f"cuda:{index}", bus_id(index), torch.cuda.get_device_name(index)))
    return found


def count() -> int:
    """How many GPUs CUDA sees, without torch; 0 where there is no driver. Those of a rehearsal count too."""
    number = rehearsed()
    if number is not None:
        return number
    seen = ctypes.c_int()
    with contextlib.suppress(OSError):
        cuda = ctypes.CDLL("libcuda.so.1")
        if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(seen)) == 0:
            return seen.value
    return 0


def bus_id(index: int) -> str:
    """The PCI address of CUDA's device `index`; this torch does not tell it. Source: cuda.h, cuDeviceGetPCIBusId."""
    cuda, device, text = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(32)
    if cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), index) == 0:
        cuda.cuDeviceGetPCIBusId(text, 32, device)
    return text.value.decode().lower() or f"GPU {index}"


def best_seconds(device: Device, work: Callable[[], Any], rounds: int, repeat: int) -> float:
    """The shortest time of one `work`, of `rounds` measurements over `repeat` calls each: what disturbs only slows."""
    work()
    device.wait()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(repeat):
            work()
        device.wait()
        times.append((time.perf_counter() - began) / repeat)
    return min(times)


class Watcher:
    """Clocks and temperature of GPUs, asked of NVML while they work. Without NVML every answer is None.

    Source: nvml.h: nvmlDeviceGetClockInfo (1 is the SM clock), nvmlDeviceGetCurrentClocksThrottleReasons,
    nvmlDeviceGetTemperature (0 is the GPU's sensor). Not seen on hardware yet.
    """

    def __init__(self) -> None:
        self.nvml: Any = None
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() == 0:
                self.nvml = library

    def look(self, bus_id: str) -> dict[str, int | None]:
        handle, told = ctypes.c_void_p(), dict[str, int | None](sm_clock_mhz=None, reasons=None, temperature_c=None)
        if self.nvml is None or self.nvml.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(handle)) != 0:
            return told
        clock, reasons, temperature = ctypes.c_uint(), ctypes.c_ulonglong(), ctypes.c_uint()
        if self.nvml.nvmlDeviceGetClockInfo(handle, 1, ctypes.byref(clock)) == 0:
            told["sm_clock_mhz"] = clock.value
        if self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)) == 0:
            told["reasons"] = reasons.value
        if self.nvml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(temperature)) == 0:
            told["temperature_c"] = temperature.value
        return told
