"""What is healthy about the gpus of a snapshot's host."""

from rig.snapshot import Snapshot


def with_healthy_gpus(now: Snapshot) -> Snapshot:
    return now
