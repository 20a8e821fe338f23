"""A healthy system around the devices: storage, processes, clock, kernel."""

from rig.host import Mount, Raid, SshFile
from rig.image import Account
from rig.machine import UNLIMITED
from rig.snapshot import Snapshot

GIB = 1 << 30
WORK = Mount("/data", 7000 * GIB, 5000 * GIB, "xfs", False, True, 700_000_000, 690_000_000, False)
HOME = Mount("/root", 900 * GIB, 400 * GIB, "overlay", False, True, 60_000_000, 50_000_000, False)
SHM = Mount("/dev/shm", 64 * GIB, 64 * GIB, "tmpfs", False, True, 1_000_000, 999_999, True)
MOUNTS = (WORK, HOME, HOME._replace(path="/"), HOME._replace(path="/tmp"), SHM)
SSH = (
    SshFile("/root", "home", 0o700, 0),
    SshFile("/root/.ssh", "folder", 0o700, 0),
    SshFile("/root/.ssh/authorized_keys", "authorized", 0o600, 0),
    SshFile("/root/.ssh/id_ed25519", "key", 0o600, 0),
)


def with_healthy_system(now: Snapshot) -> Snapshot:
    host, machine = now.host, now.machine
    assert host is not None and now.image is not None
    guest = machine.surroundings.virtual is not None
    memory = 2048 * GIB if machine.gpus else 16 * GIB
    host = host._replace(
        stuck=(),
        mounts=MOUNTS,
        silent_mounts=(),
        nvme=tuple((f"nvme{index}", "live") for index in range(8)) if machine.gpus else None,
        raids=(Raid("md0", 0, 8),),
        fs_errors=(("nvme0n1p2", 0),),
        ssh_files=SSH,
        uptime_s=864000.0,
        clock_synced=True,
        clock_error_us=1500,
        edac_uncorrected=None if guest else 0,
        edac_corrected=None if guest else 0,
        governors=() if guest else ("performance",),
        governor_drivers=() if guest else ("acpi-cpufreq",),
        hugepages_bytes=0,
        memory_bytes=memory,
        memory_available_bytes=memory * 3 // 4,
        seccomp=0,
        stack_bytes=8 << 20,
        core_bytes=0,
        process_limit=UNLIMITED,
        cpuset=f"0-{(machine.cpu.online or 1) - 1}",
        shared_network=True,
        overcommit=0,
        mappings=65530,
        core_pattern="core",
    )
    limits = machine.limits
    if (limits.shm_bytes or 0) < GIB:  # as docker run --shm-size=8g makes it
        limits = limits._replace(shm_bytes=8 * GIB, shm_free_bytes=8 * GIB)
    said = tuple(finding for finding in now.plan.findings if finding.id != "SHM_TOO_SMALL")
    image = now.image
    if image.account.uid is None:
        image = image._replace(account=Account(0, "root", "/root", True, True))
    return now._replace(
        host=host,
        image=image,
        machine=machine._replace(limits=limits),
        plan=now.plan._replace(findings=said),
        environ={**now.environ, "HOME": "/root"},
    )
