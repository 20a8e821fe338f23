"""Asks the NVIDIA driver, as a program of its own with a deadline, for the driver may never answer.

Prints a line a fact as soon as it is known, so that an answer that breaks off names the GPU that did not answer:
`driver VERSION`, `asking INDEX` before a GPU is asked, `INDEX KEY VALUE`, `error TEXT`, `denied COUNT` of GPUs that are
kept from this process while others are not (a job's control group), `absent` where there is no NVML library, and `end`
last. Keys: bus_id, name, uuid, memory (bytes), capability, mig, ecc, persistence, c2c, nvlinks,
nvlink (COUNT and the far end, a bus id or `switch`), p2p BUS READ WRITE (once for each other GPU).

Source: NVIDIA Management Library API reference (nvml.h); the structures and numbers below are from there.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from rig.nvml import GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, Nvml, PciInfo, load

ALIVE_S = 120  # nobody waits for this program any longer
GPUS_AT_MOST = 64
NVLINKS_AT_MOST = 18  # NVML_NVLINK_MAX_LINKS
REMOTE_IS_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH
P2P_READ, P2P_WRITE = 0, 1  # NVML_P2P_CAPS_INDEX_*


class Memory(ctypes.Structure):
    """nvmlMemory_t, in bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def pair(nvml: Nvml, name: str, device: Any) -> tuple[int, int] | None:
    """The two numbers that a function gives."""
    first, second = ctypes.c_int(), ctypes.c_int()
    if nvml.call(name, device, ctypes.byref(first), ctypes.byref(second)) != 0:
        return None
    return first.value, second.value


def bus_of(nvml: Nvml, name: str, *values: Any) -> str | None:
    """The bus id that a function gives."""
    found = PciInfo()
    if nvml.call(name, *values, ctypes.byref(found)) != 0:
        return None
    return str(found.busId.decode("ascii", "replace")).lower()


def one(nvml: Nvml, device: Any) -> Iterator[tuple[str, object]]:
    """What one GPU tells about itself."""
    yield "bus_id", bus_of(nvml, "nvmlDeviceGetPciInfo_v3", device)
    yield "name", nvml.text("nvmlDeviceGetName", device)
    yield "uuid", nvml.text("nvmlDeviceGetUUID", device)
    memory = Memory()
    told = nvml.call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory)) == 0
    yield "memory", memory.total if told else None
    capability = pair(nvml, "nvmlDeviceGetCudaComputeCapability", device)
    yield "capability", f"{capability[0]}.{capability[1]}" if capability else None
    for key, name in (("mig", "nvmlDeviceGetMigMode"), ("ecc", "nvmlDeviceGetEccMode")):
        mode = pair(nvml, name, device)
        yield key, mode[0] if mode else None
    yield "persistence", nvml.number("nvmlDeviceGetPersistenceMode", device)
    yield "c2c", nvml.number("nvmlDeviceGetC2cModeInfoV", device)


def links(nvml: Nvml, device: Any) -> Iterator[tuple[str, object]]:
    """Active NVLinks and where they end. A board without any says that it does not support them; links beyond those
    that a board has are no valid argument. Any other refusal leaves it unknown."""
    state, active, codes = ctypes.c_uint(), list[int](), set[int | None]()
    for link in range(NVLINKS_AT_MOST):
        code = nvml.call("nvmlDeviceGetNvLinkState", device, ctypes.c_uint(link), ctypes.byref(state))
        codes.add(code)
        active += [link] if code == 0 and state.value == 1 else []
    if GPU_IS_LOST in codes or not codes & {0, NOT_SUPPORTED}:
        return
    yield "nvlinks", len(active)
    ends: dict[str, int] = {}
    for link in active:
        kind = nvml.number("nvmlDeviceGetNvLinkRemoteDeviceType", device, ctypes.c_uint(link))
        far = bus_of(nvml, "nvmlDeviceGetNvLinkRemotePciInfo_v2", device, ctypes.c_uint(link))
        end = "switch" if kind == REMOTE_IS_SWITCH else far or "unknown"
        ends[end] = ends.get(end, 0) + 1
    for end, count in ends.items():
        yield "nvlink", f"{count} {end}"


def peers(nvml: Nvml, device: Any, others: list[tuple[str, Any]]) -> Iterator[tuple[str, object]]:
    """NVML_P2P_STATUS_* for reading from and writing to each other GPU; 0 is granted."""
    for bus, other in others:
        read, write = (
            nvml.number("nvmlDeviceGetP2PStatus", device, other, ctypes.c_int(way)) for way in (P2P_READ, P2P_WRITE)
        )
        if read is not None and write is not None:
            yield "p2p", f"{bus} {read} {write}"


def facts(library: Any) -> Iterator[str]:
    """The lines, in order."""
    nvml = Nvml(library)
    refused = nvml.call("nvmlInit_v2")
    if refused != 0:
        yield f"error {nvml.reason(refused)}"
        yield "end"
        return
    yield f"driver {nvml.text('nvmlSystemGetDriverVersion')}"
    handles, denied = list[tuple[int, str, Any]](), list[int]()
    for index in range(min(nvml.number("nvmlDeviceGetCount_v2") or 0, GPUS_AT_MOST)):
        yield f"asking {index}"
        device = ctypes.c_void_p()
        refused = nvml.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
        if refused == NO_PERMISSION:
            denied.append(index)
            continue
        if refused != 0:
            yield f"error GPU {index}: {nvml.reason(refused)}"
            continue
        bus = ""
        for part in (one, links):
            for key, value in part(nvml, device):
                bus = str(value) if key == "bus_id" else bus
                if value is not None:
                    yield f"{index} {key} {value}"
        handles.append((index, bus, device))
    if denied:
        yield f"denied {len(denied)}" if handles else f"error {nvml.reason(NO_PERMISSION)}"
    for index, _, device in handles:
        yield f"asking {index}"
        others = [(bus, other) for at, bus, other in handles if at != index]
        for key, value in peers(nvml, device, others):
            yield f"{index} {key} {value}"
    yield "end"


def main() -> None:
    """Print the facts."""
    signal.alarm(ALIVE_S)
    library = load()
    for entry in ("absent", "end") if library is None else facts(library):
        os.write(1, (entry.replace("\n", " ") + "\n").encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
