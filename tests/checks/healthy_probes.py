"""What every probe measures on a healthy machine."""

from collections.abc import Mapping

from rig.snapshot import Probe, Snapshot


def healthy_probes(now: Snapshot) -> Mapping[str, Probe]:
    return {}
