"""Whether each GPU can be used at all: cuInit, a context, 1 MiB of memory and a tiny kernel, one GPU after another.

Asks libcuda itself, so that CUDA's own error numbers are kept: 802 (the fabric manager is missing), 803 (driver and
library differ), 804 (compat library on a consumer card), 100, 209, 999. Each GPU is named before it is asked, so one
that hangs is known. The kernel is PTX, which the driver must compile. Tried with a stand-in for libcuda; not seen on
hardware yet. Source: cuda.h, the driver API.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from telling import first_line, run, tell

MEMORY = 1 << 20
THREADS = 256
KERNEL = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry count(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [out];
    cvta.to.global.u64 %d2, %d1;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d4, %d2, %d3;
    add.u32 %r2, %r1, 1;
    st.global.u32 [%d4], %r2;
    ret;
}
"""


class Refused(Exception):
    """libcuda answered a call with an error: its number, its name, and what was asked."""

    def __init__(self, code: int, name: str, step: str) -> None:
        super().__init__(f"{step}: {name} ({code})")
        self.code, self.name, self.step = code, name, step


def caller(cuda: ctypes.CDLL) -> Callable[..., None]:
    """A function that calls libcuda and raises Refused where it does not answer with 0."""

    def call(function: str, *words: Any) -> None:
        code = getattr(cuda, function)(*words)
        if code != 0:
            text = ctypes.c_char_p()
            cuda.cuGetErrorName(code, ctypes.byref(text))
            raise Refused(code, (text.value or b"unknown error").decode(), function.partition("_")[0])

    return call


def use(call: Callable[..., None], device: ctypes.c_int) -> None:
    """Context, memory, kernel, and the kernel's result."""
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory, stream = ctypes.c_uint64(), ctypes.c_void_p()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        call("cuCtxSetCurrent", context)
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(MEMORY))
        call("cuModuleLoadData", ctypes.byref(module), KERNEL)
        call("cuModuleGetFunction", ctypes.byref(function), module, b"count")
        words = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
        call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, stream, words, None)
        call("cuCtxSynchronize")
        result = (ctypes.c_uint32 * THREADS)()
        call("cuMemcpyDtoH_v2", result, memory, ctypes.c_size_t(ctypes.sizeof(result)))
        call("cuMemFree_v2", memory)
        if list(result) != list(range(1, THREADS + 1)):
            raise Refused(-1, "the kernel's result is wrong", "cuLaunchKernel")
    finally:
        call("cuDevicePrimaryCtxRelease_v2", device)


def ask(call: Callable[..., None], index: int) -> dict[str, Any]:
    """What became of one GPU. `code` 0 and `step` None: it works."""
    device, bus_id = ctypes.c_int(), ctypes.create_string_buffer(32)
    told: dict[str, Any] = {"index": index, "bus_id": None, "code": 0, "name": None, "step": None}
    began = time.monotonic()
    try:
        call("cuDeviceGet", ctypes.byref(device), index)
        call("cuDeviceGetPCIBusId", bus_id, 32, device)
        told["bus_id"] = bus_id.value.decode().lower()
        tell(asking=told["bus_id"])
        use(call, device)
    except Refused as error:
        told.update(code=error.code, name=error.name, step=error.step)
    return {**told, "seconds": round(time.monotonic() - began, 3)}


def main() -> None:
    tell(asking="the driver (cuInit)", gpus=[])
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        tell(absent=f"libcuda.so.1 cannot be loaded: {first_line(error)}", asking=None)
        return
    call, count, began = caller(cuda), ctypes.c_int(), time.monotonic()
    try:
        call("cuInit", 0)
        call("cuDeviceGetCount", ctypes.byref(count))
        tell(driver={"code": 0, "name": None, "step": None, "seconds": round(time.monotonic() - began, 3)})
    except Refused as error:
        seconds = round(time.monotonic() - began, 3)
        tell(driver={"code": error.code, "name": error.name, "step": error.step, "seconds": seconds})
    for index in range(count.value):
        tell(asking=f"GPU {index}")
        tell(gpus=[ask(call, index)])
    tell(asking=None)


if __name__ == "__main__":
    run(main)
