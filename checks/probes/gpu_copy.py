"""How fast each GPU and the host exchange pinned memory, and the PCIe link while they do.

An idle link sleeps at Gen1 by design (NVIDIA/open-gpu-kernel-modules#1010), so generation and width are read from sysfs
between the start of copies and their end. One GPU at a time; not seen on hardware yet.
"""

import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devices import Device, best_seconds, devices
from telling import run, tell

SIZE, REHEARSAL_SIZE = 256 << 20, 1 << 20
GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # GT/s, as pci_speed_string() prints


def link(bus_id: str, folder: str = "/sys/bus/pci/devices") -> dict[str, int | None]:
    """Generation and width of the link now; None where sysfs does not tell."""
    words = []
    for name in ("current_link_speed", "current_link_width"):
        try:
            with open(f"{folder}/{bus_id}/{name}") as file:
                words.append(file.read().split()[0])
        except (OSError, IndexError):
            words.append("")
    width = int(words[1]) if words[1].isdigit() else 0
    return {"pcie_gen_load": GENERATIONS.get(words[0]), "pcie_width_load": width or None}


def measure(device: Device) -> dict[str, Any]:
    import torch

    size = SIZE if device.is_gpu else REHEARSAL_SIZE
    here = torch.ones(size, dtype=torch.uint8, pin_memory=device.is_gpu)
    there = torch.empty(size, dtype=torch.uint8, device=device.name)
    told: dict[str, Any] = {"bus_id": device.bus_id}
    for name, into, source in (("h2d_gb_s", there, here), ("d2h_gb_s", here, there)):
        seconds = best_seconds(device, lambda: into.copy_(source, non_blocking=True), rounds=3, repeat=4)  # noqa: B023
        told[name] = round(size / seconds / 1e9, 2)
    for _ in range(8):
        there.copy_(here, non_blocking=True)
    told.update(link(device.bus_id))
    device.wait()
    return told


def main() -> None:
    tell(gpus=[])
    for device in devices():
        tell(asking=device.bus_id)
        tell(gpus=[measure(device)])
    tell(asking=None)


if __name__ == "__main__":
    run(main)
