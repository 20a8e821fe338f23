"""The boot page: what was found, what was chosen and why, what starts. A few lines, pure text."""

from rig.lean import Any, Iterable, Mapping
from rig.machine import UNLIMITED, Machine
from rig.plan import Plan

SHOWN = ("stage", "overlap_comm", "reduce_bucket_size", "stage3_prefetch_bucket_size")


def found_line(machine: Machine) -> str:
    """GPUs, HCAs and the limits that matter to training, in one line."""
    limits = machine.limits
    cpus = limits.cpus if limits.cpus is not None and limits.cpus > 0 else machine.cpu.online
    parts = [_gpus(machine), _hcas(machine)]
    if cpus is not None:
        parts.append(f"{cpus:g} CPUs")
    if limits.memory_bytes is not None and limits.memory_bytes > 0:
        parts.append(f"memory {size(limits.memory_bytes)}")
    if limits.shm_bytes is not None:
        parts.append(f"/dev/shm {size(limits.shm_bytes)}")
    if machine.hcas and limits.memlock_bytes is not None:
        told = "unlimited" if limits.memlock_bytes == UNLIMITED else size(limits.memlock_bytes)
        parts.append(f"memlock {told}")
    return ", ".join(parts)


def _gpus(machine: Machine) -> str:
    if not machine.gpus:
        return "no GPU"
    models = _counted(gpu.model or "GPU of unknown model" for gpu in machine.gpus)
    driver = f" (driver {machine.kernel.driver})" if machine.kernel.driver else ""
    return models + driver


def _hcas(machine: Machine) -> str:
    if not machine.hcas:
        return "no HCA"
    ports = [port for hca in machine.hcas for port in hca.ports]
    active = [port for port in ports if port.state == "ACTIVE"]
    kinds = _counted(
        f"{port.link_layer or 'unknown link'}{f' {port.rate_gbps:g} Gb/s' if port.rate_gbps else ''}" for port in active
    )
    count = len(machine.hcas)
    return f"{count} HCA{'s' * (count > 1)} ({kinds or 'no active port'})"


def _counted(names: Iterable[str]) -> str:
    """`8 x A, 1 x B`, most frequent first."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))


def size(count: int) -> str:
    """Bytes as people write them: 64 MB, 2 TB."""
    value, unit = float(count), "B"
    for following in ("kB", "MB", "GB", "TB"):
        if value < 1024:
            break
        value, unit = value / 1024, following
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def chosen_lines(plan: Plan) -> list[str]:
    """One line for each setting that rig decided on: value, source, reason."""
    return [f"{one.name}={one.value} ({one.source}: {one.reason})" for one in (*plan.nccl, *plan.environment)]


def config_line(config: Mapping[str, Any], path: str) -> str:
    """The generated DeepSpeed config in one line: the stage and what depends on the network."""
    zero = config.get("zero_optimization", {})
    shown = [f"{key} {_short(zero[key])}" for key in SHOWN if key in zero]
    return f"{path}: ZeRO {', '.join(shown)}"


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int) and value >= 10000:
        return f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    return str(value)
