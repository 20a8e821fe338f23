"""The memory rate of each GPU: a copy (two bytes moved for each byte) and a triad a = b + s * c (three).

After STREAM's kernels. One GPU at a time; not seen on hardware yet.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devices import Device, best_seconds, devices
from telling import run, tell

LARGEST = 1 << 30  # bytes of one array; the caches hold a twentieth


def measure(device: Device) -> dict[str, object]:
    """Frees its arrays when it returns; the next GPU has memory of its own."""
    import torch

    size = min(LARGEST, device.free_bytes() // 8)
    a, b, c = (torch.ones(size // 4, device=device.name) for _ in range(3))
    copied = best_seconds(device, lambda: a.copy_(b), rounds=5, repeat=10)
    added = best_seconds(device, lambda: torch.add(b, c, alpha=3.0, out=a), rounds=5, repeat=10)
    rates = {"copy_gb_s": 2 * size / copied / 1e9, "triad_gb_s": 3 * size / added / 1e9}
    return {"bus_id": device.bus_id, "bytes": size, **{name: round(rate, 1) for name, rate in rates.items()}}


def main() -> None:
    tell(gpus=[])
    for device in devices():
        tell(asking=device.bus_id)
        tell(gpus=[measure(device)])
    tell(asking=None)


if __name__ == "__main__":
    run(main)
