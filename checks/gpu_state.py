"""In which state the GPUs were left: on the bus, of one kind, whole, open to every process, idle, infoROM valid."""

from checks import check, known, say, silent
from checks.driver import LOST, code_of, reasons
from checks.health import each, has_hbm, health_of, name_of, subject_of
from checks.needs import BAD_GPUS, GPU, GPUS, HOST, NVML, bad_gpus
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot

MEMORY_SHARE = 0.02  # boards of one model differ by less, also in what ECC and retired pages take
# Own bound: a display or a monitoring agent takes some hundred MB; facebookresearch/gcm takes 15 MiB for busy already.
BUSY_BYTES = 1 << 30
UUID_PARTS = (3, 8, 4, 4, 4, 12)  # letters between the dashes of GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
SLICE = "name one slice of `nvidia-smi -L` in CUDA_VISIBLE_DEVICES (MIG-...), or ask for GPUs that are not cut"
MODES = {
    "exclusive": ("warn", "one process at a time may use it"),
    "prohibited": ("fail", "no process may use it: CUDA error 46"),
}


@check(
    at="quick",
    needs=(GPU, HOST),
    domain="host",
    fix="power cycle the host; when it happens again, replace the GPU or return the machine",
)
def no_gpu_fell_off_the_bus(now: Snapshot) -> Iterator[Finding]:
    """Every GPU still answers on the PCI bus.

    One that lost power or its link reads as ones only, while sysfs shows what it read at boot. The driver says that it
    is lost. Only switching its power off and on brings it back, if at all.

    Symptom: `GPU has fallen off the bus`, Xid 79; lspci shows (rev ff); nvidia-smi ends with 15.
    Source: first bytes of /sys/bus/pci/devices/*/config; nvml.h, NVML_ERROR_GPU_IS_LOST.
    """
    lost = lost_gpus(now)
    if not lost:
        known(now.host.off_bus if now.host else None, "the GPUs' PCI configuration")
    for text, subject in lost:
        yield say(text, subject)


def lost_gpus(now: Snapshot) -> list[tuple[str, str]]:
    """(what to say, of what) for each GPU that left the bus: the driver's word, else what the PCI configuration shows.
    Empty where neither is known."""
    told = [reason for reason in reasons(now) if code_of(reason) == LOST]
    if told:
        return [(f"a GPU is lost: {reason}", reason.partition(":")[0]) for reason in told]
    gone = (now.host.off_bus if now.host else None) or ()
    return [
        (f"{name_of(gpu)} fell off the bus: its PCI configuration reads as ones", subject_of(gpu))
        for gpu in now.machine.gpus
        if gpu.bus_id in gone
    ]


@check(
    at="quick",
    needs=(GPUS,),
    domain="platform",
    severity="warn",
    fix="ask for a machine of one kind, or hide the odd ones with CUDA_VISIBLE_DEVICES",
)
def gpus_are_of_one_kind(now: Snapshot) -> Iterator[Finding]:
    """All GPUs are of one model and have the same memory.

    Data-parallel training waits for the slowest GPU, and must fit into the smallest. Some rented machines were put
    together from what was there.

    Symptom: all ranks as slow as one; one rank out of memory.
    Source: /proc/driver/nvidia/gpus/*/information; nvmlDeviceGetMemoryInfo.
    """
    gpus = now.machine.gpus
    models = [known(gpu.model, f"the model of {name_of(gpu)}") for gpu in gpus]
    usual = max(sorted(set(models)), key=models.count)
    odd = [gpu for gpu in gpus if gpu.model != usual]
    for gpu in odd:
        yield say(f"{name_of(gpu)} is {gpu.model}, the others are {usual}", subject_of(gpu), usual, gpu.model)
    sizes = {gpu: gpu.memory_bytes for gpu in gpus if gpu not in odd and gpu.memory_bytes}
    if sizes:
        yield from silent([(name_of(gpu), gpu.memory_bytes) for gpu in gpus], "its memory")
    largest = max(sizes.values(), default=0)
    for gpu, size in sizes.items():
        if size < largest * (1 - MEMORY_SHARE):
            text = f"{name_of(gpu)} has {size / 1e9:.0f} GB of memory, others {largest / 1e9:.0f} GB"
            yield say(text, subject_of(gpu), largest, size)


@check(
    at="quick",
    needs=(GPU,),
    domain="host",
    fix="on the host: nvidia-smi -i N -mig 0 (end what runs on it first), or name MIG devices in CUDA_VISIBLE_DEVICES",
)
def gpus_are_not_cut_by_mig(now: Snapshot) -> Iterator[Finding]:
    """MIG is off, unless a slice was asked for by name.

    MIG cuts a GPU into slices; CUDA shows one slice to a process, and NCCL joins no two slices of one GPU. With MIG on
    and no slice made, CUDA finds no device. A container may have been given its slice by place (`device=0:1`), by a
    file or by CDI (`void`): that counts as asked for. To whom the other slices belong is not known in one.

    Symptom: a seventh of the memory; `No CUDA GPUs are available`; NCCL: duplicate GPU detected.
    Source: nvmlDeviceGetMigMode; NVIDIA MIG user guide, application considerations.
    """
    asked = (now.environ.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"))
    if not all(_names_whole_gpus(word.strip()) for value in asked for word in value.split(",")):
        return
    fix = SLICE if now.machine.surroundings.container is not None else ""
    for gpu in now.machine.gpus:
        if gpu.mig:
            text = f"{name_of(gpu)}: MIG is on, and no slice was asked for"
            yield say(text, subject_of(gpu), False, True, fix, domain="user" if fix else "")
    if all(gpu.mig is None for gpu in now.machine.gpus) and any(map(has_hbm, now.machine.gpus)):
        known(None, "the MIG mode")


def _names_whole_gpus(word: str) -> bool:
    """Whether a word of NVIDIA_VISIBLE_DEVICES names all GPUs or a whole one: `all`, `0`, `GPU-...`, and none at all.
    Others are slices (`MIG-...`, `0:1`), or leave it to the runtime (`void` and `none` of CDI, a file)."""
    return word in ("", "all") or word.isdecimal() or word.startswith("GPU-")


@check(
    at="quick",
    needs=(GPU, NVML),
    domain="host",
    fix="on the host: nvidia-smi -c DEFAULT",
)
def compute_mode_is_default(now: Snapshot) -> Iterator[Finding]:
    """Any number of processes may use each GPU.

    In the exclusive mode a second process on a GPU fails: an evaluation beside training, a rank that looks at all GPUs
    first. One rank a GPU works, so that is a warning. Prohibited is for cards that only drive a display.

    Symptom: CUDA error 46, `all CUDA-capable devices are busy or unavailable`.
    Source: nvmlDeviceGetComputeMode.
    """
    for one in each(now, "compute_mode", "the compute mode", lambda gpu: True, lambda mode: mode != "default"):
        if isinstance(one, Finding):
            yield one
        else:
            gpu, mode = one
            outcome, means = MODES[mode]
            yield say(
                f"{name_of(gpu)}: compute mode {mode}: {means}", subject_of(gpu), "default", mode, outcome=outcome
            )


@check(
    at="quick",
    needs=(GPU, NVML),
    domain="user",
    severity="warn",
    fix="end the processes that are named, if they are yours; nothing is ended for you",
)
def gpus_are_idle(now: Snapshot) -> Iterator[Finding]:
    """Nobody else holds memory of the GPUs.

    It was looked at before anything was measured. Processes and memory count, not clocks or heat: right after a burn a
    GPU still looks busy by those. In a container the processes of others are not visible, their memory is.

    Symptom: out of memory at the start; ranks of a job that was stopped still hold everything.
    Source: nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetMemoryInfo_v2; NVIDIA/DCGM#272.
    """
    for gpu in now.machine.gpus:
        health = health_of(now, gpu)
        if health.processes is None and health.memory_used_bytes is None:
            known(None, f"what holds memory of {name_of(gpu)}")
        if health.processes:
            named = ", ".join(f"pid {pid} ({used / 1e9:.1f} GB)" for pid, used in health.processes[:4])
            more = f" and {len(health.processes) - 4} more" if len(health.processes) > 4 else ""
            yield say(f"{name_of(gpu)} is in use by {named}{more}", subject_of(gpu), 0, len(health.processes))
        elif (health.memory_used_bytes or 0) > BUSY_BYTES:
            used = health.memory_used_bytes or 0
            text = f"{name_of(gpu)}: {used / 1e9:.1f} GB are in use by processes that are not visible here"
            yield say(text, subject_of(gpu), 0, used, "ask the host who uses this GPU", domain="host")


@check(
    at="quick",
    needs=(GPU, NVML),
    domain="host",
    severity="warn",
    fix="have the board replaced: its own record of faults can no longer be trusted",
)
def inforom_is_valid(now: Snapshot) -> Iterator[Finding]:
    """The board's own memory of its faults has the right checksums.

    The infoROM keeps counts of ECC errors, remapped rows and the serial number. When it is corrupted these can no
    longer be read or kept. Consumer cards have none that could be asked.

    Symptom: nvidia-smi warns that infoROM is corrupted, and ends with 14.
    Source: nvmlDeviceValidateInforom.
    """
    for one in each(now, "inforom_valid", "the state of the infoROM", has_hbm, lambda valid: not valid):
        if isinstance(one, Finding):
            yield one
        else:
            yield say(f"{name_of(one[0])}: the infoROM is corrupted", subject_of(one[0]), True, False)


@check(
    at="quick",
    needs=(GPU, BAD_GPUS),
    domain="platform",
    fix="return the machine at once, and ask for another one",
)
def no_gpu_is_known_to_be_bad(now: Snapshot) -> Iterator[Finding]:
    """No GPU is on the list of those that failed before.

    A rented machine that was returned as broken is often rented out again. A GPU's UUID stays with it for life; who
    keeps those of bad ones knows them at once. A beginning counts as well, from its first eight digits on.

    Symptom: the same errors as last week, on a machine that is said to be another.
    Source: RIG_BAD_GPUS against /proc/driver/nvidia/gpus/*/information; stas00/ml-engineering advises it.
    """
    bad = [word for word in map(str.lower, bad_gpus(now)) if _parts(word)[:2] == UUID_PARTS[:2]]
    if not bad:
        text, fix = "no word of RIG_BAD_GPUS names a GPU", "correct RIG_BAD_GPUS"
        yield say(text, "RIG_BAD_GPUS", fix=fix, outcome="unknown", domain="user")
    for gpu in now.machine.gpus:
        uuid = known(gpu.uuid, f"the UUID of {name_of(gpu)}")
        if any(uuid.lower().startswith(word) for word in bad):
            yield say(f"{name_of(gpu)} failed before: {uuid} is in RIG_BAD_GPUS", subject_of(gpu), got=uuid)


@check(
    at="quick",
    needs=(BAD_GPUS,),
    domain="user",
    severity="warn",
    fix="correct RIG_BAD_GPUS: whole UUIDs as nvidia-smi -L prints them, with commas between them",
)
def list_of_bad_gpus_holds_uuids(now: Snapshot) -> Iterator[Finding]:
    """Every word of RIG_BAD_GPUS is a whole UUID of a GPU.

    Any other word finds no GPU, or another one, and the bad one passes. Between the words stand commas, blanks or
    newlines.

    Symptom: a GPU that is on the list is used all the same.
    Source: `nvidia-smi -L`; nvmlDeviceGetUUID.
    """
    for word in bad_gpus(now):
        if _parts(word.lower()) != UUID_PARTS:
            text = f"RIG_BAD_GPUS: {word} is no UUID of a GPU: write all of GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
            yield say(text, "RIG_BAD_GPUS", got=word)


def _parts(word: str) -> tuple[int, ...]:
    """Letters in each part of a UUID in small letters; empty where it is none, nor the beginning of one."""
    first, *digits = word.split("-")
    return () if first != "gpu" or "".join(digits).strip("0123456789abcdef") else tuple(map(len, (first, *digits)))
