"""How fast each GPU multiplies matrices in bf16 and fp16: alone, then all together, and whether they all say the same.

Alone shows the GPU, together the power supply and the cooling. Clocks, the reasons for low ones and temperatures are
read under load, where they mean something. All multiply the same numbers: equal models must give equal bits, each time
(silent corruption). Not seen on hardware yet.
"""

import hashlib
import os
import sys
import threading
import time
from typing import Any, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devices import Device, Watcher, devices
from telling import run, tell

SIZE, REHEARSAL_SIZE = 8192, 256
SECONDS_ALONE, SECONDS_TOGETHER = 0.4, 2.0


Pairs = dict[str, tuple[Any, Any]]


def inputs(size: int) -> Pairs:
    """The same two matrices for every GPU, made on the CPU; normal numbers, which make the chips work as training
    does. A row is drawn once and shifted: to draw all of them would take longer than the measurement."""
    import torch

    rows = torch.randn(2, 2 * size, generator=torch.Generator().manual_seed(12))
    types = {"bf16": torch.bfloat16, "fp16": torch.float16}
    made = {name: [row.to(kind).unfold(0, size, 1)[:size].contiguous() for row in rows] for name, kind in types.items()}
    return {name: (first, second) for name, (first, second) in made.items()}


class Work(NamedTuple):
    """Two matrices of one kind, and where their product goes."""

    kind: str
    a: Any
    b: Any
    out: Any


def rate(device: Device, work: Work, seconds: float) -> float:
    """TFLOP/s over about so many seconds."""
    import torch

    size, done, began = work.a.shape[0], 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        for _ in range(4):
            torch.matmul(work.a, work.b, out=work.out)
        done += 4
        device.wait()
    return float(f"{2 * size**3 * done / spent / 1e12:.4g}")


def digest(out: Any) -> str:
    """Of the bits of a result. The sums of all rows and of all columns stand for it: one wrong number changes two."""
    import torch

    bits = out.view(torch.int16)
    sums = torch.cat([bits.sum(axis, dtype=torch.int64) for axis in (0, 1)])
    return hashlib.sha256(sums.cpu().numpy().tobytes()).hexdigest()[:16]


def kinds(device: Device) -> list[str]:
    """What is worth asking; the last one, which trainings use, is that of all together. Before Ampere bf16 is emulated;
    this torch cannot multiply fp16 on a CPU."""
    import torch

    if not device.is_gpu:
        return ["bf16"]
    return ["fp16", "bf16"] if torch.cuda.get_device_capability(device.name)[0] >= 8 else ["fp16"]


def alone(device: Device, pairs: Pairs, watcher: Watcher) -> tuple[dict[str, Any], Work]:
    """What is told of one GPU, and its matrices for the run of all together."""
    import torch

    told: dict[str, Any] = {"bus_id": device.bus_id, "model": device.model, "bf16_tflops": None, "fp16_tflops": None}
    told.update(stable=True, digest="")
    looked: dict[str, Any] = {}
    for name in kinds(device):
        a, b = (matrix.to(device.name) for matrix in pairs[name])
        first = torch.matmul(a, b)
        work = Work(name, a, b, torch.empty_like(first))
        thread = threading.Timer(SECONDS_ALONE / 2, lambda: looked.update(watcher.look(device.bus_id)))
        thread.start()
        told[f"{name}_tflops"] = rate(device, work, SECONDS_ALONE)
        thread.join()
        told["stable"] = told["stable"] and bool(torch.equal(first, work.out))
        told["digest"] += digest(first)
    return {**told, **looked}, work


def together(found: list[Device], works: list[Work], watcher: Watcher) -> list[dict[str, Any]]:
    """All GPUs at once, each driven by a thread of its own (torch lets go of the interpreter while it waits)."""
    rates: dict[str, float] = {}

    kind = {device.bus_id: work.kind for device, work in zip(found, works, strict=True)}

    def drive(device: Device, work: Work) -> None:
        rates[device.bus_id] = rate(device, work, SECONDS_TOGETHER)

    threads = [threading.Thread(target=drive, args=pair) for pair in zip(found, works, strict=True)]
    for thread in threads:
        thread.start()
    time.sleep(SECONDS_TOGETHER * 0.7)  # the chips are warm by then
    looked = {device.bus_id: watcher.look(device.bus_id) for device in found}
    for thread in threads:
        thread.join()
    return [{"bus_id": one, "kind": kind[one], "tflops": value, **looked[one]} for one, value in sorted(rates.items())]


def main() -> None:
    tell(gpus=[], together=[])
    found, watcher = devices(), Watcher()
    pairs = inputs(SIZE if found and found[0].is_gpu else REHEARSAL_SIZE)
    works = []
    for device in found:
        tell(asking=device.bus_id)
        told, work = alone(device, pairs, watcher)
        works.append(work)
        tell(gpus=[told])
    if len(found) > 1:
        tell(asking="all GPUs together")
        tell(together=together(found, works, watcher))
    tell(asking=None)


if __name__ == "__main__":
    run(main)
