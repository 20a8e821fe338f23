"""The NVIDIA driver: there, answering, new enough, and of one version with its libraries in this container."""

from checks import check, known, say, silent
from checks.needs import ASKED, DRIVER, GPU, GPUS, GSP, HOST, NVML, ON_BUS
from checks.versions import release
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot

# Oldest driver that runs a CUDA line at all, and what each driver branch itself brings. Source: CUDA Toolkit release
# notes, tables "CUDA Toolkit and Minimum Required Driver Version" and "CUDA Toolkit and Corresponding Driver Versions".
OLDEST = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
BRANCHES = (
    *((450, (11, 0)), (455, (11, 1)), (460, (11, 2)), (465, (11, 3)), (470, (11, 4)), (495, (11, 5)), (510, (11, 6))),
    *((515, (11, 7)), (520, (11, 8)), (525, (12, 0)), (530, (12, 1)), (535, (12, 2)), (545, (12, 3)), (550, (12, 4))),
    *((555, (12, 5)), (560, (12, 6)), (565, (12, 7)), (570, (12, 8)), (575, (12, 9)), (580, (13, 0))),
)
LOST, MISMATCH = 15, 18  # NVML_ERROR_GPU_IS_LOST, NVML_ERROR_LIB_RM_VERSION_MISMATCH
RESTART = "restart the container; after an upgrade of the driver reboot the host"


def cuda_of(driver: str) -> tuple[int, int] | None:
    """The CUDA version that a driver brings; None for one older than the table."""
    told = [cuda for branch, cuda in BRANCHES if branch <= release(driver)[0]]
    return told[-1] if told else None


def reasons(now: Snapshot) -> tuple[str, ...]:
    """What NVML gave as reasons when it refused, at boot and when checks asked; each once."""
    told = (now.machine.nvml_error, now.host.nvml_error if now.host else None)
    return tuple(dict.fromkeys(part for text in told if text for part in text.split("; ")))


def code_of(reason: str) -> int | None:
    """NVML's number in a reason: 15 of `GPU 3: GPU is lost (NVML error 15)`."""
    number = reason.rpartition("NVML error ")[2].rstrip(")")
    return int(number) if number.isdecimal() else None


def lent_to_guests(now: Snapshot) -> bool:
    """Whether vfio-pci is loaded, so that some GPUs may belong to guests."""
    return "vfio_pci" in (now.machine.kernel.modules or ())


@check(
    at="boot",
    needs=(ON_BUS,),
    domain="host",
    fix="on the host: install the driver, or rebuild it for the running kernel (dkms autoinstall); modprobe nvidia",
)
def nvidia_driver_is_loaded(now: Snapshot) -> Iterator[Finding]:
    """The kernel module nvidia is loaded.

    Without it no program reaches a GPU that sits on the bus. After an update of the kernel the module is missing until
    it is built again. Where nobody expects a GPU this is a warning.

    Symptom: `nvidia-smi` couldn't communicate with the NVIDIA driver; torch.cuda.is_available() is False.
    Source: /proc/driver/nvidia/version; Documentation/PCI/sysfs-pci.rst.
    """
    if now.machine.kernel.driver is None and now.machine.nvml != "ok":
        count = known(now.machine.surroundings.gpus_on_bus, "the GPUs on the bus")
        other = ", vfio-pci is (the GPUs may belong to guests)" if lent_to_guests(now) else ""
        outcome = "fail" if now.machine.gpus or now.expected.promises_gpus else "warn"
        yield say(f"the NVIDIA driver is not loaded; GPUs on the bus: {count}{other}", "nvidia", outcome=outcome)


@check(
    at="boot",
    needs=(ASKED,),
    domain="host",
    fix="read the host's kernel log for an Xid, reset that GPU (nvidia-smi --gpu-reset -i N) or reboot the host",
)
def driver_answers_in_time(now: Snapshot) -> Iterator[Finding]:
    """The driver answers questions about every GPU.

    It is asked in a child process with a deadline, GPU after GPU, and the one that was being asked is named. A call
    that does not come back may be the driver's fault, the GPU's, or a busy node's; so it is called unresponsive. After
    it nothing asks the driver again.

    Symptom: nvidia-smi hangs, `docker run --gpus` hangs, ranks stop at their first CUDA call.
    Source: leptonai/gpud#117, NVIDIA/NVSentinel#1576, NVIDIA/gpu-monitoring-tools#46.
    """
    silent = now.machine.nvml == "unresponsive"
    if silent or (now.host is not None and now.host.nvml == "unresponsive"):
        gpu = now.machine.unresponsive_gpu if silent else None
        where = f"while GPU {gpu} was asked" if gpu else (now.host.nvml_error if now.host else None) or "when asked"
        stuck = [f"{one.comm} ({one.pid})" for one in (now.host.stuck or () if now.host else ()) if one.state == "D"]
        hang = f"; in the kernel hang {', '.join(stuck[:4])}" if stuck else ""
        yield say(f"the NVIDIA driver is unresponsive {where}{hang}", gpu or "driver")


@check(
    at="boot",
    needs=(DRIVER, GPU),
    domain="host",
    fix="update the host's driver; until then take an image with an older CUDA",
)
def driver_is_new_enough_for_cuda(now: Snapshot) -> Iterator[Finding]:
    """The driver can run the CUDA line of this image.

    Every release of a CUDA line (12.x) runs on one oldest driver or newer; on an older one nothing of it does. The
    image's own floor counts where it is known, else that of the CUDA runtime that was found. Driver numbers differ on
    data-centre and consumer branches, but their order is one.

    Symptom: CUDA error 35, `CUDA driver version is insufficient for CUDA runtime version`.
    Source: CUDA Toolkit release notes, minimum required driver versions; pins.toml, DRIVER_FLOOR.
    """
    driver, cuda = known(now.machine.kernel.driver, "the driver's version"), now.machine.libraries.cuda
    floor = now.pins.get("DRIVER_FLOOR") or (OLDEST.get(cuda[0]) if cuda else None)
    floor = known(floor, "the oldest driver for this image's CUDA")
    if release(driver) < release(floor):
        text = f"driver {driver} is older than {floor}, the oldest for this image's CUDA: CUDA error 35"
        yield say(text, "driver", floor, driver)


@check(
    at="boot",
    needs=(DRIVER, GPU, ASKED),
    domain="user",
    fix="docker run --gpus all; NVIDIA_DRIVER_CAPABILITIES must have compute,utility (or all)",
)
def nvml_library_is_in_the_container(now: Snapshot) -> Iterator[Finding]:
    """The driver's management library is there.

    The container runtime mounts the driver's libraries from the host; an image cannot bring them. The GPUs were given
    but the library was not: the runtime was told to leave out `utility`, or the nodes were mounted by hand.

    Symptom: nvidia-smi: command not found; `libnvidia-ml.so.1: cannot open shared object file`.
    Source: NVIDIA Container Toolkit, NVIDIA_DRIVER_CAPABILITIES.
    """
    if now.machine.nvml == "absent":
        told = now.environ.get("NVIDIA_DRIVER_CAPABILITIES")
        yield say("libnvidia-ml.so.1 is not in the container, though it has GPUs", "libnvidia-ml", got=told)


@check(at="boot", needs=(DRIVER, ASKED), domain="host", fix=RESTART)
def driver_and_its_libraries_are_of_one_version(now: Snapshot) -> Iterator[Finding]:
    """The kernel module and the libraries in this container are of the same driver.

    An upgrade replaces the files at once, the module only at the next reboot. A container that started before keeps
    the old files mounted. Each names its version: the module in procfs, the libraries in their file names.

    Symptom: `Failed to initialize NVML: Driver/library version mismatch`; CUDA error 803.
    Source: /proc/driver/nvidia/version; nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH.
    """
    driver = known(now.machine.kernel.driver, "the driver's version")
    if MISMATCH in map(code_of, reasons(now)):
        yield say(f"the libraries here are not of driver {driver}, which runs: CUDA error 803", "driver", driver)
        return
    for path in known(now.host.driver_libraries, "the driver's libraries") if now.host else ():
        name, _, version = path.rpartition("/")[2].partition(".so.")
        if len(release(version)) > 1 and release(version) != release(driver):
            text = f"{name} is of driver {version}, the kernel module is {driver}: CUDA error 803"
            yield say(text, name, driver, version, evidence=path)


@check(
    at="quick",
    needs=(DRIVER, GPU, HOST),
    domain="user",
    fix="docker run --gpus all; NVIDIA_DRIVER_CAPABILITIES must have compute,utility (or all)",
)
def libcuda_is_in_the_container(now: Snapshot) -> Iterator[Finding]:
    """libcuda.so.1, the driver's half of CUDA, is there.

    The container runtime mounts it where the capability `compute` is asked for. Without it CUDA finds no GPU, though
    nvidia-smi may list them all.

    Symptom: torch.cuda.is_available() is False; `libcuda.so.1: cannot open shared object file`.
    Source: NVIDIA Container Toolkit, NVIDIA_DRIVER_CAPABILITIES.
    """
    paths = known(now.host.driver_libraries if now.host else None, "the driver's libraries")
    if not any(path.rpartition("/")[2].startswith("libcuda.so") for path in paths):
        told = now.environ.get("NVIDIA_DRIVER_CAPABILITIES")
        yield say("libcuda.so.1 is not in the container, though it has GPUs", "libcuda", got=told)


@check(
    at="quick",
    needs=(ON_BUS, HOST),
    domain="host",
    fix="on the host: blacklist nouveau (modprobe.d, and in the initramfs), then reboot",
)
def nouveau_is_not_loaded(now: Snapshot) -> Iterator[Finding]:
    """The kernel's own driver for NVIDIA cards is not loaded.

    It takes the GPUs before NVIDIA's driver can. Where both are loaded it may hold another card: that is a warning.

    Symptom: `nvidia-smi` has failed because it couldn't communicate with the NVIDIA driver.
    Source: /proc/modules; drivers/gpu/drm/nouveau; NVIDIA/DCGM, denylist of `dcgmi diag -r 1`.
    """
    modules = now.host.modules if now.host is not None else None
    if "nouveau" in known(modules or now.machine.kernel.modules, "the kernel's modules"):
        outcome = "fail" if now.machine.kernel.driver is None else "warn"
        yield say("the module nouveau is loaded and takes NVIDIA's GPUs", "nouveau", outcome=outcome)


@check(
    at="quick",
    needs=(DRIVER, GPU),
    domain="host",
    severity="warn",
    fix="update the host's driver; build ops for this GPU's architecture (TORCH_CUDA_ARCH_LIST without +PTX)",
)
def driver_can_compile_the_images_ptx(now: Snapshot) -> Iterator[Finding]:
    """The driver's CUDA is not older than the image's, so that it can compile the image's PTX.

    Within a CUDA line an older driver runs what was compiled for its GPU, but not PTX of a newer toolkit: an op that
    was built for another architecture fails when it is loaded, not before.

    Symptom: CUDA error 222, `the provided PTX was compiled with an unsupported toolchain`.
    Source: CUDA compatibility guide, minor version compatibility.
    """
    driver = known(now.machine.kernel.driver, "the driver's version")
    brings = known(cuda_of(driver), f"the CUDA version of driver {driver}")
    image = known(now.machine.libraries.cuda, "the image's CUDA version")
    if brings[0] == image[0] and brings < image:
        text = f"driver {driver} brings CUDA {brings[0]}.{brings[1]}, the image has {image[0]}.{image[1]}: no PTX of it"
        yield say(text, "driver", list(image), list(brings))


@check(
    at="quick",
    needs=(DRIVER, GPU),
    domain="host",
    severity="warn",
    fix="on the host: systemctl enable --now nvidia-persistenced (or nvidia-smi -pm 1)",
)
def persistence_mode_is_on(now: Snapshot) -> Iterator[Finding]:
    """The driver stays initialised when no program uses a GPU.

    Without persistence mode each first program initialises every GPU again, seconds each, and settings and counters of
    errors start anew.

    Symptom: the first CUDA call takes half a minute; ECC counters are always 0.
    Source: NVIDIA driver persistence documentation; nvmlDeviceGetPersistenceMode.
    """
    told = [(gpu.bus_id or f"GPU {gpu.index}", gpu.persistence) for gpu in now.machine.gpus]
    yield from silent(told, "its persistence mode")
    off = [name for name, on in told if on is False]
    if off:
        yield say(f"persistence mode is off on {len(off)} of {len(now.machine.gpus)} GPUs", off[0], True, False)


def _one_version(now: Snapshot, field: str, what: str) -> Iterator[Finding]:
    """A version that GPUs of one model should share. The smaller part is named."""
    models = {gpu.bus_id: gpu.model for gpu in now.machine.gpus}
    health = now.host.gpus if now.host is not None else ()
    told = [(one.bus_id, models.get(one.bus_id), getattr(one, field)) for one in health if getattr(one, field)]
    yield from silent([(one.bus_id, getattr(one, field)) for one in health], f"its {what}")
    for model in {model for _, model, _ in told}:
        versions = [version for _, of, version in told if of == model]
        usual = max(sorted(set(versions)), key=versions.count)
        for bus_id, of, version in told:
            if of == model and version != usual:
                yield say(f"GPU {bus_id}: {what} {version}, the others have {usual}", bus_id, usual, version)


@check(at="quick", needs=(GPUS, NVML, GSP), domain="host", severity="warn", fix=RESTART)
def gsp_firmware_is_the_same_on_all_gpus(now: Snapshot) -> Iterator[Finding]:
    """The driver's firmware on the GPUs' own processor is of one version.

    The driver loads it; another version on one GPU was left by a driver that ran before.

    Symptom: one rank slower than the others; Xid 119 and 120 on one GPU.
    Source: nvmlDeviceGetGspFirmwareVersion; imbue-ai/cluster-health, golden configuration.
    """
    yield from _one_version(now, "gsp_firmware", "GSP firmware")


@check(
    at="quick", needs=(GPUS, NVML), domain="host", severity="warn", fix="ask the host to flash one VBIOS on all boards"
)
def vbios_is_the_same_on_all_gpus(now: Snapshot) -> Iterator[Finding]:
    """GPUs of one model have the same VBIOS.

    It holds power limits and fan curves. A board that was exchanged often comes with another one.

    Symptom: one rank slower than the others, at a lower power limit.
    Source: nvmlDeviceGetVbiosVersion; facebookresearch/gcm and imbue-ai/cluster-health check it.
    """
    yield from _one_version(now, "vbios", "VBIOS")
