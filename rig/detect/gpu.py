"""NVIDIA GPUs as files tell them, without touching the driver's device nodes.

Sources: /proc/driver/nvidia (kernel-open/nvidia/nv-procfs.c of the driver), the compute capability of each product from
NVIDIA's table "CUDA GPUs - Compute Capability".
"""

from rig.lean import Iterable
from rig.machine import Gpu, PciDevice
from rig.root import Root
from rig.text import bus_id, line, whole

FOLDER = "/proc/driver/nvidia/"

# Word in the product name -> compute capability; the first match wins, so longer words come first.
CAPABILITIES = (
    ("GB300", (10, 3)),
    ("B300", (10, 3)),
    ("GB200", (10, 0)),
    ("B200", (10, 0)),
    ("B100", (10, 0)),
    ("GH200", (9, 0)),
    ("H200", (9, 0)),
    ("H100", (9, 0)),
    ("H800", (9, 0)),
    ("H20", (9, 0)),
    ("L40S", (8, 9)),
    ("L40", (8, 9)),
    ("L20", (8, 9)),
    ("L4", (8, 9)),
    ("RTX 6000 Ada", (8, 9)),
    ("RTX 4090", (8, 9)),
    ("RTX 4080", (8, 9)),
    ("A100", (8, 0)),
    ("A800", (8, 0)),
    ("A30", (8, 0)),
    ("A40", (8, 6)),
    ("A10G", (8, 6)),
    ("A10", (8, 6)),
    ("A16", (8, 6)),
    ("RTX A6000", (8, 6)),
    ("RTX A5000", (8, 6)),
    ("RTX A4000", (8, 6)),
    ("RTX 3090", (8, 6)),
    ("RTX 3080", (8, 6)),
    ("T4", (7, 5)),
    ("RTX 2080", (7, 5)),
    ("V100", (7, 0)),
    ("P100", (6, 0)),
    ("RTX 5090", (12, 0)),
    ("RTX PRO 6000 Blackwell", (12, 0)),
)


def parse_information(text: str | None) -> dict[str, str]:
    """Model, GPU UUID and Device Minor of /proc/driver/nvidia/gpus/*/information (`Model: \\t\\t NVIDIA A100`)."""
    told = {}
    for entry in (text or "").split("\n"):
        key, _, value = entry.partition(":")
        clean = line(value) if key in ("Model", "GPU UUID", "Device Minor") else None
        if clean is not None and "??" not in clean:  # UUID of a GPU that is not initialised
            told[key] = clean
    return told


def parse_driver(text: str | None) -> tuple[str | None, bool | None]:
    """Version and whether the kernel modules are the open ones, from /proc/driver/nvidia/version:
    `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.129.03  Release Build ...`."""
    first = line(text)
    if first is None or not first.startswith("NVRM version:"):
        return None, None
    for word in first.split():
        if word[0].isdigit() and "." in word and not word.strip("0123456789."):
            return word, "Open Kernel Module" in first
    return None, "Open Kernel Module" in first


def capability_of(model: str | None) -> tuple[int, int] | None:
    """Compute capability of a product by its name; None for a product that the table does not have."""
    if model is None:
        return None
    words = f" {model.replace('-', ' ')} "
    for name, capability in CAPABILITIES:
        if f" {name} " in words or f" {name}X " in words:
            return capability
    return None


def is_gpu(device: PciDevice) -> bool:
    """VGA (0300) and 3D (0302) controllers of NVIDIA."""
    return device.vendor == "10de" and device.class_code is not None and device.class_code[:4] in ("0300", "0302")


def nodes_of(names: list[str]) -> tuple[str, ...] | None:
    """NVIDIA's nodes among the names in /dev; None where /dev is not a real one (every real one has `null`)."""
    return tuple(name for name in names if name.startswith("nvidia")) if "null" in names else None


def read_driver(root: Root) -> tuple[str | None, bool | None]:
    """Version of the kernel driver, and whether its modules are the open ones."""
    return parse_driver(root.read(FOLDER + "version"))


def named_by_driver(root: Root) -> list[str]:
    """Bus ids in /proc/driver/nvidia/gpus: in a container those that it was given, on a host all."""
    return [name for name in map(bus_id, root.ls(FOLDER + "gpus")) if name is not None]


def read_gpu(root: Root, index: int, bus: str, numa: int | None, nodes: tuple[str, ...] | None) -> tuple[Gpu, bool]:
    """One GPU, and whether this container was given it. Its node is named only where /dev has it."""
    told = parse_information(root.read(f"{FOLDER}gpus/{bus}/information"))
    minor = whole(told.get("Device Minor"), 0, 1023)
    node = None if minor is None else f"nvidia{minor}"
    given = nodes is None or (any(name[6:].isdigit() for name in nodes) if node is None else node in nodes)
    model = told.get("Model")
    gpu = Gpu(
        index,
        bus,
        model,
        told.get("GPU UUID"),
        numa,
        capability=capability_of(model),
        node=f"/dev/{node}" if node is not None and given else None,
    )
    return gpu, given


def read_gpus(root: Root, on_bus: Iterable[PciDevice], nodes: tuple[str, ...] | None) -> tuple[Gpu, ...]:
    """The GPUs that this container was given, in PCI order, which is also NVML's.

    A container without GPUs still sees the host's in sysfs and procfs. So where /dev is known, a GPU whose node is not
    in it does not count; a GPU whose minor number is unknown counts while /dev has any numbered node.
    """
    numas = {device.bus_id: device.numa for device in on_bus}
    buses = named_by_driver(root) or sorted(numas)
    found: list[Gpu] = []
    for bus in buses:
        gpu, given = read_gpu(root, len(found), bus, numas.get(bus), nodes)
        if given:
            found.append(gpu)
    return tuple(found)
