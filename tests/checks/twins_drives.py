"""Fixtures of the family drives."""

from rig.host import Raid
from rig.snapshot import Probe, Snapshot
from tests.checks.snapshots import h100, no_gpu
from tests.checks.twin import Twin, changed

GIB, MIB = 1 << 30, 1 << 20
SHM = {"wanted_bytes": GIB, "touched_bytes": GIB, "error": None}
DISK = {"path": "/data", "write_bytes_per_s": 1_900_000_000, "read_bytes_per_s": 3_000_000_000, "error": None}


def probed(name: str, **data: object) -> Snapshot:
    return changed(no_gpu(), probes={name: Probe(name, "ok", data)})  # type: ignore[no-any-return]


TWINS = (
    Twin(
        "shared_memory_holds_what_it_promises",
        probed("shm", **{**SHM, "touched_bytes": 300 * MIB, "error": "Cannot allocate memory"}),
        probed("shm", **SHM),
        says="/dev/shm took 300 MiB of 1024: Cannot allocate memory",
        fix="--memory",
        domain="host",
        reported=("NVIDIA/nccl#290", "NVIDIA/nccl#342"),
    ),
    Twin(  # nothing was promised, so nothing is proven
        "shared_memory_holds_what_it_promises",
        probed("shm", **{**SHM, "wanted_bytes": 0, "touched_bytes": 0}),
        probed("shm", **SHM),
        says="nothing is free in /dev/shm",
        fix="what fills /dev/shm",
        domain="host",
        outcome="unknown",
    ),
    Twin(
        "work_disk_is_fast_enough",
        probed("disk", **{**DISK, "write_bytes_per_s": 45_000_000}),
        probed("disk", **DISK),
        says="/data is written at 45 MB/s",
        fix="NVMe",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "nvme_drives_are_live",
        changed(h100(), host__nvme__3=("nvme3", "dead")),
        h100(),
        says="nvme3 is dead",
        fix="Reboot",
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
        h100(),
        says="nvme0n1p2 has noted 12 errors",
        fix="e2fsck",
        domain="host",
        outcome="warn",
    ),
)
