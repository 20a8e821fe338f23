"""torch as it is when it runs: imported, of the versions that belong here, with kernels for these GPUs."""

from checks import CannotTell, check, known, say
from checks.measured import Row, told, users_own
from checks.needs import GPU, PACKAGES, PINS, TORCH
from checks.versions import image_of, is_of, release
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot

CUDNN = "nvidia-cudnn-cu12"
REBUILD = "rebuild the image from its lock files: make image"
# What an import says, and what it means.
MEANINGS = (
    ("undefined symbol", "a compiled module was built against another torch or CUDA library than the one here"),
    ("GLIBCXX_", "a compiled module was built with a newer compiler than this system's libstdc++"),
    ("GLIBC_", "a compiled module was built on a newer system than this one"),
    ("No module named 'torch._C'", "torch was built for another Python than /opt/venv's"),
    ("libcuda.so.1", "the driver's library is not in the container: start it with --gpus all"),
    ("cannot open shared object file", "a library that torch needs is not in the image"),
    ("numpy", "numpy is not of the line that torch was built with"),
)


def meaning(error: str) -> str:
    """The error, and after it what it comes from where that is known."""
    why = next((why for word, why in MEANINGS if word in error), None)
    return f"{error}: {why}" if why else error


def stack(now: Snapshot) -> Row:
    """What stack_import told; CannotTell where torch was not imported, which is another check's to say."""
    data = told(now, "stack_import")
    known(data.get("torch"), "torch, which was not imported")
    return data


@check(at="quick", needs=(TORCH,), probe="stack_import", domain="image", fix=REBUILD)
def torch_can_be_imported(now: Snapshot) -> Iterator[Finding]:
    """`import torch` works in the user's environment.

    It maps some thirty libraries, each of which can be missing or of another build. What the loader says names a
    symbol; what it means is added here. A file of the user's, or PYTHONPATH, may be in its way: that comes first. An
    import that hangs, or that a signal ends, is told by every_probe_answers.

    Symptom: `ImportError: ... undefined symbol`, `OSError: libcudnn.so.8: cannot open shared object file`.
    Source: the probe stack_import; pytorch/pytorch#111469.
    """
    data = told(now, "stack_import")
    errors = [str(error) for error in data.get("errors") or ()]
    for error in errors:
        theirs = users_own(now, error)
        fix, domain = (theirs.fix, "user") if theirs else ("", "")
        yield say(f"torch: {meaning(error)}", "torch", fix=fix, domain=domain)
    if not errors:
        known(data.get("torch"), "whether torch was imported")


@check(at="quick", needs=(TORCH,), probe="stack_import", domain="image", fix=REBUILD)
def torch_is_built_for_cuda(now: Snapshot) -> Iterator[Finding]:
    """torch is a build with CUDA, and with the CUDA of the image.

    A requirement of another package, or another index, brings the build for CPUs; it is imported without complaint and
    trains on the CPU.

    Symptom: `Torch not compiled with CUDA enabled`; torch.cuda.is_available() is False beside a working nvidia-smi.
    Source: torch.version.cuda, by the probe stack_import.
    """
    data = stack(now)
    got, want = data.get("torch_cuda"), now.pins.get("CUDA_VERSION")
    if got is None:
        yield say(f"torch {data['torch']} is built for CPUs only", "torch", f"CUDA {want or ''}".strip(), "none")
    elif want is not None and not is_of(str(got), want):
        yield say(f"torch {data['torch']} is built for CUDA {got}, the image for {want}", "torch", want, got)


@check(
    at="quick",
    needs=(TORCH, PACKAGES),
    probe="stack_import",
    domain="user",
    fix="unset PYTHONPATH; python -c 'import torch; print(torch.__file__)'",
)
def imported_torch_is_the_installed_one(now: Snapshot) -> Iterator[Finding]:
    """The torch that a program imports is the one of /opt/venv.

    PYTHONPATH, another interpreter first on PATH or a file torch.py in the working folder put another one before it.

    Symptom: fixes and versions of the image have no effect.
    Source: torch.__version__ by the probe stack_import, against the dist-info folders of /opt/venv.
    """
    got = str(stack(now)["torch"])
    want = known(image_of(now).packages.get("torch"), "the version of torch in /opt/venv")
    if release(got) != release(want):
        yield say(f"programs import torch {got}, /opt/venv holds {want}", "torch", want, got)


@check(at="quick", needs=(TORCH, PINS), probe="stack_import", domain="image", fix=REBUILD)
def loaded_cudnn_is_the_pinned(now: Snapshot) -> Iterator[Finding]:
    """cuDNN, as it is loaded, is the one that the image was tested with.

    torch takes the first libcudnn.so.8 that the loader finds. Its parts (ops, cnn, adv) are loaded later, by name, and
    those of another version end the process. Where the installed package itself is another, packages_equal_their_pins
    speaks, and this cannot tell.

    Symptom: `CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH`, `Could not load library libcudnn_cnn_infer.so.8`.
    Source: torch.backends.cudnn.version(), by the probe stack_import.
    """
    data, want = stack(now), known(now.pins.get("CUDNN_VERSION"), "the pin of cuDNN")
    if data.get("torch_cuda") is None:
        raise CannotTell("torch is built for CPUs only")
    packages = now.image.packages if now.image is not None else {}
    if packages and not is_of(packages.get(CUDNN, ""), want):
        raise CannotTell(f"the installed cuDNN is {packages.get(CUDNN)}, as packages_equal_their_pins says")
    got = str(known(data.get("cudnn"), "the version of cuDNN that torch loads"))
    if not is_of(got, want):
        yield say(f"torch loads cuDNN {got}, the image was built with {want}", "cudnn", want, got)


def architectures(flags: list[str]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """`sm_90`, `compute_90` -> capabilities with machine code, capabilities with PTX. `sm_90a` runs on 9.0 only."""
    found: dict[str, list[tuple[int, int]]] = {"sm": [], "compute": []}
    for flag in flags:
        kind, _, number = flag.partition("_")
        digits = number.rstrip("af")
        if kind in found and digits.isdigit() and len(digits) > 1:
            found[kind].append((int(digits[:-1]), int(digits[-1])))
    return found["sm"], found["compute"]


@check(
    at="quick",
    needs=(TORCH, GPU),
    probe="stack_import",
    domain="image",
    fix="take an image with a torch that was built for this GPU",
)
def torch_has_kernels_for_every_gpu(now: Snapshot) -> Iterator[Finding]:
    """torch was compiled for each GPU of this machine.

    Machine code of compute capability 8.0 runs on 8.6 and 8.9, not on 9.0, and never on an older minor. Where only PTX
    fits, the driver compiles every kernel at its first use.

    Symptom: `CUDA error: no kernel image is available for execution on the device`.
    Source: torch.cuda.get_arch_list() by the probe stack_import, NVML's compute capability; CUDA compatibility guide.
    """
    code, ptx = architectures(known(stack(now).get("arch_list"), "what torch was compiled for"))
    if not code and not ptx:
        raise CannotTell("torch does not say what it was compiled for")
    for gpu in now.machine.gpus:
        need = known(gpu.capability, f"the compute capability of GPU {gpu.index}")
        if any(one[0] == need[0] and one[1] <= need[1] for one in code):
            continue
        name, subject = f"{need[0]}.{need[1]} ({gpu.model or 'GPU'})", gpu.bus_id or str(gpu.index)
        have = " ".join(f"{major}.{minor}" for major, minor in sorted(set(code)))
        if any(one <= need for one in ptx):
            text = f"torch has only PTX for compute capability {name}: the first steps compile for minutes"
            yield say(text, subject, name, have, outcome="warn")
        else:
            text = f"torch has no kernels for compute capability {name}: 'no kernel image is available'"
            yield say(text, subject, name, have)


@check(at="quick", needs=(GPU,), domain="user", fix='"bf16": {"enabled": false}, "fp16": {"enabled": true}')
def bf16_is_asked_of_gpus_that_have_it(now: Snapshot) -> Iterator[Finding]:
    """bf16 is in the DeepSpeed config only where every GPU computes in it.

    It came with compute capability 8.0. V100 (7.0) and T4 (7.5) have fp16; there bf16 is emulated or refused.

    Symptom: `ValueError: Type bf16 is not supported`, or a tenth of the speed.
    Source: CUDA programming guide, table of compute capabilities; deepspeed/runtime/engine.py.
    """
    wanted = next((one for one in now.plan.ds_config if one.name == "bf16.enabled"), None)
    if wanted is None or wanted.value is not True:
        return
    for gpu in now.machine.gpus:
        have = known(gpu.capability, f"the compute capability of GPU {gpu.index}")
        if have < (8, 0):
            text = f"bf16 is asked for, and {gpu.model or 'the GPU'} (compute capability {have[0]}.{have[1]}) has none"
            yield say(text, gpu.bus_id or str(gpu.index), "8.0", f"{have[0]}.{have[1]}")
