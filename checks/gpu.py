"""Which GPUs are here: as many and of the kind that was sold, given to this container, known to the driver."""

from checks import check, known, say
from checks.driver import LOST, MISMATCH, code_of, lent_to_guests, reasons
from checks.needs import (
    ASKED,
    CONTAINER,
    DRIVER,
    GPU,
    GPU_NODES,
    GPU_SEEN,
    HOST,
    NVML,
    SOLD_GPUS,
    SOLD_MEMORY,
    SOLD_MODEL,
)
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import Gpu
from rig.snapshot import Snapshot

REFUSED = (4, 17, 999)  # of nvmlInit where nodes went away: no permission, blocked by the control group, unknown
COMPLAINTS = {
    4: "run as root or as a user of the nodes' group; in a container give it the GPUs' nodes",
    8: "connect the board's external power cables; check the power supply",
    9: "on the host: modprobe nvidia",
    11: "on the host: check the BIOS for interrupts (MSI), reboot; if it stays, move the board to another slot",
    14: "the board's infoROM is corrupted: have it replaced",
    16: "on the host: nvidia-smi --gpu-reset -i N, with nothing running on it; else reboot",
    17: "give the container its GPUs' nodes anew (docker run --gpus all)",
}
SOLD_SHARE = 0.93  # ECC and the driver keep a part: 15 of a T4's 16 GB, 23 of an A10G's 24


def sequence(model: str) -> list[str]:
    """`NVIDIA A100-SXM4-80GB` as its words in order, in upper case."""
    return "".join(letter if letter.isalnum() else " " for letter in model.upper()).split()


def is_model(model: str, wanted: str) -> bool:
    """Whether the words of `wanted` stand side by side in a model's name. H200 is no GH200."""
    has, want = sequence(model), sequence(wanted)
    return any(has[at : at + len(want)] == want for at in range(len(has)))


def _name(gpu: Gpu) -> str:
    """As checks.health has it, which a boot does not load."""
    return f"GPU {gpu.index}" + (f" ({gpu.bus_id})" if gpu.bus_id else "")


@check(
    at="boot",
    needs=(SOLD_GPUS,),
    domain="host",
    fix="power cycle the host (a reset is not enough for a GPU that left the bus), or return the machine",
)
def expected_gpus_are_here(now: Snapshot) -> Iterator[Finding]:
    """As many GPUs are here as were sold.

    They are counted on the PCI bus, which answers also when the driver does not, and among those that this container
    was given. What is missing on the bus is the host's to mend; what is there but was not given is the one's to mend
    who started the container.

    A model, a size or NVLinks that were sold take one GPU at least.

    Symptom: 7 of 8 GPUs; training starts with fewer ranks than paid for.
    Source: /sys/bus/pci/devices; leptonai/gpud and NVIDIA/ai-cloud-validation count so.
    """
    want, here, place = now.expected.gpus or 1, len(now.machine.gpus), now.machine.surroundings
    if here >= want:
        return
    on_bus, fix = place.gpus_on_bus, "docker run --gpus all (Kubernetes: nvidia.com/gpu)"
    if on_bus is None or on_bus < want:
        seen = "the bus is not visible" if on_bus is None else f"{on_bus} on the bus"
        yield say(f"{here} of {want} expected GPUs are here ({seen})", "gpus", want, here)
    elif place.container is not None:
        text = f"{here} of {want} expected GPUs were given to this container, {on_bus} are on the bus"
        yield say(text, "gpus", want, here, fix, domain="user")
    elif now.machine.gpus_denied:
        text = f"{here} of {want} expected GPUs were given to this job, {on_bus} are on the bus"
        yield say(text, "gpus", want, here, "ask the scheduler for all GPUs of the node", domain="user")
    else:
        text = f"{here} of {want} expected GPUs are here, {on_bus} are on the bus: the driver has not started the rest"
        yield say(text, "gpus", want, here, "read the host's kernel log for NVRM and Xid, then power cycle the host")


@check(
    at="boot",
    needs=(GPU_SEEN, DRIVER),
    domain="user",
    severity="warn",
    fix="docker run --gpus all (Kubernetes: limits nvidia.com/gpu)",
)
def gpus_of_the_host_are_given_to_the_container(now: Snapshot) -> Iterator[Finding]:
    """A container on a GPU machine was given a GPU.

    The bus shows the host's GPUs in every container, but their device nodes must be given. One that was given some of
    them is no matter: that is how machines are shared. Where GPUs were expected another check counts them.

    Symptom: torch.cuda.is_available() is False on a machine with GPUs; training runs on CPUs.
    Source: /sys/bus/pci/devices against /dev/nvidia*; NVIDIA Container Toolkit.
    """
    place = now.machine.surroundings
    on_bus = known(place.gpus_on_bus, "the GPUs on the bus")
    if now.machine.gpus or now.expected.promises_gpus or (place.container is None and lent_to_guests(now)):
        return
    if place.container is not None:
        yield say(f"{on_bus} GPUs on the bus, none was given to this container", "gpus", got=0)
    else:
        fix = "read the host's kernel log for NVRM and Xid"
        yield say(f"{on_bus} GPUs on the bus, the driver has none of them", "gpus", got=0, fix=fix, domain="host")


@check(
    at="boot",
    needs=(GPU, GPU_NODES),
    domain="host",
    fix="on the host: modprobe nvidia_uvm, nvidia-modprobe -u -c 0; then start the container anew",
)
def gpu_device_nodes_are_there(now: Snapshot) -> Iterator[Finding]:
    """The device nodes that CUDA opens besides those of the GPUs exist.

    /dev/nvidiactl is the door to the driver, /dev/nvidia-uvm that to unified memory. NVML needs only the first, so
    nvidia-smi may list every GPU while no CUDA program starts.

    Symptom: CUDA error 999, `CUDA unknown error`, with nvidia-smi all well.
    Source: NVIDIA driver README, device nodes; nvidia-modprobe(1).
    """
    nodes = known(now.machine.surroundings.nvidia_nodes, "the names in /dev")
    for name, error in (("nvidia-uvm", "CUDA error 999"), ("nvidiactl", "NVML and CUDA find no driver")):
        if name not in nodes:
            yield say(f"/dev/{name} is missing: {error}", f"/dev/{name}")


@check(
    at="quick",
    needs=(GPU, HOST, GPU_NODES),
    domain="host",
    fix="on the host: chmod 0666 (driver option NVreg_DeviceFileMode=0666), or run as a user of the nodes' group",
)
def gpu_device_nodes_can_be_used(now: Snapshot) -> Iterator[Finding]:
    """This user may read and write the GPUs' device nodes.

    Their permission bits are looked at; nothing is opened. Some hosts keep them for a group (video), which a container
    under another user does not have.

    Symptom: it works as root only; `Insufficient Permissions`; CUDA sees no device.
    Source: access(2); NVIDIA driver README, NVreg_DeviceFileMode; NVIDIA/DCGM, permission check of r1.
    """
    for name, usable in known((now.host.opens or None) if now.host else None, "who may use the device nodes"):
        needed = name in ("nvidiactl", "nvidia-uvm") or name[6:].isdigit()
        if needed and not usable:
            yield say(f"user {now.machine.surroundings.uid} may not use /dev/{name}", f"/dev/{name}", True, False)


@check(
    at="quick",
    needs=(GPU, NVML),
    domain="host",
    fix="read the host's kernel log for an Xid (79: it fell off the bus); power cycle the host",
)
def nvml_lists_every_gpu(now: Snapshot) -> Iterator[Finding]:
    """The driver lists every GPU that it was found to have.

    A GPU that the kernel and procfs still show, but NVML does not, was lost after the driver started. On a host (not in
    a container, where fewer may be given) all GPUs on the bus must be there, but for those that belong to guests, and
    those that the scheduler gave to other jobs.

    Symptom: 8 GPUs in lspci, 7 in nvidia-smi.
    Source: nvmlDeviceGetCount against /sys/bus/pci/devices; leptonai/gpud, facebookresearch/gcm.
    """
    listed = {one.bus_id for one in now.host.gpus} if now.host is not None else set()
    for gpu in now.machine.gpus:
        if gpu.bus_id is not None and gpu.bus_id not in listed:
            yield say(f"{_name(gpu)}: the kernel has it, NVML does not list it", gpu.bus_id)
    place = now.machine.surroundings
    got, others = len(now.machine.gpus), now.machine.gpus_denied or 0
    if place.container is None and not lent_to_guests(now) and (place.gpus_on_bus or 0) > got + others:
        text = f"{place.gpus_on_bus} GPUs on the bus, the driver has {got + others}"
        yield say(text, "gpus", place.gpus_on_bus, got + others)


@check(
    at="quick",
    needs=(GPU, HOST, CONTAINER),
    domain="host",
    fix="restart the container; on the host use CDI, or the cgroup driver cgroupfs, so that it does not come again",
)
def gpus_stay_with_the_container(now: Snapshot) -> Iterator[Finding]:
    """The driver still takes questions from this container.

    When systemd on the host reloads its units it writes the device rules of containers anew, and leaves out the GPUs
    that the runtime had added. The nodes stay, but nobody may open them: running programs go on, new ones fail.

    Symptom: `Failed to initialize NVML: Unknown Error`, hours after the container started well.
    Source: NVIDIA/nvidia-container-toolkit#48, #251, #1227.
    """
    if _failed(now) and (refused := [reason for reason in reasons(now) if _refuses_all(reason)]):
        yield say(f"the driver refuses this container: {'; '.join(refused)}", "nvml")


def _refuses_all(reason: str) -> bool:
    """Whether NVML as a whole is refused, and not one GPU (`GPU 3: ...`)."""
    return code_of(reason) in REFUSED and not reason.startswith("GPU ")


def _failed(now: Snapshot) -> bool:
    """Whether asking the driver ended with an error; CannotTell where nobody asked."""
    told = (now.machine.nvml, now.host.nvml if now.host else None)
    known(told[0] or told[1], "what became of asking the driver")
    return "failed" in told


@check(
    at="quick",
    needs=(GPU, HOST, ASKED),
    domain="host",
    fix="read the host's kernel log (dmesg) for lines of NVRM; reboot the host",
)
def driver_reports_no_error(now: Snapshot) -> Iterator[Finding]:
    """Asking the driver ends without an error.

    What NVML refuses with is told with what to do. Other checks tell of libraries of another version, of lost GPUs, and
    of containers whose GPUs were taken away. Where NVML fails, checks that need its answers are left out: so this one
    must speak.

    Symptom: nvidia-smi ends with an error instead of a table.
    Source: nvml.h, nvmlReturn_t; Azure/azurehpc-health-checks maps the same numbers.
    """
    if not _failed(now):
        return
    if not reasons(now):
        yield say("the driver reports: nothing, its answer broke off", "nvml")
    for reason in reasons(now):
        if not _told_elsewhere(now, reason):
            yield say(f"the driver reports: {reason}", "nvml", fix=COMPLAINTS.get(code_of(reason) or 0, ""))


def _told_elsewhere(now: Snapshot, reason: str) -> bool:
    if code_of(reason) == MISMATCH:
        return now.machine.kernel.driver is not None  # else that check has nothing to compare with
    return code_of(reason) == LOST or (now.machine.surroundings.container is not None and _refuses_all(reason))


@check(
    at="boot",
    needs=(GPU, SOLD_MODEL),
    domain="platform",
    fix="ask for the machine that was sold, or correct RIG_EXPECT",
)
def gpus_are_of_the_expected_model(now: Snapshot) -> Iterator[Finding]:
    """The GPUs are of the model that was sold.

    The name is compared by whole words: H200 is not GH200, A10 is not A100.

    Symptom: slower than sold, or less memory.
    Source: /proc/driver/nvidia/gpus/*/information, Model; leptonai/gpud PR#1206.
    """
    wanted = now.expected.model or ""
    for gpu in now.machine.gpus:
        model = known(gpu.model, f"the model of {_name(gpu)}")
        if not is_model(model, wanted):
            yield say(f"{_name(gpu)} is {model}, not {wanted}", gpu.bus_id or "", wanted, model)


@check(
    at="boot",
    needs=(GPU, SOLD_MEMORY),
    domain="platform",
    fix="ask for the machine that was sold, or correct RIG_EXPECT",
)
def gpus_have_the_expected_memory(now: Snapshot) -> Iterator[Finding]:
    """Each GPU has the memory that was sold.

    Models come in two sizes (A100 40 and 80 GB) under one short name. A part of it is the driver's and ECC's own, so
    93 percent are enough.

    Symptom: out of memory where the same job fits elsewhere.
    Source: nvmlDeviceGetMemoryInfo, total.
    """
    wanted = now.expected.memory_gb or 0
    for gpu in now.machine.gpus:
        size = known(gpu.memory_bytes, f"the memory of {_name(gpu)}") / 1e9
        if size < wanted * SOLD_SHARE:
            yield say(
                f"{_name(gpu)} has {size:.0f} GB of memory, {wanted} GB were sold", gpu.bus_id or "", wanted, size
            )
