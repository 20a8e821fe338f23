"""NVIDIA's Xid codes: what each means, who is at fault and what to do. Pure data.

Sources: NVIDIA, "Xid Errors" (catalogue for Ampere and newer, and the one for older GPUs); "GPU Debug Guidelines";
nverror.h of the open kernel modules for names. NVIDIA's own resolution buckets (restart the application, reset the GPU,
restart the machine, contact support) are followed; where an Xid says only that an earlier one had consequences it is
information. Applications alone cause 13, 31, 43, 45 and 94: they never condemn a machine (NVIDIA/NVSentinel#1710,
NVIDIA/gpu-operator#1065, NVIDIA/k8s-device-plugin#945).
"""

from rig.lean import NamedTuple

RESET = "Stop all jobs, then on the host: nvidia-smi --gpu-reset -i GPU"
REMEDIES = {
    "none": "nothing",
    "job": "Debug the job: CUDA_LAUNCH_BLOCKING=1, then compute-sanitizer; the GPU is not at fault",
    "reset": f"{RESET}; return the machine if it comes again",
    "reboot": "Reboot the host, power off and on if the GPU stays away; return the machine if it comes again",
    "power": "Have the power cables of the GPU seated, or the power supply replaced",
    "nvlink": "Stop all jobs, reset all GPUs (nvidia-smi --gpu-reset); have the board reseated if it comes again",
    "replace": "Have the GPU replaced, or return the machine; a reset does not mend it",
    "watch": "Nothing now; look again after the next jobs",
    "report": "Look the code up in NVIDIA's Xid catalogue; nvidia-bug-report.sh collects what NVIDIA asks for",
    "drain": "Let the jobs on this GPU's NVLink domain end; start none until the driver says none",
    "drain-and-reset": "Let the jobs on this GPU's NVLink domain end, then: nvidia-smi --gpu-reset -i GPU",
    "recover-imex-domain": "Let the jobs on this NVLink domain end, restart nvidia-imex on its nodes",
}


class Xid(NamedTuple):
    """One code. `kind`: fatal (the GPU must not be used before the remedy), app (the job's own fault), info (tells of
    something that needs nothing, or of what another code has told), unknown. `remedy` is a key of REMEDIES."""

    code: int
    meaning: str
    kind: str
    remedy: str


FATAL = {
    46: ("the GPU stopped processing", "reset"),
    48: ("an uncorrectable (double bit) ECC error", "reset"),
    54: ("auxiliary power is not connected", "power"),
    61: ("breakpoint of an internal micro-controller", "reset"),
    62: ("an internal micro-controller halted", "reset"),
    64: ("a bad page or row could not be recorded for retirement", "replace"),
    74: ("an NVLink failed", "nvlink"),
    79: ("the GPU has fallen off the bus", "reboot"),
    95: ("an uncontained ECC error: other jobs may be harmed too", "reset"),
    109: ("a context switch did not end in time", "reset"),
    110: ("a security fault", "reset"),
    119: ("the GPU's own processor (GSP) did not answer", "reset"),
    120: ("the GPU's own processor (GSP) failed", "reset"),
    136: ("an NVLink could not be trained", "nvlink"),
    140: ("an ECC error was not recovered", "reset"),
    143: ("the GPU could not be initialised", "reset"),
    151: ("the rotation of a memory encryption key failed", "reboot"),
    157: ("a bad resource could not be retired", "replace"),
    158: ("a fatal timeout of the GPU", "reset"),
    161: ("a bad memory channel could not be retired", "replace"),
    167: ("a fatal timeout on PCIe", "reboot"),
    168: ("errors in the protected memory of the GPU's firmware", "reboot"),
    169: ("an internal micro-controller halted", "reset"),
    171: ("an uncorrectable error of the GPU's memory", "reset"),
    172: ("an uncorrectable error of the GPU's on-chip memory", "reset"),
}
APP = {
    8: "the GPU stopped processing a channel",
    13: "a kernel of the job faulted (illegal instruction or address)",
    31: "a kernel of the job touched memory that is not its own (page fault)",
    32: "the job sent a corrupt command stream",
    43: "the job's channel was stopped after its own fault",
    45: "the job was ended while the GPU still worked for it",
    68: "the video decoder faulted",
    69: "the job sent a command that this kind of GPU does not know",
    94: "an ECC error that was contained: only the job that read it had to end",
    137: "a GPU was asked over NVLink for memory that it did not export",
}
INFO = {
    63: ("a bad page or row is recorded for retirement", "watch"),
    92: ("many single bit errors were corrected", "watch"),
    93: ("the store of the GPU's settings is worn", "watch"),
    121: ("an error of the link to the CPU (C2C)", "watch"),
    125: ("the InfoROM could not be read", "watch"),
    154: ("what the driver asks to be done has changed", "none"),
    156: ("a bad resource was retired", "watch"),
    160: ("a bad memory channel was retired", "watch"),
    162: ("power smoothing works again", "none"),
    163: ("power smoothing is off", "watch"),
    164: ("power smoothing is near the end of its life", "watch"),
    165: ("power smoothing is at the end of its life", "watch"),
}
# Blackwell's NVLink errors come in units; each line says itself whether it is fatal.
NVLINK_UNITS = {
    144: "SAW", 145: "RLW", 146: "TLW", 147: "TREX", 148: "NVLPW_CTRL", 149: "NETIR", 150: "MSE", 155: "software",
}  # fmt: skip
# Remedies that end what was wrong: once the driver asks for nothing more, it is over.
ENDING = frozenset(("reset", "reboot", "nvlink"))
# Told anew by a counter that a reset clears: these are over once NVML counts no uncorrected error since then.
COUNTED = frozenset((48, 95, 140, 171, 172))
FELL_OFF, RECOVERY = 79, 154
# nvmlDeviceGpuRecoveryAction_t: none, GPU reset, node reboot, drain P2P, drain and reset, IMEX domain, bus reset,
# system reboot. All are keys of REMEDIES.
ACTIONS = ("none", "reset", "reboot", "drain", "drain-and-reset", "recover-imex-domain", "reset", "reboot")


def says_fatal(text: str) -> bool | None:
    """Whether a line calls itself fatal (`Fatal`, `Link Fatal`) or not (`Non-fatal`, `Nonfatal`); None: neither."""
    low = text.lower()
    if "nonfatal" in low or "non-fatal" in low or "non fatal" in low:
        return False
    return True if "fatal" in low else None


def explain(code: int, text: str = "") -> Xid:
    """What an Xid means. `text` is the line of the kernel's log: some codes tell there how bad it is."""
    if code in FATAL:
        meaning, remedy = FATAL[code]
        return Xid(code, meaning, "fatal", remedy)
    if code in APP:
        return Xid(code, APP[code], "app", "job")
    if code in NVLINK_UNITS:
        meaning = f"an NVLink error in unit {NVLINK_UNITS[code]}"
        return Xid(code, meaning, "fatal", "nvlink") if says_fatal(text) else Xid(code, meaning, "info", "watch")
    if code in INFO:
        meaning, remedy = INFO[code]
        return Xid(code, meaning, "info", remedy)
    return Xid(code, "a code that is not in our table", "unknown", "report")


def action_of(number: int) -> str:
    """A number of nvmlDeviceGpuRecoveryAction_t as a word of ACTIONS; one of a newer driver as `action N`."""
    return ACTIONS[number] if number < len(ACTIONS) else f"action {number}"


def recovery_of(text: str) -> str | None:
    """The action that a line of Xid 154 ends with: `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot
    Required)` is reboot. None when it is no such line."""
    _, to, action = text.lower().rpartition(" to 0x")
    number = action.partition(" ")[0]
    if not to or not 0 < len(number) < 9 or number.strip("0123456789abcdef"):
        return None
    return action_of(int(number, 16))
