"""Fixtures of the family drives."""

from rig.host import Raid
from tests.checks.snapshots import h100, no_gpu
from tests.checks.twin import Twin, changed

TWINS = (
    Twin(
        "nvme_drives_are_live",
        changed(h100(), host__nvme__3=("nvme3", "dead")),
        h100(),
        says="nvme3 is dead",
        fix="Reboot",
        domain="host",
    ),
    Twin(  # a machine without NVMe is none with a dead one
        "nvme_drives_are_live",
        changed(h100(), host__nvme=(("nvme0", "deleting"),)),
        no_gpu(),
        says="nvme0 is deleting",
        fix="replaced",
        domain="host",
    ),
    Twin(
        "raids_are_whole",
        changed(h100(), host__raids=(Raid("md0", 1, 8),)),
        h100(),
        says="md0 misses 1 of 8 drives",
        fix="/proc/mdstat",
        domain="host",
        outcome="warn",
    ),
    Twin(
        "file_systems_have_no_errors",
        changed(h100(), host__fs_errors=(("nvme0n1p2", 12),)),
        changed(h100(), host__fs_errors=None),
        says="nvme0n1p2 has noted 12 errors",
        fix="e2fsck",
        domain="host",
        outcome="warn",
    ),
)
