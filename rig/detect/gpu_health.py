"""How each GPU is, as the driver tells (see gpu_health_child.py for what the child prints), and what stands around the
driver: kernel modules, the fabric manager, the driver's libraries in this container.

Sources: NVIDIA Management Library API reference; proc(5); NVIDIA's "Fabric Manager for NVIDIA NVSwitch Systems User
Guide" (nv-fabricmanager); nvidia-container-toolkit, which mounts libcuda.so.VERSION and links libcuda.so.1 to it.
"""

from rig.host import GpuHealth
from rig.lean import Any, NamedTuple
from rig.machine import Machine
from rig.root import Collected, Root, Running
from rig.text import bus_id, line, whole

VERSION_TIMEOUT_S = 3.0
TIMEOUT_S = 30.0  # without persistence mode the driver initialises every GPU first, and the boards' flash is read
STATES = {"hung": "unresponsive", "cut": "cut", "failed": "failed"}
SILENT = ("unresponsive", "cut")  # what a driver was that is not asked again
GPUS_AT_MOST = 64
FLAGS = (
    *("ecc_pending", "sram_threshold_exceeded", "remap_pending", "remap_failed", "retired_pending"),
    *("inforom_valid", "fabric_cluster"),
)
TEXTS = ("uuid", "vbios", "gsp_firmware", "recovery_action", "compute_mode", "fabric_state", "fabric_status")
OTHER = ("bus_id", "processes", *FLAGS, *TEXTS)
NUMBERS = tuple(name for name in GpuHealth._fields if name not in OTHER)
MANAGER = "nv-fabricmanager"
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
)
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


class Answer(NamedTuple):
    """What the child said. `state`: ok, absent, failed, unresponsive, cut; None: not asked. `nodes` are device nodes
    with whether this user may use them."""

    gpus: tuple[GpuHealth, ...] = ()
    state: str | None = None
    error: str | None = None
    nodes: tuple[tuple[str, bool], ...] = ()


class Around(NamedTuple):
    """The fields of rig.host.Host about the driver that files tell."""

    modules: tuple[str, ...] | None = None
    fabric_manager: bool | None = None
    fabric_manager_version: str | None = None
    driver_libraries: tuple[str, ...] | None = None
    off_bus: tuple[str, ...] | None = None


def start(root: Root) -> Running:
    """Start the child; ask for its answer after the files have been read."""
    return root.start(("rig-nvml-health",), TIMEOUT_S)


def parse(collected: Collected) -> Answer:
    """An answer without `end` broke off: what was said before counts, and the error names the GPU that was asked, and
    the last thing that it told."""
    facts: dict[int, list[tuple[str, str]]] = {}
    nodes: dict[str, bool] = {}
    state, errors, asking, ended = STATES.get(collected.state), list[str](), "", False
    for entry in collected.output.split("\n"):
        first, _, rest = entry.partition(" ")
        index = whole(first, 0, GPUS_AT_MOST - 1) if entry[:1].isdigit() else None
        key, _, value = rest.partition(" ")
        if index is not None and value:
            facts.setdefault(index, []).append((key, value))
        elif first == "node" and value in ("0", "1") and line(key, 64) is not None:
            nodes[key] = value == "1"
        elif first == "error":
            state, errors = "failed", [*errors, line(rest) or "the driver refused"]
        elif first == "absent":
            state = "absent"
        elif first == "asking":
            asking = rest
        ended = ended or entry == "end"
    if state is None and collected.state == "ok":
        state = "ok" if ended else "failed"
    if not ended and collected.state != "unasked":
        errors.append(_broken_off(facts, asking))
    gpus = tuple(health for _, told in sorted(facts.items()) if (health := parse_gpu(told)) is not None)
    return Answer(gpus, state, "; ".join(filter(None, errors)) or None, tuple(nodes.items()))


def _broken_off(facts: dict[int, list[tuple[str, str]]], asking: str) -> str:
    """`while 0000:3b:00.0 was asked (it had told vbios)`; empty where not even the first was asked."""
    index = whole(asking, 0, GPUS_AT_MOST - 1)
    if index is None:
        return ""
    told = facts.get(index, [])
    bus = bus_id(dict(told).get("bus_id"))
    last = line(told[-1][0], 40) if told else None
    return f"while {bus or f'GPU {index}'} was asked" + (f" (the last that it told: {last})" if last else "")


def parse_gpu(told: list[tuple[str, str]]) -> GpuHealth | None:
    """The record of one GPU from its (field, value) pairs; None where it did not even tell where it is."""
    facts = dict(told)
    bus = bus_id(facts.get("bus_id"))
    if bus is None:
        return None
    values: dict[str, Any] = {name: whole(facts.get(name), 0, (1 << 64) - 1) for name in NUMBERS}
    values.update({name: {"1": True, "0": False}.get(facts.get(name, "")) for name in FLAGS})
    values.update({name: line(facts.get(name)) for name in TEXTS})
    return GpuHealth(bus, processes=parse_processes(told), **values)


def parse_processes(told: list[tuple[str, str]]) -> tuple[tuple[int, int], ...] | None:
    """(pid, bytes) of each `process PID BYTES`; None where the driver did not say how many there are."""
    if "process_count" not in dict(told):
        return None
    found = []
    for words in (value.split() for key, value in told if key == "process"):
        pid, used = (whole(word) for word in words) if len(words) == 2 else (None, None)
        if pid is not None and used is not None:
            found.append((pid, used))
    return tuple(found)


def parse_modules(text: str | None) -> tuple[str, ...] | None:
    """The names in /proc/modules; None where it cannot be read."""
    if text is None:
        return None
    return tuple(words[0] for entry in text.splitlines() if (words := entry.split()) and line(words[0], 64))


def read_manager(root: Root) -> bool | None:
    """Whether a process nv-fabricmanager runs. None where none is seen and the host's processes may be hidden: they are
    visible where process 2 is the kernel's kthreadd. A comm has 15 letters, so the last of the name is cut off."""
    for pid in root.ls("/proc"):
        if pid.isdigit() and (line(root.read(f"/proc/{pid}/comm"), 64) or "").startswith(MANAGER[:15]):
            return True
    return False if line(root.read("/proc/2/comm"), 64) == "kthreadd" else None


def parse_manager_version(text: str | None) -> str | None:
    """535.129.03 of `Fabric Manager version is : 535.129.03`."""
    last = (line(text) or "").rpartition(" ")[2]
    return last if "." in last and not last.strip("0123456789.") else None


def read_libraries(root: Root) -> tuple[str, ...] | None:
    """Where libcuda.so.1 and libnvidia-ml.so.1 end (`/usr/lib64/libcuda.so.535.129.03`), each once. None where the
    folders of libraries are not those of a running system: every one has a libc, a capture has not."""
    found = (root.link(f"{folder}/{name}") for name in LIBRARIES for folder in LIBRARY_FOLDERS)
    paths = tuple(dict.fromkeys(path for path in found if path is not None))
    running = paths or any(root.link(f"{folder}/libc.so.6") for folder in LIBRARY_FOLDERS)
    return paths if running else None


def read_off_bus(root: Root, buses: list[str]) -> tuple[str, ...] | None:
    """Those GPUs that no longer answer on the bus: their configuration reads as ones (PCI Local Bus Specification,
    master abort), while sysfs still shows what it read at boot. None where no configuration can be read."""
    told = [(bus, root.peek(f"/sys/bus/pci/devices/{bus}/config", 0, 4)) for bus in buses]
    if not any(first for _, first in told):
        return None
    return tuple(bus for bus, first in told if first == b"\xff\xff\xff\xff")


def read_around(root: Root, machine: Machine) -> Around:
    """What files and processes tell about the driver, and nv-fabricmanager about itself where it is installed."""
    return Around(
        parse_modules(root.read("/proc/modules")),
        read_manager(root),
        parse_manager_version(root.run((MANAGER, "--version"), VERSION_TIMEOUT_S)),
        read_libraries(root),
        read_off_bus(root, [gpu.bus_id for gpu in machine.gpus if gpu.bus_id is not None]),
    )


def asked_for(machine: Machine) -> bool:
    """Whether the driver is to be asked: there is something of NVIDIA's, and it did not fall silent before."""
    place = machine.surroundings
    return machine.nvml not in SILENT and bool(machine.gpus or place.gpus_on_bus or place.nvidia_nodes)


def read_health(machine: Machine, asked: Running | None) -> Answer:
    """The child's answer; where a driver that was silent before was left alone, that."""
    if asked is not None:
        return parse(asked.collect())
    where = f"while {machine.unresponsive_gpu} was asked" if machine.unresponsive_gpu else None
    return Answer((), machine.nvml, where) if machine.nvml in SILENT else Answer()
