"""Whether the programs that measure come to their end: what hangs or crashes in them does so in a training too."""

from checks import CannotTell, check, say
from checks.measured import last_words, users_own
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Probe, Snapshot

STUCK_S = 5.0  # own rule: once cuInit has answered, the first use of one GPU takes less than a second
OF_THE_IMAGE = frozenset(("stack_import", "deepspeed_ops", "deepspeed_build", "zero3_step"))
REBOOT = "ask the host to look at this machine, or return it; what hangs in the driver ends with a reboot only"
LONGER = "rig check --level deep waits longer"
SLOWLY = f"{LONGER}; if a GPU is only slow to start, on the host: systemctl enable --now nvidia-persistenced"


@check(
    at="quick",
    domain="host",
    fix="ask the host what its kernel log (dmesg, Xid) says of this time, or return it",
)
def every_probe_answers(now: Snapshot) -> Iterator[Finding]:
    """Every program that measures comes to its end, without a crash.

    One that hangs shows what a training would do: wait without a word. Each names the GPU or the pair before it asks,
    so the finding names it too. "Unresponsive" is all that is known: a blocked call is not always the driver's fault.
    One that still ran when the level's time was over may be slow or may hang; a GPU that does not answer for five
    seconds after cuInit did hangs. One that ended with an error while PYTHONPATH or PYTHONHOME is set, or in a file of
    the user's own, met that first. What they measured is judged by others, which cannot tell where this speaks.

    Symptom: nvidia-smi, or the first CUDA call of a training, never returns; a signal ends it.
    Source: NVIDIA/NVSentinel#1576, leptonai/gpud PR#117, NVIDIA/gpu-monitoring-tools#46.
    """
    probes = [probe for _, probe in sorted(now.probes.items())]
    started = [probe for probe in probes if probe.state in ("ok", "failed", "unresponsive")]
    cut = [probe for probe in probes if probe.cut]
    if not started and not cut:
        raise CannotTell("no probe ran")
    for probe in started:
        if probe.state == "unresponsive":
            asking = probe.asking
            text = f"{probe.name} is unresponsive" + (f": it was at {asking} and never came back" if asking else "")
            yield say(text, asking or probe.name, fix=REBOOT, evidence=probe.error)
        elif probe.state == "failed":
            yield _crashed(now, probe)
    for probe in cut:
        yield _late(probe)


def _crashed(now: Snapshot, probe: Probe) -> Finding:
    """Of a program that ended with an error: whose it is."""
    text, subject = f"{probe.name} crashed: {last_words(probe)}", probe.asking or probe.name
    at_gpus = probe.error.startswith("ended by signal") and probe.name not in OF_THE_IMAGE
    theirs = users_own(now, probe.error, by_variable=not at_gpus)
    if theirs:
        return say(text, subject, got=theirs.what, fix=theirs.fix, domain="user")
    if probe.name in OF_THE_IMAGE:
        return say(text, subject, fix="python -c 'import torch, deepspeed' shows it; rebuild the image", domain="image")
    return say(text, subject)


def _late(probe: Probe) -> Finding:
    """Of a program that was ended because the time of all was over."""
    asking = probe.asking or "its work"
    waited = _waited(probe)
    if waited is not None and waited > STUCK_S:
        text = f"{probe.name} is unresponsive: {asking} gave no answer for {waited:.0f} s, though cuInit had"
        return say(text, asking, fix=REBOOT, evidence=probe.error)
    text = f"{probe.name} was still at {asking} when the level's time was over, after {probe.seconds or 0:.0f} s"
    fix = SLOWLY if probe.name == "gpu_init" else LONGER
    return say(text, asking, fix=fix, outcome="unknown", evidence=probe.error)


def _waited(probe: Probe) -> float | None:
    """Seconds that gpu_init had spent on one GPU; None where it was not at one."""
    driver, rows = probe.data.get("driver"), probe.data.get("gpus") or ()
    if probe.name != "gpu_init" or probe.seconds is None or not driver or probe.asking is None:
        return None
    return float(probe.seconds - sum(row.get("seconds") or 0.0 for row in (driver, *rows)))
