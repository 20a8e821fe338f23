"""Machines in the states that the families memory, kernel and clocks judge, in a few words each."""

from typing import Any

from rig.detect.kernel_log import parse
from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import h100, no_gpu, rtx4090
from tests.checks.twin import changed

UPTIME_S = 1_000_000.0
BUS = "{bus}"  # in a line of the log: the bus id of the first GPU, as the driver writes it


def well(now: Snapshot | None = None) -> Snapshot:
    """A snapshot (h100 if none is given) whose kernel is quiet, and whose GPUs ran well under load."""
    now = h100() if now is None else now
    rows = [
        {"bus_id": gpu.bus_id, "sm_clock_mhz": 1700, "reasons": 4, "temperature_c": 62, "tflops": 700.0}
        for gpu in now.machine.gpus
    ]
    probe = Probe("gpu_matmul", "ok", {"gpus": rows, "together": rows})
    host = changed(now, host__kernel_log=(), host__uptime_s=UPTIME_S)
    return host._replace(probes={**now.probes, "gpu_matmul": probe})  # type: ignore[no-any-return]


def said(*lines: str, now: Snapshot | None = None, ago_s: float = 60) -> Snapshot:
    """The same, after these lines of the kernel's log; `{bus}` stands for the first GPU, `{other}` for the second."""
    now = well(now)
    buses = [(gpu.bus_id or "").rpartition(".")[0] for gpu in now.machine.gpus] + ["0000:00:00"] * 2
    at = f"[{UPTIME_S - ago_s:.6f}] "
    text = "\n".join(at + line.format(bus=buses[0], other=buses[1]) for line in lines)
    return changed(now, host__kernel_log=parse(text))  # type: ignore[no-any-return]


def first(now: Snapshot | None = None, **values: Any) -> Snapshot:
    """The same, with other values in NVML's record of the first GPU."""
    paths = {f"host__gpus__0__{name}": value for name, value in values.items()}
    return changed(well(now), **paths)  # type: ignore[no-any-return]


def every(now: Snapshot | None = None, **values: Any) -> Snapshot:
    """The same, with other values in NVML's record of every GPU."""
    now = well(now)
    assert now.host is not None
    return changed(now, host__gpus=tuple(one._replace(**values) for one in now.host.gpus))  # type: ignore[no-any-return]


def loaded(which: str = "gpus", place: int = 0, now: Snapshot | None = None, **values: Any) -> Snapshot:
    """The same, with other values in what the probe gpu_matmul read of a GPU; `which`: gpus (alone) or together."""
    now = well(now)
    probe = now.probes["gpu_matmul"]
    rows = [{**row, **(values if at == place else {})} for at, row in enumerate(probe.data[which])]
    return now._replace(probes={**now.probes, "gpu_matmul": probe._replace(data={**probe.data, which: rows})})


def v100() -> Snapshot:
    """Eight V100: pages are retired, rows are not remapped."""
    now = every(
        remap_pending=None, remap_failed=None, remapped_uncorrectable=None, retired_pages=0, retired_pending=False
    )
    gpus = tuple(gpu._replace(model="Tesla V100-SXM2-16GB", capability=(7, 0)) for gpu in now.machine.gpus)
    return now._replace(machine=now.machine._replace(gpus=gpus))


def consumer() -> Snapshot:
    return well(rtx4090())


def cpu_only() -> Snapshot:
    return well(no_gpu())
