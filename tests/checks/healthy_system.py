"""A healthy system around the devices: storage, processes, clock, kernel."""

from rig.snapshot import Snapshot


def with_healthy_system(now: Snapshot) -> Snapshot:
    return now
