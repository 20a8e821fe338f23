"""Drives and the file systems on them, as the kernel judges them."""

from checks import check, known, say
from checks.needs import HOST
from rig.finding import Finding
from rig.host import Host
from rig.lean import Iterator
from rig.snapshot import Snapshot


def _host(now: Snapshot) -> Host:
    return known(now.host, "the host")  # type: ignore[no-any-return]


@check(at="quick", needs=(HOST,), domain="host", fix="Reboot the host; if it comes back dead, have the drive replaced")
def nvme_drives_are_live(now: Snapshot) -> Iterator[Finding]:
    """Every NVMe controller that the kernel knows is in use.

    A controller that does not answer is given up by the kernel: state `dead` or `deleting`. Where no NVMe is seen
    there is nothing to say.

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
    at="quick", needs=(HOST,), domain="host", severity="warn", fix="On the host: e2fsck, unmounted; read smartctl -a"
)
def file_systems_have_no_errors(now: Snapshot) -> Iterator[Finding]:
    """No ext4 file system has noted an error.

    The superblock counts them, over reboots, until the file system is checked. Where there is no ext4 there is nothing
    to say.

    Symptom: a file system that turns read-only in the middle of a run.
    Source: /sys/fs/ext4/DEVICE/errors_count, Documentation/ABI/testing/sysfs-fs-ext4.
    """
    for device, count in _host(now).fs_errors or ():
        if count:
            yield say(f"the ext4 file system on {device} has noted {count} errors", device, 0, count)
