"""What the kernel's log says of GPUs, NVSwitches and processes: Xids, each with its own remedy, and what was killed."""

from checks import check, known, say
from checks.driver import lent_to_guests
from checks.gpu_state import lost_gpus
from checks.health import health_of, name_of
from checks.needs import GPU_EXPECTED, HOST, KERNEL_LOG
from rig.finding import Finding
from rig.host import KernelEvent
from rig.lean import Iterator
from rig.snapshot import Snapshot
from rig.xid import COUNTED, ENDING, FELL_OFF, RECOVERY, REMEDIES, Xid, explain, recovery_of, says_fatal

EVIDENCE = "kernel log"
LOG = (GPU_EXPECTED, KERNEL_LOG)
HOUR_S, DAY_S = 3600, 86400


def _events(now: Snapshot, kind: str, within_s: float | None = None) -> list[KernelEvent]:
    """Events of a kind, oldest first; `within_s`: only as old as that, where their age is known."""
    log = known(now.host.kernel_log if now.host else None, "the kernel's log")
    uptime = now.host.uptime_s if now.host else None
    return [
        one
        for one in log
        if one.kind == kind
        and (within_s is None or uptime is None or one.at_s is None or uptime - one.at_s <= within_s)
    ]


def _named(now: Snapshot, bus: str | None) -> str:
    return next((name_of(gpu) for gpu in now.machine.gpus if gpu.bus_id == bus), f"the GPU at {bus}")


def _ours(now: Snapshot, bus: str | None) -> bool:
    """Whether a GPU that the log names is ours. One that fell off the bus is not listed any more; so another one counts
    too, unless this container or job was given only some of the host's GPUs and has all that it was promised."""
    here, around, promised = len(now.machine.gpus), now.machine.surroundings, now.expected.gpus
    if bus is None or any(gpu.bus_id == bus for gpu in now.machine.gpus):
        return True
    given = around.container is not None or bool(now.machine.gpus_denied)
    shared = given and around.gpus_on_bus is not None and around.gpus_on_bus > here
    return not shared or (promised is not None and promised > here)


def _over(now: Snapshot, event: KernelEvent, later: list[KernelEvent]) -> bool:
    """Whether a reset has ended it since: the driver asks for nothing of that GPU, now or `later` in the log, or a
    counter that a reset clears says that there was no error after it."""
    if event.code is None or explain(event.code, event.text).remedy not in ENDING:
        return False
    said = [recovery_of(one.text) for one in later if one.code == RECOVERY and one.bus_id == event.bus_id]
    if "none" in said:
        return True
    told = [health_of(now, gpu) for gpu in now.machine.gpus if gpu.bus_id == event.bus_id]
    counted = event.code in COUNTED
    return any(one.recovery_action == "none" or (counted and one.ecc_uncorrected_volatile == 0) for one in told)


def _xids(now: Snapshot, kind: str, within_s: float | None = None) -> list[tuple[str, Xid, list[KernelEvent]]]:
    """(bus id, what it means, its events) of each code of a kind on each of our GPUs."""
    series: dict[tuple[str, int], list[KernelEvent]] = {}
    events = _events(now, "xid", within_s)
    for place, event in enumerate(events):
        if event.code is None or explain(event.code, event.text).kind != kind:
            continue
        if _ours(now, event.bus_id) and not _over(now, event, events[place:]):
            series.setdefault((event.bus_id or "?", event.code), []).append(event)
    return [(bus, explain(code, events[-1].text), events) for (bus, code), events in series.items()]


def _fatal(now: Snapshot, *remedies: str) -> Iterator[Finding]:
    for bus, xid, events in _xids(now, "fatal"):
        if xid.remedy in remedies and not (xid.code == FELL_OFF and lost_gpus(now)):  # which another check tells
            times = f", {len(events)} times" if len(events) > 1 else ""
            text = f"{_named(now, bus)}: Xid {xid.code}{times}: {xid.meaning}"
            yield say(text, bus, got=events[-1].text, evidence=EVIDENCE)


@check(
    at="quick",
    needs=(GPU_EXPECTED, HOST),
    domain="user",
    severity="warn",
    fix="docker run --cap-add SYSLOG (as root in it; elsewhere kernel.dmesg_restrict=0), or run rig check on the host",
)
def kernel_log_can_be_read(now: Snapshot) -> Iterator[Finding]:
    """The kernel's log can be read, in which GPUs that failed are told first.

    A container without the capability SYSLOG is refused; what only the log tells (Xids, killed processes, links that
    went down) is then left out, and a GPU that needs a reset may look well.

    Symptom: `dmesg: read kernel buffer failed: Operation not permitted`.
    Source: syslog(2), Documentation/admin-guide/sysctl/kernel.rst (dmesg_restrict), docker's seccomp profile.
    """
    if now.host is not None and now.host.kernel_log is None:
        text = "the kernel's log cannot be read here: what it tells of GPUs is not judged"
        yield say(text, EVIDENCE, True, False)


@check(at="quick", needs=LOG, domain="host", fix=REMEDIES["reboot"])
def no_gpu_was_lost(now: Snapshot) -> Iterator[Finding]:
    """No GPU fell off the bus, or failed so that only a reboot brings it back.

    One that is away still is told by another check, and one of which the driver asks for nothing is back.

    Symptom: Xid 79; `Unable to determine the device handle for GPU: GPU is lost`, a job that hangs in all-reduce.
    Source: NVIDIA's Xid catalogue (79, 151, 167, 168); Azure/azurehpc-health-checks.
    """
    yield from _fatal(now, "reboot")


@check(at="quick", needs=LOG, domain="host", fix=REMEDIES["reset"])
def no_gpu_needs_a_reset(now: Snapshot) -> Iterator[Finding]:
    """No GPU had a fault since boot that only a reset ends.

    Only events after the last reset count, as far as the log (`reset done`, Xid 154) or NVML (recovery action,
    counters) tells of one.

    Symptom: Xid 48, 62, 95, 109, 119, 120 or 140; programs that hang in their first CUDA call.
    Source: NVIDIA's Xid catalogue (bucket RESET_GPU); leptonai/gpud.
    """
    yield from _fatal(now, "reset")


@check(at="quick", needs=LOG, domain="host", fix=REMEDIES["replace"])
def no_gpu_failed_to_repair_itself(now: Snapshot) -> Iterator[Finding]:
    """No GPU failed to take a bad page, row or channel of its memory out of use.

    Symptom: Xid 64, 157 or 161.
    Source: NVIDIA's Xid catalogue; NVIDIA, GPU Memory Error Management.
    """
    yield from _fatal(now, "replace")


@check(at="quick", needs=LOG, domain="host", fix=REMEDIES["power"])
def every_gpu_has_its_power_cable(now: Snapshot) -> Iterator[Finding]:
    """No GPU misses its auxiliary power.

    Symptom: Xid 54; a card that stays at its lowest clocks.
    Source: NVIDIA's Xid catalogue (54).
    """
    yield from _fatal(now, "power")


@check(at="quick", needs=LOG, domain="host", fix=REMEDIES["nvlink"])
def no_nvlink_failed(now: Snapshot) -> Iterator[Finding]:
    """No GPU reported a fatal error of an NVLink.

    Blackwell's codes 144 to 150 tell in their text whether they are fatal; others do no harm.

    Symptom: Xid 74; all-reduce inside the node hangs or is far too slow.
    Source: NVIDIA's Xid catalogue (74, 136, 144-150).
    """
    yield from _fatal(now, "nvlink")


@check(
    at="quick",
    needs=LOG,
    domain="host",
    fix="Stop all jobs, restart nvidia-fabricmanager on the host, or reboot; return the machine if it comes again",
)
def no_nvswitch_failed(now: Snapshot) -> Iterator[Finding]:
    """No NVSwitch reported a fatal error (SXid).

    Non-fatal ones are corrected by the switch itself and mean nothing for a job.

    Symptom: collectives over NVLink hang, CUDA error 802 after the job died.
    Source: NVIDIA, Fabric Manager user guide (SXid errors); leptonai/gpud.
    """
    last: dict[tuple[str, int | None], KernelEvent] = {}
    for event in _events(now, "sxid"):
        if says_fatal(event.text):
            last[event.bus_id or "?", event.code] = event
    for (bus, code), event in last.items():
        text = f"the NVSwitch at {bus}: SXid {code}, a fatal error"
        yield say(text, bus, got=event.text, evidence=EVIDENCE)


@check(at="quick", needs=LOG, domain="host", fix="Do what the line says, then look again; return the machine otherwise")
def kernel_log_asks_for_no_recovery(now: Snapshot) -> Iterator[Finding]:
    """The last word of the driver on what a GPU needs (Xid 154) is none.

    Where NVML tells the action too, NVML is believed: it knows what was done since.

    Symptom: `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`.
    Source: NVIDIA's Xid catalogue (154); NVIDIA/DCGM#263.
    """
    last = {event.bus_id: event for event in _events(now, "xid") if event.code == RECOVERY}
    settled = {gpu.bus_id for gpu in now.machine.gpus if health_of(now, gpu).recovery_action is not None}
    for bus, event in last.items():
        action = recovery_of(event.text)
        if bus not in settled and action not in ("none", None) and _ours(now, bus):
            text = f"{_named(now, bus)}: the driver asks for: {action}"
            yield say(text, bus or "", "none", action, fix=REMEDIES.get(action or "", ""), evidence=EVIDENCE)


@check(at="quick", needs=LOG, domain="user", severity="warn", fix=REMEDIES["job"])
def no_job_faulted_just_now(now: Snapshot) -> Iterator[Finding]:
    """No job on these GPUs faulted by its own doing in the last hour.

    Xid 13, 31, 43, 45 and 94 are told when a program reads what is not its own or is ended. They say nothing about the
    machine, however many there are, and never fail it.

    Symptom: `CUDA error: an illegal memory access was encountered`; healthy nodes taken out of service.
    Source: NVIDIA's Xid catalogue (RESTART_APP); NVIDIA/NVSentinel#1710, NVIDIA/gpu-operator#1065,
    NVIDIA/k8s-device-plugin#945.
    """
    mine = {gpu.bus_id for gpu in now.machine.gpus}
    for bus, xid, events in _xids(now, "app", HOUR_S):
        if bus in mine:
            text = f"{_named(now, bus)}: Xid {xid.code}: {xid.meaning}"
            yield say(text, bus, got=events[-1].text, evidence=EVIDENCE)


@check(at="quick", needs=LOG, domain="host", severity="warn", fix=REMEDIES["report"])
def every_xid_is_known(now: Snapshot) -> Iterator[Finding]:
    """No GPU told of a fault (Xid) that our table does not know.

    Symptom: a code of a newer driver in the kernel's log.
    Source: NVIDIA's Xid catalogue.
    """
    for bus, xid, events in _xids(now, "unknown"):
        text = f"{_named(now, bus)}: Xid {xid.code}: {xid.meaning}"
        yield say(text, bus, got=events[-1].text, evidence=EVIDENCE)


@check(
    at="quick", needs=LOG, domain="host", fix="Reboot the host, power off and on; return the machine if it comes again"
)
def driver_started_every_gpu(now: Snapshot) -> Iterator[Finding]:
    """The driver could start every GPU that it found.

    Where vfio-pci has taken some for guests, the driver tells that it was not asked for them: that is no fault.

    Symptom: `RmInitAdapter failed`; a GPU in lspci that nvidia-smi does not list, `No devices were found`.
    Source: messages of the NVIDIA kernel module (NVRM).
    """
    last: dict[str, KernelEvent] = {}
    for event in _events(now, "nvrm"):
        # A mismatch is that of one program with other libraries: the family driver asks for that.
        excused = "API mismatch" in event.text or ("probe routine was" in event.text and lent_to_guests(now))
        if not excused and _ours(now, event.bus_id):
            last[event.bus_id or "?"] = event
    for bus, event in last.items():
        what = "a GPU" if bus == "?" else _named(now, bus)
        yield say(f"the driver could not start {what}: {event.text}", bus, evidence=EVIDENCE)


@check(
    at="quick",
    needs=(KERNEL_LOG,),
    domain="user",
    severity="warn",
    fix="Give the container more memory (docker run --memory), or use less: fewer loader workers, no offload",
)
def no_process_ran_out_of_memory(now: Snapshot) -> Iterator[Finding]:
    """The kernel killed no process for memory in the last day.

    A rank that is killed leaves the others waiting in a collective until NCCL's timeout, and says nothing itself.

    Symptom: exit code 137 or signal 9 without a message.
    Source: mm/oom_kill.c.
    """
    killed: dict[str, list[KernelEvent]] = {}
    for event in _events(now, "oom", DAY_S):
        killed.setdefault(event.subject or "?", []).append(event)
    for process, events in killed.items():
        whose = "of its container" if "cgroup" in events[-1].text else "of the host"
        text = f"the kernel killed {process} {len(events)} times: the memory {whose} was used up"
        yield say(text, process, 0, len(events), evidence=EVIDENCE)


@check(
    at="quick",
    needs=(KERNEL_LOG,),
    domain="host",
    severity="warn",
    fix="Read the lines before it in the kernel's log: a disk, a network file system or the GPU driver did not answer",
)
def no_task_hung(now: Snapshot) -> Iterator[Finding]:
    """The kernel saw no task that made no progress for minutes in the last day.

    Symptom: `INFO: task python:1234 blocked for more than 120 seconds`; nvidia-smi that never returns.
    Source: kernel/hung_task.c, kernel/watchdog.c.
    """
    last = {event.subject or "?": event for event in _events(now, "hung-task", DAY_S)}
    for task, event in last.items():
        yield say(f"{task} hung: {event.text}", task, evidence=EVIDENCE)
