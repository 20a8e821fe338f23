"""Asks the NVIDIA driver how each GPU is, as a program of its own with a deadline, for the driver may never answer.

Prints a line a fact as soon as it is known, so that an answer that breaks off names the GPU and what it was asked:
`node NAME 0|1` for every device node of the driver (the permission bits are asked, nothing is opened), `asking INDEX`
before a GPU is asked, `INDEX FIELD VALUE` with the fields of rig.host.GpuHealth (`processes` once for each, PID BYTES),
`error TEXT`, `absent` where there is no NVML library, and `end` last. What a driver or a board does not have is left
out. Nothing is set or reset, and each counter is read once.

Source: NVIDIA Management Library API reference (nvml.h); the structures and numbers below are from there.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

if not __package__:  # run as a file
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
from rig.nvml import (
    NO_PERMISSION,
    U32,
    U64,
    Bar1,
    Fabric,
    FabricOld,
    Field,
    Memory,
    Nvml,
    PciInfo,
    Process,
    SramErrors,
    load,
    version,
)
from rig.xid import action_of

ALIVE_S = 120  # nobody waits for this program any longer
GPUS_AT_MOST = 64
NVLINKS_AT_MOST = 18  # NVML_NVLINK_MAX_LINKS
PROCESSES_AT_MOST = 64
INSUFFICIENT_SIZE, CORRUPTED_INFOROM = 7, 14  # nvmlReturn_t
NOT_AVAILABLE = (1 << 64) - 1  # NVML_VALUE_NOT_AVAILABLE
RECOVERY_ACTION_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
COMPUTE_MODES = ("default", "exclusive", "prohibited", "exclusive")
FABRIC_STATES = ("not-supported", "not-started", "in-progress", "completed")
NVLINK_COUNTERS = 4  # NVML_NVLINK_ERROR_DL_REPLAY, DL_RECOVERY, DL_CRC_FLIT, DL_CRC_DATA

Fact = tuple[str, object]


class Ask(NamedTuple):
    """A call that answers with one number: the fields of GpuHealth that take it, NVML's functions (the first that is
    there), what comes before the result, and the result's type."""

    field: str
    functions: tuple[str, ...]
    before: tuple[int, ...] = ()
    kind: Any = U32


SM, SLOWDOWN, GPU_SENSOR = 1, 1, 0
CORRECTED, UNCORRECTED, VOLATILE = 0, 1, 0
NUMBERS = (
    Ask("clock_reasons", ("CurrentClocksEventReasons", "CurrentClocksThrottleReasons"), (), U64),
    Ask("sm_clock_mhz", ("ClockInfo",), (SM,)),
    Ask("sm_clock_max_mhz", ("MaxClockInfo",), (SM,)),
    Ask("app_clock_mhz", ("ApplicationsClock",), (SM,)),
    Ask("app_clock_default_mhz", ("DefaultApplicationsClock",), (SM,)),
    Ask("power_limit_mw", ("EnforcedPowerLimit",)),
    Ask("power_default_mw", ("PowerManagementDefaultLimit",)),
    Ask("temperature_c", ("Temperature",), (GPU_SENSOR,)),
    Ask("slowdown_c", ("TemperatureThreshold",), (SLOWDOWN,)),
    Ask("pcie_gen_max", ("MaxPcieLinkGeneration",)),
    Ask("pcie_width_max", ("MaxPcieLinkWidth",)),
    Ask("pcie_replays", ("PcieReplayCounter",)),
    Ask("ecc_uncorrected_volatile", ("TotalEccErrors",), (UNCORRECTED, VOLATILE), U64),
    Ask("ecc_corrected_volatile", ("TotalEccErrors",), (CORRECTED, VOLATILE), U64),
    Ask("retired_pending", ("RetiredPagesPendingStatus",)),
)


def named(names: tuple[str, ...], number: int) -> str | None:
    return names[number] if 0 <= number < len(names) else None


def identity(nvml: Nvml, device: Any) -> Iterator[Fact]:
    pci = PciInfo()
    if nvml.call("nvmlDeviceGetPciInfo_v3", device, ctypes.byref(pci)) == 0:
        yield "bus_id", pci.busId.decode("ascii", "replace").lower()
    yield "uuid", nvml.text("nvmlDeviceGetUUID", device)
    yield "vbios", nvml.text("nvmlDeviceGetVbiosVersion", device)
    yield "gsp_firmware", nvml.text("nvmlDeviceGetGspFirmwareVersion", device, sized=False)
    mode = nvml.number("nvmlDeviceGetComputeMode", device)
    yield "compute_mode", None if mode is None else named(COMPUTE_MODES, mode)
    for one in NUMBERS:
        value = None
        for function in one.functions:  # the first that this driver has and the board answers
            if value is None:
                value = nvml.number(f"nvmlDeviceGet{function}", device, *map(U32, one.before), kind=one.kind)
        yield one.field, value


def memory(nvml: Nvml, device: Any) -> Iterator[Fact]:
    now, later = U32(), U32()
    if nvml.call("nvmlDeviceGetEccMode", device, ctypes.byref(now), ctypes.byref(later)) == 0:
        yield "ecc_pending", later.value
    sram = SramErrors(version=version(SramErrors, 1))
    if nvml.call("nvmlDeviceGetSramEccErrorStatus", device, ctypes.byref(sram)) == 0:
        yield "sram_uncorrected", sram.aggregateParity + sram.aggregateSecDed
        yield "sram_threshold_exceeded", int(sram.exceeded != 0)
    rows = tuple(U32() for _ in range(4))
    if nvml.call("nvmlDeviceGetRemappedRows", device, *map(ctypes.byref, rows)) == 0:
        names = ("remapped_uncorrectable", "remap_pending", "remap_failed")  # the first counts corrected errors
        yield from zip(names, (row.value for row in rows[1:]), strict=True)
    pages = [retired(nvml, device, cause) for cause in (0, 1)]
    if None not in pages:
        yield "retired_pages", sum(page for page in pages if page is not None)
    used = Memory(version=version(Memory, 2))
    if nvml.call("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(used)) == 0:
        yield "memory_used_bytes", used.used
    bar = Bar1()
    if nvml.call("nvmlDeviceGetBAR1MemoryInfo", device, ctypes.byref(bar)) == 0:
        yield "bar1_bytes", bar.total


def retired(nvml: Nvml, device: Any, cause: int) -> int | None:
    """How many pages were retired for one nvmlPageRetirementCause_t: asked with room for none, NVML tells the count."""
    count = U32(0)
    told = nvml.call("nvmlDeviceGetRetiredPages", device, ctypes.c_int(cause), ctypes.byref(count), None)
    return count.value if told in (0, INSUFFICIENT_SIZE) else None


def state(nvml: Nvml, device: Any) -> Iterator[Fact]:
    field = Field(id=RECOVERY_ACTION_FIELD)
    if nvml.call("nvmlDeviceGetFieldValues", device, ctypes.c_int(1), ctypes.byref(field)) == 0 and not field.refused:
        yield "recovery_action", action_of(field.value & 0xFFFFFFFF)
    running = (Process * PROCESSES_AT_MOST)()
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
        count = U32(PROCESSES_AT_MOST)  # anew: one that refused has written how many it wanted
        if nvml.call(name, device, ctypes.byref(count), running) == 0:
            yield "process_count", min(count.value, PROCESSES_AT_MOST)
            for one in running[: min(count.value, PROCESSES_AT_MOST)]:
                yield "process", f"{one.pid} {0 if one.used == NOT_AVAILABLE else one.used}"
            break
    fabric: Any = Fabric(version=version(Fabric, 2))
    if nvml.call("nvmlDeviceGetGpuFabricInfoV", device, ctypes.byref(fabric)) != 0:
        fabric = FabricOld()
        if nvml.call("nvmlDeviceGetGpuFabricInfo", device, ctypes.byref(fabric)) != 0:
            return
    yield "fabric_state", named(FABRIC_STATES, fabric.state)
    yield "fabric_status", "success" if fabric.status == 0 else nvml.reason(fabric.status)
    yield "fabric_clique", fabric.clique
    yield "fabric_cluster", int(any(fabric.cluster))


def links(nvml: Nvml, device: Any) -> Iterator[Fact]:
    """The errors of all active NVLinks together."""
    errors: list[int] = []
    for link in map(U32, range(NVLINKS_AT_MOST)):
        if nvml.number("nvmlDeviceGetNvLinkState", device, link) == 1:
            asked = map(ctypes.c_int, range(NVLINK_COUNTERS))
            told = (nvml.number("nvmlDeviceGetNvLinkErrorCounter", device, link, one, kind=U64) for one in asked)
            errors += [count for count in told if count is not None]
    yield "nvlink_errors", sum(errors) if errors else None


def inforom(nvml: Nvml, device: Any) -> Iterator[Fact]:
    """Last, for it reads the board's flash."""
    told = nvml.call("nvmlDeviceValidateInforom", device)
    if told in (0, CORRUPTED_INFOROM):
        yield "inforom_valid", int(told == 0)


def facts(library: Any) -> Iterator[str]:
    """The lines, in order."""
    nvml = Nvml(library)
    refused = nvml.call("nvmlInit_v2")
    if refused != 0:
        yield f"error {nvml.reason(refused)}"
        yield "end"
        return
    asked = denied = 0
    for index in range(min(nvml.number("nvmlDeviceGetCount_v2") or 0, GPUS_AT_MOST)):
        yield f"asking {index}"
        device = ctypes.c_void_p()
        refused = nvml.call("nvmlDeviceGetHandleByIndex_v2", U32(index), ctypes.byref(device))
        if refused == NO_PERMISSION:
            denied += 1
            continue
        if refused != 0:
            yield f"error GPU {index}: {nvml.reason(refused)}"
            continue
        asked += 1
        for part in (identity, memory, state, links, inforom):
            for key, value in part(nvml, device):
                if value is not None:
                    yield f"{index} {key} {value}"
    if denied and not asked:  # while others are not kept from it, they are those of other jobs
        yield f"error {nvml.reason(NO_PERMISSION)}"
    yield "end"


def nodes(folder: str = "/dev") -> Iterator[str]:
    """The driver's device nodes, and whether this user may read and write them. access(2) opens nothing."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("nvidia"))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.isdir(path):
            yield f"node {name} {int(os.access(path, os.R_OK | os.W_OK))}"


def lines() -> Iterator[str]:
    yield from nodes()
    library = load()
    yield from ("absent", "end") if library is None else facts(library)


def main() -> None:
    """Print the facts."""
    signal.alarm(ALIVE_S)
    for entry in lines():
        os.write(1, (entry.replace("\n", " ") + "\n").encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
