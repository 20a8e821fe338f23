"""CUDA itself: whether each GPU can be used, how long that takes, and the variables of the user that bear on it."""

from checks import check, known, say
from checks.measured import Row, gpu_rows, may_see, told
from checks.needs import GPU
from rig.finding import Finding
from rig.lean import Iterator, Mapping, NamedTuple
from rig.snapshot import Snapshot

SLOW_S = 10.0  # own rule: with persistence mode the first use of a GPU takes less than one second
# Variables that DCGM's diagnostic refuses to run under, and what they do. CUDA documentation, "Environment Variables".
DEBUGGING = (
    ("CUDA_LAUNCH_BLOCKING", "every kernel is waited for"),
    ("NSIGHT_CUDA_DEBUGGER", "a debugger is attached to every kernel"),
    ("CUDA_INJECTION32_PATH", "a profiler's library is loaded"),
    ("CUDA_INJECTION64_PATH", "a profiler's library is loaded"),
    ("CUDA_PROFILE", "every kernel is profiled"),
    ("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "a failing kernel writes all of the GPU's memory to disk"),
    ("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "a pipe waits in every process"),
    ("CUDA_DEVICE_WAITS_ON_EXCEPTION", "a failing kernel hangs instead of ending"),
    ("CUDA_FORCE_PTX_JIT", "all kernels are compiled anew"),
    ("CUDA_DISABLE_PTX_JIT", "no kernel can be compiled for this GPU"),
    ("CUDA_CACHE_DISABLE", "compiled kernels are not kept"),
)


class Meaning(NamedTuple):
    """What an error number of CUDA means for the one who must act."""

    text: str
    domain: str
    fix: str


# By error number. Source: cuda.h (CUresult), driver_types.h (cudaError).
MEANINGS: Mapping[int, Meaning] = {
    2: Meaning("out of memory", "user", "nvidia-smi names the processes that hold its memory; end them"),
    34: Meaning(
        "the loaded libcuda.so.1 is the toolkit's stub, made for linking only",
        "image",
        "take the stubs folder out of LD_LIBRARY_PATH",
    ),
    35: Meaning("the driver is older than this CUDA's floor", "host", "update the host's driver"),
    46: Meaning("another process holds it", "host", "nvidia-smi -c DEFAULT, or end the other process"),
    100: Meaning("no GPU is visible", "user", "docker run --gpus all; unset CUDA_VISIBLE_DEVICES"),
    101: Meaning("CUDA_VISIBLE_DEVICES names no GPU", "user", "correct or unset CUDA_VISIBLE_DEVICES"),
    209: Meaning("no kernel for this GPU's architecture", "image", "take an image with a newer CUDA"),
    214: Meaning("an ECC error that cannot be corrected", "host", "reset the GPU; if it comes back, replace it"),
    222: Meaning("PTX of a newer toolkit than the driver's", "host", "update the host's driver"),
    719: Meaning("a kernel failed", "host", "read the host's kernel log for an Xid, reset the GPU"),
    802: Meaning(
        "the system is not initialised: the fabric manager has not set up the NVSwitches",
        "host",
        "on the host: systemctl restart nvidia-fabricmanager, of the driver's own version; wait a minute",
    ),
    803: Meaning(
        "driver and libraries are of different versions (mismatch)",
        "host",
        "restart the container; after an upgrade of the driver reboot the host",
    ),
    804: Meaning(
        "the compat libraries (cuda-compat) are used on a GPU that does not support them",
        "image",
        "remove the compat folder from the library path",
    ),
    999: Meaning(
        "an unknown error: most often /dev/nvidia-uvm is missing",
        "host",
        "on the host: modprobe nvidia_uvm, nvidia-modprobe -u -c 0; then start the container anew",
    ),
}


def _driver(now: Snapshot) -> Row:
    """What cuInit answered."""
    return known(told(now, "gpu_init").get("driver"), "what cuInit answers")  # type: ignore[no-any-return]


def _refusal(name: str, row: Row) -> Finding:
    """One error of CUDA in words."""
    code = row["code"]
    meaning = MEANINGS.get(code, Meaning("", "", ""))
    words = meaning.text or str(row.get("name") or "an error without a name")
    text = f"{name}: CUDA error {code}: {words} (at {row.get('step')})"
    return say(text, name, 0, code, meaning.fix, domain=meaning.domain)


@check(
    at="quick",
    needs=(GPU,),
    domain="host",
    fix="read the host's kernel log for an Xid, reset the GPU (nvidia-smi --gpu-reset) or reboot the host",
    probe="gpu_init",
)
def every_gpu_can_be_used(now: Snapshot) -> Iterator[Finding]:
    """CUDA starts, and each GPU of this machine computes a small kernel rightly.

    Files can look healthy while the first CUDA call fails. Each GPU gets a context, some memory and a kernel, one
    after another, so that the one that fails or hangs has a name. CUDA's error numbers are told with what they mean:
    802 is the fabric manager, 803 driver and library, 804 the compat libraries, 999 mostly the missing UVM node. A GPU
    that the driver has and CUDA does not see counts as one that cannot be used, unless the user hid it. Where the probe
    hung or crashed every_probe_answers speaks, and this cannot tell.

    Symptom: `CUDA unknown error`, `system not yet initialized`, a hang at the first use of a GPU.
    Source: cuda.h; pytorch/pytorch#35710, dstackai/dstack#2348, jax-ml/jax#34113, nvidia-docker#1515.
    """
    driver = _driver(now)
    if driver["code"] != 0:
        yield _refusal("cuInit", driver)
        return
    rows = told(now, "gpu_init").get("gpus") or ()
    refused = [row for row in rows if row["code"] != 0]
    for row in refused:
        yield _refusal(f"GPU {row.get('bus_id') or row['index']}", row)
    if len(rows) < may_see(now):
        yield _unseen(now, rows)
    elif not refused:
        gpu_rows(now, "gpu_init")  # whether it told of these very GPUs


def _unseen(now: Snapshot, rows: tuple[Row, ...]) -> Finding:
    """A GPU in MIG mode shows what was made of it, and one whose device node is not known may not be ours."""
    gpus, most = now.machine.gpus, may_see(now)
    sure = not any(gpu.mig or gpu.node is None for gpu in gpus)
    seen = {row.get("bus_id") for row in rows}
    missing = [f"GPU {gpu.index} ({gpu.bus_id})" for gpu in gpus if gpu.bus_id not in seen] if most == len(gpus) else []
    text = f"CUDA sees {len(rows)} of {most} GPUs" + (f", not {', '.join(missing)}" if missing and rows else "")
    fix = "read the host's kernel log for an Xid of the GPU that is missing; start the container anew, reset or reboot"
    return say(
        text, missing[0] if len(missing) == 1 else "CUDA", most, len(rows), fix, outcome="" if sure else "unknown"
    )


@check(
    at="quick",
    needs=(GPU,),
    domain="host",
    severity="warn",
    fix="on the host: systemctl enable --now nvidia-persistenced",
    probe="gpu_init",
)
def gpus_start_quickly(now: Snapshot) -> Iterator[Finding]:
    """The first use of a GPU takes less than ten seconds.

    The driver initialises a GPU at its first use; where it must do so for each program, persistence mode is off. Much
    longer than that means a GPU or a PCIe link that is retried.

    Symptom: half a minute of silence before a program prints its first line.
    Source: cuInit and cuDevicePrimaryCtxRetain, timed; the bound is this project's own.
    """
    rows = [("cuInit", _driver(now)), *((f"GPU {row.get('bus_id')}", row) for row in gpu_rows(now, "gpu_init"))]
    for name, row in rows:
        seconds = known(row.get("seconds"), f"the time of {name}")
        if seconds > SLOW_S:
            yield say(f"{name} took {seconds:.0f} s, more than {SLOW_S:.0f} s", name, SLOW_S, seconds)


@check(at="quick", needs=(GPU,), domain="user", severity="warn", fix="unset it for training")
def no_debugging_variable_slows_cuda(now: Snapshot) -> Iterator[Finding]:
    """No variable of a debugger or profiler is left in the environment.

    They were set to look for a fault, and stay in a template or a Dockerfile. Most cost speed without a word.

    Symptom: half the speed with all GPUs healthy; core dumps of 80 GB; a hang where an error should be.
    Source: NVIDIA/DCGM 4.6.0, environment check of `dcgmi diag -r 1`; leptonai/gpud.
    """
    for name, does in DEBUGGING:
        if now.environ.get(name, "0") not in ("", "0"):
            yield say(f"{name} is set: {does}", name, None, now.environ[name], f"unset {name}")


@check(at="quick", needs=(GPU,), domain="user", fix="correct or unset CUDA_VISIBLE_DEVICES")
def visible_devices_are_there(now: Snapshot) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES names GPUs that this container has.

    CUDA stops at the first entry that names none and shows only what stands before it, without a word. Numbers count
    the container's GPUs, not the host's; a template of an eight-GPU machine hides GPUs on a smaller one.

    Symptom: `No CUDA GPUs are available`, or fewer ranks than GPUs.
    Source: CUDA programming guide, CUDA_VISIBLE_DEVICES.
    """
    gpus = now.machine.gpus
    entries = [entry.strip() for entry in now.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    for entry in entries if entries not in ([""], ["-1"]) else ():  # these hide all on purpose
        if entry.startswith("GPU-"):
            uuids = known(None if any(gpu.uuid is None for gpu in gpus) else [gpu.uuid for gpu in gpus], "UUIDs")
            there = any(uuid.startswith(entry) for uuid in uuids)
        else:
            there = entry.startswith("MIG-") or (entry.isdigit() and int(entry) < len(gpus))
        if not there:
            text = f"CUDA_VISIBLE_DEVICES names {entry}, which is none of {len(gpus)} GPUs: CUDA stops there"
            yield say(text, "CUDA_VISIBLE_DEVICES", f"0 to {len(gpus) - 1}", entry)
            return
