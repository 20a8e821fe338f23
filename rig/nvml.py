"""NVML through ctypes: its structures, and its calls turned into values. For programs that ask the driver as children
with a deadline (rig.detect.gpu_health_child); nothing of rig itself loads the library.

Source: NVIDIA Management Library API reference (nvml.h).
"""

import ctypes
from collections.abc import Callable
from typing import Any

LIBRARIES = (
    "libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
)
NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST = 3, 4, 15  # nvmlReturn_t
TEXT = 96  # longer than any text of NVML's that is asked for
U32, U64 = ctypes.c_uint, ctypes.c_ulonglong


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        *((name, U32) for name in ("domain", "bus", "device", "pciDeviceId", "pciSubSystemId")),
        ("busId", ctypes.c_char * 32),
    )


class Memory(ctypes.Structure):
    """nvmlMemory_v2_t, in bytes: what the driver keeps for itself is `reserved`, not `used`."""

    _fields_ = (("version", U32), *((name, U64) for name in ("total", "reserved", "free", "used")))


class Bar1(ctypes.Structure):
    """nvmlBAR1Memory_t, in bytes."""

    _fields_ = tuple((name, U64) for name in ("total", "free", "used"))


class Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t."""

    _fields_ = (("pid", U32), ("used", U64), ("gpuInstance", U32), ("computeInstance", U32))


class SramErrors(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    _fields_ = (
        ("version", U32),
        *((name, U64) for name in ("aggregateParity", "aggregateSecDed", "aggregateCorrected")),
        *((name, U64) for name in ("volatileParity", "volatileSecDed", "volatileCorrected")),
        *((name, U64) for name in ("l2", "sm", "pcie", "mcu", "other")),
        ("exceeded", U32),
    )


class Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("id", U32),
        ("scope", U32),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_int),
        ("refused", ctypes.c_int),
        ("value", U64),
    )


class Fabric(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = (
        ("version", U32),
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_int),
        ("clique", U32),
        ("state", ctypes.c_ubyte),
        ("health", U32),
    )


class FabricOld(ctypes.Structure):
    """nvmlGpuFabricInfo_t, of drivers before 545."""

    _fields_ = tuple(Fabric._fields_[1:-1])


class Nvml:
    """The library with its calls turned into values: None where a call is missing or refused."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def call(self, name: str, *values: Any) -> int | None:
        """NVML's return code; None when this driver has no such function."""
        function: Callable[..., int] | None = getattr(self.library, name, None)
        return None if function is None else int(function(*values))

    def number(self, name: str, *values: Any, kind: Any = U32) -> int | None:
        found = kind()
        return int(found.value) if self.call(name, *values, ctypes.byref(found)) == 0 else None

    def text(self, name: str, *values: Any, sized: bool = True) -> str | None:
        found = ctypes.create_string_buffer(TEXT)
        size = (U32(TEXT),) if sized else ()
        if self.call(name, *values, found, *size) != 0:
            return None
        return found.value.decode("utf-8", "replace")

    def reason(self, code: int | None) -> str:
        """The driver's words for a return code."""
        function = getattr(self.library, "nvmlErrorString", None)
        if function is None or code is None:
            return f"NVML error {code}"
        return f"{(function(code) or b'').decode('utf-8', 'replace')} (NVML error {code})"


def version(kind: Any, number: int) -> int:
    """NVML_STRUCT_VERSION."""
    return ctypes.sizeof(kind) | number << 24


def load() -> Any:
    """The library; None where the container was given none."""
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        if hasattr(library, "nvmlErrorString"):
            library.nvmlErrorString.restype = ctypes.c_char_p
        return library
    return None
