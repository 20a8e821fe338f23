"""Drives and file systems, as the kernel judges them and as they were measured."""

from checks import CannotTell, check, known, say
from checks.measured import told
from checks.needs import EXT4, HOST, NVME
from rig.finding import Finding
from rig.host import Host
from rig.lean import Iterator
from rig.snapshot import Snapshot

MIB = 1 << 20
DISK_LEAST = 200_000_000  # bytes a second


def _host(now: Snapshot) -> Host:
    return known(now.host, "the host")  # type: ignore[no-any-return]


@check(
    at="quick", needs=(HOST, NVME), domain="host", fix="Reboot the host; if it comes back dead, have the drive replaced"
)
def nvme_drives_are_live(now: Snapshot) -> Iterator[Finding]:
    """Every NVMe controller that the kernel knows is in use.

    A controller that does not answer is given up by the kernel: state `dead` or `deleting`.

    Symptom: input/output errors; scratch space that is gone.
    Source: /sys/class/nvme/nvmeN/state, drivers/nvme/host/core.c.
    """
    for name, state in _host(now).nvme or ():
        if known(state, f"the state of {name}") in ("dead", "deleting", "deleting (no IO)"):
            yield say(f"{name} is {state}", name, "live", state)


@check(
    at="quick", needs=(HOST,), domain="host", severity="warn", fix="On the host: cat /proc/mdstat; replace the drive"
)
def raids_are_whole(now: Snapshot) -> Iterator[Finding]:
    """No software RAID misses a drive.

    Symptom: half the rate of reading, and the next fault loses everything.
    Source: /sys/block/mdN/md/degraded, Documentation/admin-guide/md.rst.
    """
    for raid in known(_host(now).raids, "the block devices"):
        if raid.missing:
            of = f" of {raid.drives}" if raid.drives else ""
            yield say(f"{raid.name} misses {raid.missing}{of} drives", raid.name, 0, raid.missing)


@check(
    at="quick",
    needs=(HOST, EXT4),
    domain="host",
    severity="warn",
    fix="On the host: e2fsck, unmounted; read smartctl -a",
)
def file_systems_have_no_errors(now: Snapshot) -> Iterator[Finding]:
    """No ext4 file system has noted an error.

    The superblock counts them, over reboots, until the file system is checked.

    Symptom: a file system that turns read-only in the middle of a run.
    Source: /sys/fs/ext4/DEVICE/errors_count, Documentation/ABI/testing/sysfs-fs-ext4.
    """
    for device, count in _host(now).fs_errors or ():
        if count:
            yield say(f"the ext4 file system on {device} has noted {count} errors", device, 0, count)


@check(
    at="quick",
    domain="host",
    fix="docker run with more --memory (a tmpfs counts against it), or delete what fills /dev/shm",
    probe="shm",
)
def shared_memory_holds_what_it_promises(now: Snapshot) -> Iterator[Finding]:
    """What /dev/shm calls free can be written: 1 GiB of it was tried.

    Its size is a promise: the pages come from the container's memory limit when they are touched, and may not be there.

    Symptom: a bus error in NCCL or a DataLoader though `df /dev/shm` shows room.
    Source: a file of up to 1 GiB, written and given back; NVIDIA/nccl#290, NVIDIA/nccl#342.
    """
    data = told(now, "shm")
    wanted, touched = data.get("wanted_bytes"), data.get("touched_bytes")
    if wanted == 0:
        yield say("nothing is free in /dev/shm, so nothing was tried", "/dev/shm", outcome="unknown")
        return
    if data.get("error") or known(touched, "what was written") < known(wanted, "what was tried"):
        text = (
            f"/dev/shm took {(touched or 0) / MIB:.0f} MiB of {(wanted or 0) / MIB:.0f}: {data.get('error') or 'full'}"
        )
        yield say(text, "/dev/shm", wanted, touched)


@check(
    at="full",
    domain="platform",
    severity="warn",
    fix="Put checkpoints and data on a local NVMe drive (docker run -v); on a rented machine ask for another disk",
    probe="disk",
)
def work_disk_is_fast_enough(now: Snapshot) -> Iterator[Finding]:
    """The work folder is written and read at 200 MB/s or more.

    A checkpoint of a 7 B model with its optimizer is about 100 GB: at 200 MB/s eight minutes, in which all GPUs wait.
    A local NVMe drive writes 1 GB/s and more.

    Symptom: every save stops training for minutes; the data loader starves the GPUs.
    Source: 256 MiB, written with fsync and read back past the page cache. The threshold is an own one.
    """
    data = told(now, "disk")
    if data.get("error"):
        raise CannotTell(f"the disk: {data['error']}")
    for key, verb in (("write_bytes_per_s", "written"), ("read_bytes_per_s", "read")):
        rate = known(data.get(key), f"how fast the disk is {verb}")
        if rate < DISK_LEAST:
            text = f"{data.get('path')} is {verb} at {rate / 1e6:.0f} MB/s"
            yield say(text, str(data.get("path")), DISK_LEAST, rate)
