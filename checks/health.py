"""What NVML told of each GPU (rig.host.GpuHealth), and by a GPU's name what it has to tell at all."""

from checks import say
from rig.finding import Finding
from rig.host import GpuHealth
from rig.lean import Any, Callable, Iterator
from rig.machine import Gpu
from rig.snapshot import Snapshot

# Whole words of the names of GPUs with HBM, all of which have ECC. "H200" is no "GH200" (leptonai/gpud PR#1206).
HBM_MODELS = frozenset((
    "P100", "V100", "V100S", "A100", "A100X", "A800", "A30", "A30X", "H20", "H100",
    "H200", "H800", "GH200", "B100", "B200", "B300", "GB200", "GB300",
))  # fmt: skip


def words(model: str | None) -> set[str]:
    """`NVIDIA A100-SXM4-80GB` as {NVIDIA, A100, SXM4, 80GB}."""
    return set("".join(letter if letter.isalnum() else " " for letter in model or "").split())


def is_vgpu(gpu: Gpu) -> bool:
    """A share of a board that a hypervisor deals out: `GRID A100-40C`, `NVIDIA A40-48Q`. Memory, links and faults of
    the board are the host's to see. Source: NVIDIA vGPU user guide, types A, B, C and Q."""
    has = words(gpu.model)
    return "GRID" in has or any(word[-1] in "ABCQ" and word[:-1].isdecimal() for word in has)


def has_hbm(gpu: Gpu) -> bool:
    """Whether it is a whole board with HBM."""
    return not HBM_MODELS.isdisjoint(words(gpu.model)) and not is_vgpu(gpu)


def counts(gpu: Gpu) -> bool:
    """Whether it must count memory errors; with ECC off it cannot, which is said once."""
    return has_hbm(gpu) and gpu.ecc is not False


def remaps(gpu: Gpu) -> bool:
    return has_hbm(gpu) and gpu.capability is not None and gpu.capability >= (8, 0)


def retires(gpu: Gpu) -> bool:
    return has_hbm(gpu) and gpu.capability is not None and gpu.capability < (8, 0)


def anyone(gpu: Gpu) -> bool:
    """Every GPU must tell it."""
    return True


def name_of(gpu: Gpu) -> str:
    return f"GPU {gpu.index}" + (f" ({gpu.bus_id})" if gpu.bus_id else "")


def subject_of(gpu: Gpu) -> str:
    return gpu.bus_id or f"GPU {gpu.index}"


def health_of(now: Snapshot, gpu: Gpu) -> GpuHealth:
    """What NVML told of a GPU; a record of unknowns where it told nothing."""
    records = now.host.gpus if now.host is not None else ()
    return next((one for one in records if one.bus_id == gpu.bus_id), GpuHealth(gpu.bus_id or ""))


def told(now: Snapshot, *fields: str) -> bool:
    """Whether NVML told one of these of any GPU."""
    records = now.host.gpus if now.host is not None else ()
    return any(getattr(one, field) is not None for one in records for field in fields)


def unknown(gpu: Gpu, what: str) -> Finding:
    return say(f"{name_of(gpu)}: {what} is not known", subject_of(gpu), outcome="unknown")


def each(
    now: Snapshot, field: str, what: str, must_tell: Callable[[Gpu], bool] | None, wrong: Callable[[Any], Any]
) -> Iterator[tuple[Gpu, Any] | Finding]:
    """(GPU, value) of each GPU whose value of a field of GpuHealth is `wrong`, and an unknown for each that must tell
    it and does not. `must_tell` None: one must where another of its model does; else there is no such thing."""
    values = [(gpu, getattr(health_of(now, gpu), field)) for gpu in now.machine.gpus]
    telling = {gpu.model for gpu, value in values if value is not None}
    for gpu, value in values:
        if value is None:
            if must_tell(gpu) if must_tell is not None else gpu.model in telling:
                yield unknown(gpu, what)
        elif wrong(value):
            yield gpu, value


def findings(
    now: Snapshot,
    field: str,
    what: str,
    must_tell: Callable[[Gpu], bool] | None,
    most: int | bool,
    text: str,
    **more: str,
) -> Iterator[Finding]:
    """A finding for each GPU whose value is more than `most`; `text` says it with {got}."""
    for one in each(now, field, what, must_tell, lambda value: value > most):
        if isinstance(one, Finding):
            yield one
        else:
            gpu, got = one
            yield say(f"{name_of(gpu)}: {text.format(got=got)}", subject_of(gpu), most, got, **more)
