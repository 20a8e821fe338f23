"""The memory rate of each GPU: a copy, which moves two bytes for each byte.

One GPU at a time; not seen on hardware yet.
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
    a, b = (torch.ones(size // 4, device=device.name) for _ in range(2))
    copied = best_seconds(device, lambda: a.copy_(b), rounds=5, repeat=10)
    return {"bus_id": device.bus_id, "bytes": size, "copy_gb_s": round(2 * size / copied / 1e9, 1)}


def main() -> None:
    tell(gpus=[])
    for device in devices():
        tell(asking=device.bus_id)
        tell(gpus=[measure(device)])
    tell(asking=None)


if __name__ == "__main__":
    run(main)
