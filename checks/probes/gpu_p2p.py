"""Whether what one GPU sends arrives at another as it was sent, for each ordered pair, and how fast.

On boards without peer access a driver may claim it all the same, and then bring garbage or nothing at all
(NVIDIA/nccl-tests#117, tinygrad/open-gpu-kernel-modules#17). `claimed` is what the driver says, `right` is measured. A
pair is named before it is tried. Not seen on hardware yet.
"""

import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devices import Device, best_seconds, devices
from telling import first_line, run, tell

SIZE, TIMED_SIZE, REHEARSAL_SIZE = 64 << 20, 256 << 20, 1 << 20


def measure(a: Device, b: Device, sent: Any, source: Any) -> dict[str, Any]:
    """Copy `source`, which lies on a and equals `sent`, to b; compared on the CPU, which both reach without one
    another."""
    import torch

    told: dict[str, Any] = {"a": a.bus_id, "b": b.bus_id, "claimed": None, "right": None, "gb_s": None, "error": None}
    if a.is_gpu:
        told["claimed"] = bool(torch.cuda.can_device_access_peer(a.name, b.name))
    try:
        into = torch.zeros(len(sent), dtype=torch.uint8, device=b.name)
        b.wait()
        into.copy_(source)
        a.wait()
        b.wait()
        told["right"] = bool(torch.equal(into.cpu(), sent))
        told["gb_s"] = rate(a, b, TIMED_SIZE if a.is_gpu else REHEARSAL_SIZE)
    except RuntimeError as error:
        told["error"] = first_line(error)
    return told


def rate(a: Device, b: Device, size: int) -> float:
    """GB/s of a copy; a longer one, whose start costs nothing beside it."""
    import torch

    source, into = (torch.empty(size, dtype=torch.uint8, device=one.name) for one in (a, b))
    return round(size / best_seconds(b, lambda: into.copy_(source, non_blocking=True), rounds=3, repeat=4) / 1e9, 2)


def main() -> None:
    tell(pairs=[])
    found = devices()
    if not found:
        return
    import torch

    size = SIZE if found[0].is_gpu else REHEARSAL_SIZE
    sent = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))
    for a in found:
        source = sent.to(a.name)
        for b in found:
            if a is not b:
                tell(asking=f"{a.bus_id} -> {b.bus_id}")
                tell(pairs=[measure(a, b, sent, source)])
    tell(asking=None)


if __name__ == "__main__":
    run(main)
