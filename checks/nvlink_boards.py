"""Which NVLinks a board has, by its name: SXM boards always have all, PCIe boards only where they are bridged."""

from checks.health import is_vgpu, words
from rig.lean import Mapping
from rig.machine import Gpu, PciDevice
from rig.snapshot import Snapshot

# Whole words of a model -> NVLinks of its SXM board. Source: NVIDIA data sheets (bandwidth over rate of one link).
SXM_LINKS: Mapping[str, int] = {
    "V100": 6, "A100": 12, "A800": 8, "H100": 18, "H200": 18, "H20": 18, "H800": 8, "B200": 18, "B300": 18,
}  # fmt: skip
# The same for PCIe boards that are bridged to another one. Source: product briefs, "NVLink bridge".
BRIDGED_LINKS: Mapping[str, int] = {"A100": 12, "A800": 8, "H100": 12, "H800": 8, "H200": 18, "A30": 4, "A40": 4}
BRIDGED = ("PCIE", "NVL", "A30", "A40")
SWITCHES: Mapping[str, int] = {"A100": 6, "A800": 6, "H100": 4, "H200": 4, "H20": 4, "H800": 4}  # of a board of eight
NVSWITCH_CLASS = "0680"  # PCI bridge of another kind, of NVIDIA


def is_bridged_board(gpu: Gpu) -> bool:
    """A PCIe board: `A100-PCIE-40GB`, `A100 80GB PCIe`, `H100 NVL`, `A30`."""
    return not {word.upper() for word in words(gpu.model)}.isdisjoint(BRIDGED)


def links_of(gpu: Gpu, now: Snapshot, bridged: bool = False) -> int | None:
    """NVLinks that a GPU has on its SXM board, or (`bridged`) a PCIe board beside its bridged twin; None where it is
    another kind of board, a share of one (vGPU), or where the number is not the board's: V100 in a guest, whose links
    lead to GPUs of others.
    """
    if is_bridged_board(gpu) is not bridged or is_vgpu(gpu):
        return None
    has = words(gpu.model)
    if "V100" in has and (not any(word.startswith("SXM") for word in has) or len(now.machine.gpus) not in (8, 16)):
        return None
    table = BRIDGED_LINKS if bridged else SXM_LINKS
    return next((links for word, links in table.items() if word in has), None)


def registers(gpu: Gpu) -> bool:
    """Whether a GPU joins a fabric and tells of it: SXM boards from Hopper on, and what comes with Grace."""
    has = words(gpu.model)
    named = any(word in has for word in SXM_LINKS) or any(word in has for word in ("GB200", "GB300"))
    whole = not is_bridged_board(gpu) and not is_vgpu(gpu)
    return named and whole and gpu.capability is not None and gpu.capability >= (9, 0)


def switches_of(now: Snapshot) -> list[PciDevice]:
    """The NVSwitches on the bus."""
    return [one for one in now.machine.pci if one.vendor == "10de" and (one.class_code or "")[:4] == NVSWITCH_CLASS]


def switches_expected(now: Snapshot) -> int | None:
    """NVSwitches of a board with eight GPUs; None where not all eight are seen, or the board is not in the table."""
    gpus = now.machine.gpus
    if len(gpus) != 8 or now.machine.surroundings.gpus_on_bus != 8 or is_bridged_board(gpus[0]):
        return None
    has = words(gpus[0].model)
    return next((count for word, count in SWITCHES.items() if word in has), None)
