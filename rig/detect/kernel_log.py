"""The kernel's log -> the lines that matter to training: Xid, SXid, PCIe, links, memory that ran out, tasks that hang.

Where it is read: `dmesg`, which asks the kernel (refused where kernel.dmesg_restrict is 1 and CAP_SYSLOG is missing, as
in nearly every container); else the journal; else the log files of rsyslog, cut to the running boot. /dev/kmsg gives
one record for each read(2) and is left to dmesg. /var/log/dmesg holds only what was said while the system started: an
Xid is never in it, so it would pass for a healthy log, and is not read. None: nothing could be read.

Sources: Documentation/ABI/testing/dev-kmsg, dmesg(1), journalctl(1); NVIDIA's Xid documentation for `NVRM: Xid`;
drivers/pci/pci.c (`available PCIe bandwidth`), drivers/pci/pcie/aer.c, mm/oom_kill.c, kernel/hung_task.c,
kernel/watchdog.c.
"""

import re

from rig.host import KernelEvent
from rig.lean import Callable, Iterable, Iterator
from rig.root import READ_LIMIT, Root
from rig.text import bus_id

TIMEOUT_S = 3.0
TAIL = str(READ_LIMIT - 4096)
DMESG = (("dmesg", "--kernel"), ("dmesg",))  # busybox's knows no options
DMESG_END = ("sh", "-c", f"dmesg | tail -c {TAIL}")
JOURNAL = ("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager", "--output=short-monotonic", "--lines=8000")
FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")
BURST_S = 5.0  # equal events that follow one another so closely are one
EACH_AT_MOST = 64  # of one kind of one device: the newest
TEXT_AT_MOST = 240

STAMP = re.compile(r"(?:<\d{1,4}>)?\[\s*(\d{1,12}\.\d{1,9})\]\s?(?:\[\s*[TC]\d+\]\s*)?(?:\S+ kernel: )?(.*)")
RECORD = re.compile(r"\d{1,4},\d{1,20},(\d{1,20}),[^;]*;(.*)")  # /dev/kmsg, microseconds
SYSLOG = re.compile(r"(?:\w{3}\s+\d+ [\d:]{8}|\d{4}-\d\d-\d\dT\S+) \S+ kernel: ?(?:\[\s*(\d{1,12}\.\d{1,9})\] ?)?(.*)")

BUS = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
XID = re.compile(r"NVRM: Xid \((?:PCI:)?" + BUS + r"[^)]*\): (\d{1,4})\b")
SXID = re.compile(r"SXid \((?:PCI:)?" + BUS + r"[^)]*\): (\d{1,6})\b")
LIMITED = re.compile(BUS + r":.*available PCIe bandwidth, limited by")
AER = re.compile(r"AER: |PCIe Bus Error: severity=")
AER_SOURCE = re.compile(r"(?:received:|received from|from) " + BUS)
AER_DEVICE = re.compile(r"^\S+ " + BUS + ":")
LINK = re.compile(r"(?:^|[ :])(?:NIC )?link (?:is )?down\b", re.IGNORECASE)
LINK_DEVICE = re.compile(r"^\S+ " + BUS + r"(?: ([\w.@-]{1,32}))?: ")
LINK_BOND = re.compile(r"\(slave ([\w.-]{1,32})\): link status definitely down")
CABLE = re.compile(r"^mlx5_core " + BUS + r"(?: ([\w.@-]{1,32}))?: Port module event: .*Cable unplugged")
KILLED = re.compile(r"Killed process \d+ \(([^)]{0,64})\)")
HUNG = re.compile(r"INFO: task (.{1,64}):\d+ (?:is )?blocked ")
LOCKUP = re.compile(r"soft lockup - CPU#\d+ stuck for \d+s! \[(.{1,64}):\d+\]")
NVRM = re.compile(r"RmInitAdapter failed|rm_init_adapter failed|PCI I/O region assigned|API mismatch|probe routine was")
NVRM_DEVICE = re.compile(r"NVRM: (?:GPU )?(?:at )?(?:PCI:)?" + BUS)
LOADED = "NVRM: loading NVIDIA UNIX"
RESET = re.compile(r"^\S+ " + BUS + ": reset done")
BOOTED = re.compile(r"^Linux version \d")
# One fast look that nearly every line of a log fails.
HINT = re.compile(
    r"Xid|NVRM|limited by|AER|Bus Error|link|Cable|Killed process|blocked|soft lockup|reset done|Linux version",
    re.IGNORECASE,
)


def split(entry: str, syslog: bool = False) -> tuple[float | None, str] | None:
    """(seconds since boot, message) of a line of dmesg, of /dev/kmsg or of the journal. Of a log file (`syslog`) only
    lines of the kernel count, None for others."""
    if syslog:
        found = SYSLOG.fullmatch(entry)
        return None if found is None else (float(found[1]) if found[1] else None, found[2])
    if (found := STAMP.fullmatch(entry)) is not None:
        return float(found[1]), found[2]
    if (found := RECORD.fullmatch(entry)) is not None:
        return int(found[1]) / 1e6, found[2]
    return None, entry


def _bus(text: str | None) -> str | None:
    return None if text is None else bus_id(text if "." in text else text + ".0")


def _nvidia(text: str) -> KernelEvent | None:
    for kind, pattern in (("xid", XID), ("sxid", SXID)):
        if (found := pattern.search(text)) is not None:
            return KernelEvent(kind, text, code=int(found[2]), bus_id=_bus(found[1]))
    if "NVRM:" not in text or NVRM.search(text) is None:
        return None
    device = NVRM_DEVICE.search(text)
    return KernelEvent("nvrm", text, bus_id=_bus(device[1]) if device else None)


def _pcie(text: str) -> KernelEvent | None:
    if (found := LIMITED.search(text)) is not None:
        return KernelEvent("pcie-limited", text, bus_id=_bus(found[1]))
    if AER.search(text) is None or "aer_status" in text:
        return None
    low = text.lower()
    if "uncorrect" not in low and "corrected" not in low:
        return None  # details of an error that another line tells, and the driver's start
    severity = "corrected" if "uncorrect" not in low else "nonfatal" if "non-fatal" in low else "fatal"
    device = AER_SOURCE.search(text) or AER_DEVICE.search(text)
    return KernelEvent("aer", text, bus_id=_bus(device[1]) if device else None, subject=severity)


def _network(text: str) -> KernelEvent | None:
    if (found := CABLE.search(text)) is not None:
        return KernelEvent("link-lost", text, bus_id=_bus(found[1]), subject=found[2])
    if (found := LINK_BOND.search(text)) is not None:
        return KernelEvent("link-lost", text, subject=found[1])
    if LINK.search(text) is None or (device := LINK_DEVICE.search(text)) is None:
        return None
    return KernelEvent("link-lost", text, bus_id=_bus(device[1]), subject=device[2])


def _system(text: str) -> KernelEvent | None:
    if (found := KILLED.search(text)) is not None:
        return KernelEvent("oom", text, subject=found[1])
    if (found := HUNG.search(text) or LOCKUP.search(text)) is not None:
        return KernelEvent("hung-task", text, subject=found[1])
    return None


READERS: tuple[Callable[[str], KernelEvent | None], ...] = (_nvidia, _pcie, _network, _system)


def event(text: str) -> KernelEvent | None:
    """What a message of the kernel tells; None for what does not matter here."""
    return next((found for reader in READERS if (found := reader(text)) is not None), None)


def _forget(kept: list[KernelEvent], text: str) -> list[KernelEvent]:
    """Without what is over since this message: a new boot ends everything, a new driver what GPUs and NVSwitches said,
    the reset of a GPU what it said."""
    if BOOTED.search(text) is not None:
        return []
    if LOADED in text:
        return [one for one in kept if one.kind not in ("xid", "sxid", "nvrm")]
    if (found := RESET.search(text)) is not None:
        bus = _bus(found[1])
        return [one for one in kept if one.bus_id != bus or one.kind not in ("xid", "nvrm")]
    return kept


def parse(text: str, syslog: bool = False) -> tuple[KernelEvent, ...]:
    """The events in a log, oldest first; `syslog` for a file of rsyslog."""
    kept: list[KernelEvent] = []
    for entry in text.splitlines():
        if HINT.search(entry) is None or (parts := split(entry, syslog)) is None:
            continue
        at_s, message = parts
        plain = "".join(letter if letter.isprintable() else "?" for letter in message.strip()[:TEXT_AT_MOST])
        kept = _forget(kept, plain)
        if (found := event(plain)) is not None:
            kept.append(found._replace(at_s=at_s))
    return tuple(thinned(kept))


def thinned(events: Iterable[KernelEvent]) -> Iterator[KernelEvent]:
    """The last event of each burst of equal ones, at most the newest EACH_AT_MOST of a kind and device."""
    series: dict[tuple[object, ...], list[tuple[int, KernelEvent]]] = {}
    latest: dict[tuple[object, ...], float | None] = {}
    for place, one in enumerate(events):
        key = (one.kind, one.code, one.bus_id, one.subject)
        known = key in series
        before = latest.get(key)
        near = (
            one.text == series[key][-1][1].text
            if known and (before is None or one.at_s is None)
            else known and before is not None and one.at_s is not None and 0 <= one.at_s - before <= BURST_S
        )
        latest[key] = one.at_s
        if near:  # the last of a burst stays: it tells when it ended, and the driver's last word on what to do
            series[key][-1] = (place, one)
        else:
            series.setdefault(key, []).append((place, one))
    return (one for _, one in sorted(pair for each in series.values() for pair in each[-EACH_AT_MOST:]))


def _from_kernel(root: Root) -> str | None:
    for argv in DMESG:
        told = root.start(argv, TIMEOUT_S).collect()
        if told.state == "hung" and len(told.output) >= READ_LIMIT // 2:  # more than a program may print
            return root.run(DMESG_END, TIMEOUT_S) or told.output
        if told.state == "ok" and told.output.strip():
            return told.output
    return None


def _of_file(root: Root, path: str) -> str | None:
    text = root.read(path)
    if text is None or len(text) < READ_LIMIT // 2:
        return text
    return root.run(("tail", "-c", TAIL, path), TIMEOUT_S) or text


def read_kernel_log(root: Root) -> tuple[KernelEvent, ...] | None:
    """What the kernel said since it booted, and of a GPU since its last reset where the log tells of it. None when the
    log cannot be read; gVisor's made-up log counts as none."""
    text = _from_kernel(root) or root.run(JOURNAL, TIMEOUT_S)
    if text and text.strip():
        return None if "Starting gVisor" in text else parse(text)
    for path in FILES:
        text = _of_file(root, path)
        if text and " kernel: " in text:
            return parse(text, syslog=True)
    return None
