"""How a process ended, in words and as the exit code that a shell would show. Pure."""

from rig.lean import NamedTuple

# What usually stands behind a signal that ends a training process. Sources: deepspeedai/DeepSpeed issues 4002 and 4218
# (SIGBUS: /dev/shm full), 1886 and 7556 (SIGILL: an op compiled for another CPU).
NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    15: "SIGTERM",
}
MEANINGS = {
    4: "an instruction that this CPU does not have: was an op compiled on another machine?",
    6: "it aborted itself: the reason is in its last lines (a collective timeout of NCCL ends so)",
    8: "a division by zero in native code",
    11: "a crash in native code",
    15: "someone asked it to stop and it did not catch that",
}


class Surrounds(NamedTuple):
    """What may explain a killed process: processes killed at the memory limit, and the size of /dev/shm in bytes."""

    oom_kills: int | None = None
    shm_bytes: int | None = None


def exit_code(status: int) -> int:
    """A wait status as `waitstatus_to_exitcode` gives it (-n: signal n), as a shell shows it: signals as 128+n."""
    return status if status >= 0 else 128 - status


def signal_name(number: int) -> str:
    return NAMES.get(number, f"signal {number}")


NOTHING_KNOWN = Surrounds()


def describe(status: int, surrounds: Surrounds = NOTHING_KNOWN) -> str:
    """One clause: what the status says and what is likely behind it."""
    if status == 0:
        return "ended with 0"
    if status > 0:
        return f"ended with exit code {status}"
    number = -status
    meaning = _likely(number, surrounds)
    return f"was ended by {signal_name(number)} (exit code {128 + number})" + (f": {meaning}" if meaning else "")


def _likely(number: int, surrounds: Surrounds) -> str:
    if number == 9:
        if surrounds.oom_kills:
            return f"the memory limit of this container was hit ({surrounds.oom_kills} killed); raise --memory"
        return "out of memory? See dmesg on the host; no kill at this container's own limit was counted"
    if number == 7:
        size = surrounds.shm_bytes
        have = f"/dev/shm has {size >> 20} MB" if size is not None else "is /dev/shm large enough?"
        return f"shared memory ran out? {have}; start with --ipc=host or --shm-size=16g"
    return MEANINGS.get(number, "")


def oom_kills(events: str | None) -> int | None:
    """`oom_kill` of a control group's memory.events (v2) or memory.oom_control (v1); None where it is not told."""
    for line in (events or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None
