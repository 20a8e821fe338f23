"""The user's Python packages and compilers, and whether they suit one another."""

from checks import check, known, say
from checks.needs import IMAGE, NVCC, PACKAGES, PINS
from checks.versions import image_of, is_of, release
from rig.finding import Finding
from rig.lean import Iterator, Mapping
from rig.snapshot import Snapshot

REBUILD = "rebuild the image from its lock files: make image"
PINNED = {
    "TORCH_VERSION": "torch",
    "DEEPSPEED_VERSION": "deepspeed",
    "CUDNN_VERSION": "nvidia-cudnn-cu12",
}
# Libraries that do not count as CUDA does: their numbers in each CUDA release (its release notes, table of components).
# None: a version line of its own, which every CUDA 12 takes.
OWN_NUMBERS: Mapping[str, Mapping[str, str]] = {
    "12.1": {"nvidia-cufft-cu12": "11.0.2", "nvidia-curand-cu12": "10.3.2", "nvidia-cusolver-cu12": "11.4.5"}
}
OWN_LINE = (
    "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12",
    "nvidia-cusparselt-cu12",
    "nvidia-cufile-cu12",
    "nvidia-nvshmem-cu12",
)
CUDA_NAMED = ("nvidia-cuda-runtime-cu12", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-cupti-cu12", "nvidia-nvtx-cu12")
TRITON_OF: Mapping[tuple[int, ...], str] = {
    (2, 0): "2.0.0",
    (2, 1): "2.1.0",
    (2, 2): "2.2.0",
    (2, 3): "2.3.0",
    (2, 4): "3.0.0",
    (2, 5): "3.1.0",
}


def cuda_line(now: Snapshot) -> str:
    """`12.1`: the CUDA that the image is made of, by its pin, else by the runtime's wheel."""
    runtime = image_of(now).packages.get("nvidia-cuda-runtime-cu12")
    told = now.pins.get("CUDA_VERSION") or (".".join(runtime.split(".")[:2]) if runtime else None)
    return str(known(told, "the CUDA version of the image"))


@check(at="quick", needs=(IMAGE, PACKAGES, PINS), domain="image", fix=REBUILD)
def packages_equal_their_pins(now: Snapshot) -> Iterator[Finding]:
    """torch, DeepSpeed and cuDNN are those that the image was built and tested with (NCCL: nccl_is_the_pinned_one).

    A `pip install` in a later layer replaces them without a word: a requirement of another package is enough.

    Symptom: an image that trained yesterday ends in `undefined symbol` or runs at half the speed.
    Source: dist-info folders of /opt/venv (PEP 376) against pins.toml.
    """
    packages = image_of(now).packages
    for pin, package in PINNED.items():
        want, got = now.pins.get(pin), packages.get(package)
        if want is not None and got is None:
            yield say(f"{package} {want} belongs in the image and is not there", package, want)
        elif want is not None and not is_of(got, want):
            yield say(f"{package} is {got}, the image was built with {want}", package, want, got)


@check(at="quick", needs=(IMAGE, PACKAGES, PINS), domain="image", fix=REBUILD)
def nvjitlink_equals_its_pin(now: Snapshot) -> Iterator[Finding]:
    """nvJitLink is of the same CUDA as the libraries that load it.

    cuSPARSE and cuSOLVER leave its version open, so a resolver takes the newest: of CUDA 12.9 beside a torch of 12.1.
    It then links what a driver of the older line has never seen.

    Symptom: `undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12` at `import torch`, or the reverse.
    Source: pytorch/pytorch#111469; dist-info folders of /opt/venv.
    """
    want, got = now.pins.get("NVJITLINK_VERSION"), image_of(now).packages.get("nvidia-nvjitlink-cu12")
    want = known(want, "the pin of nvJitLink")
    if got is None:
        yield say(f"nvJitLink {want} belongs in the image and is not there", "nvidia-nvjitlink-cu12", want)
    elif not is_of(got, want):
        yield say(f"nvJitLink is {got}, cuSPARSE and cuSOLVER need {want}", "nvidia-nvjitlink-cu12", want, got)


@check(at="quick", needs=(IMAGE, PACKAGES), domain="image", fix=REBUILD)
def cuda_wheels_are_of_one_line(now: Snapshot) -> Iterator[Finding]:
    """All CUDA libraries are of the release that torch was built for.

    They load one another by name, not by version. A library of a later release may want a driver that the machine does
    not have, or a symbol that its neighbour lacks.

    Symptom: `undefined symbol` in libcusparse or libcublasLt; CUBLAS_STATUS_NOT_INITIALIZED.
    Source: CUDA release notes, table of components; pytorch/pytorch#111469.
    """
    line, packages = cuda_line(now), image_of(now).packages
    own = OWN_NUMBERS.get(line)
    for name, got in sorted(packages.items()):
        if not (name.startswith("nvidia-") and name.endswith("-cu12")) or name in OWN_LINE:
            continue
        if name == "nvidia-nvjitlink-cu12" and "NVJITLINK_VERSION" in now.pins:
            continue  # nvjitlink_equals_its_pin
        want = line if own is not None or name in CUDA_NAMED else None
        want = own.get(name, want) if own is not None else want
        if want is not None and not is_of(got, want):
            yield say(f"{name} is {got}, which is not of CUDA {line}", name, want, got)


@check(at="quick", needs=(IMAGE, PACKAGES), domain="image", fix="/opt/venv/bin/pip install 'numpy<2'")
def numpy_suits_torch(now: Snapshot) -> Iterator[Finding]:
    """NumPy is of the line that torch was compiled against.

    torch before 2.3 was built with NumPy 1: under NumPy 2 tensors cannot become arrays, and DeepSpeed 0.12 imports
    names that are gone (`from numpy import BUFSIZE`).

    Symptom: `ImportError: cannot import name 'BUFSIZE' from 'numpy'`; `RuntimeError: Numpy is not available`.
    Source: NumPy 2.0 migration guide; deepspeedai/DeepSpeed#5671, instructlab/training#47.
    """
    packages = image_of(now).packages
    torch, numpy = known(packages.get("torch"), "the version of torch"), packages.get("numpy")
    if numpy is None:
        yield say("numpy is not there: DeepSpeed cannot be imported", "numpy", "< 2")
    elif release(torch) < (2, 3) and release(numpy) >= (2,):
        yield say(f"numpy is {numpy}, torch {torch} was compiled against numpy 1", "numpy", "< 2", numpy)


@check(at="quick", needs=(IMAGE, PACKAGES), domain="image", fix="/opt/venv/bin/pip install 'setuptools<70'")
def setuptools_suits_torch(now: Snapshot) -> Iterator[Finding]:
    """setuptools still has what torch's extension builder imports.

    torch.utils.cpp_extension says `from pkg_resources import packaging`; setuptools 70 took that vendored name
    away, and 82 the whole module, which torch before 2.9 imports. torch itself is imported without complaint; the first
    op that is compiled, at train time, fails.

    Symptom: `ImportError: cannot import name 'packaging' from 'pkg_resources'` at the first step with CPUAdam.
    Source: torch/utils/cpp_extension.py of 2.1; aws-neuron/aws-neuron-sdk#893, flashinfer-ai/flashinfer#319.
    """
    packages = image_of(now).packages
    torch, got = known(packages.get("torch"), "the version of torch"), packages.get("setuptools")
    if got is None:
        yield say("setuptools is not there: torch cannot compile an op", "setuptools", "< 70")
        return
    gone = release(torch) < (2, 9) and release(got) >= (82,)
    if gone or (release(torch) < (2, 3) and release(got) >= (70,)):
        yield say(f"setuptools is {got}: torch {torch} cannot compile an op with it", "setuptools", "< 70", got)


@check(at="quick", needs=(IMAGE, PACKAGES), severity="warn", domain="image", fix=REBUILD)
def triton_suits_torch(now: Snapshot) -> Iterator[Finding]:
    """triton is the one that this torch was released with.

    torch.compile calls triton's internals, which change with every release.

    Symptom: `AttributeError` or `ImportError` out of torch/_inductor or triton/compiler at the first compiled step.
    Source: requirements in torch's metadata, one triton for each release of torch.
    """
    packages = image_of(now).packages
    torch, got = known(packages.get("torch"), "the version of torch"), packages.get("triton")
    want = TRITON_OF.get(release(torch)[:2])
    if want is not None and got is not None and not is_of(got, want):
        yield say(f"triton is {got}, torch {torch} was released with {want}", "triton", want, got)


@check(at="quick", needs=(IMAGE, PACKAGES, PINS), domain="image", fix=REBUILD)
def python_equals_its_pin(now: Snapshot) -> Iterator[Finding]:
    """The user's environment runs on the Python that its packages were built for.

    Compiled modules carry the Python's version in their file names (`.cpython-311-*.so`): another sees none of them.

    Symptom: `ModuleNotFoundError: No module named 'torch._C'`.
    Source: /opt/venv/pyvenv.cfg (PEP 405) against pins.toml.
    """
    want = known(now.pins.get("PYTHON_VERSION"), "the pin of Python")
    got = known(image_of(now).python, "the version of /opt/venv's Python")
    if not is_of(got, want):
        yield say(f"/opt/venv runs on Python {got}, its packages were built for {want}", "python", want, got)


@check(at="quick", needs=(IMAGE, PINS), severity="warn", domain="image", fix=REBUILD)
def system_equals_its_pin(now: Snapshot) -> Iterator[Finding]:
    """The image stands on the release of the system that its libraries come from.

    The RDMA userland, glibc and the compiler are the system's. An upgrade in a later layer mixes two of each.

    Symptom: `version 'GLIBC_2.38' not found` from a wheel or an op.
    Source: VERSION_CODENAME in /etc/os-release (os-release(5)) against pins.toml.
    """
    want = known(now.pins.get("OS_CODENAME"), "the pin of the system's release")
    got = known(image_of(now).os_release, "the system's release (/etc/os-release)")
    if got != want:
        yield say(f"the system is {got}, the image was built on {want}", "/etc/os-release", want, got)


@check(
    at="quick",
    needs=(IMAGE, PACKAGES),
    severity="warn",
    domain="image",
    fix="apt-get install g++ ninja-build python3-dev",
)
def ops_can_be_compiled(now: Snapshot) -> Iterator[Finding]:
    """What compiles DeepSpeed's ops and triton's launchers at run time is there.

    Ops that were not built into the image are compiled when first used: by g++ and ninja, with Python's headers. triton
    compiles a small C file for every kernel.

    Symptom: `RuntimeError: Ninja is required to load C++ extensions`; `fatal error: Python.h: No such file`.
    Source: torch/utils/cpp_extension.py, triton/common/build.py; deepspeedai/DeepSpeed#3223.
    """
    image = image_of(now)
    for name in ("g++", "ninja"):
        if name not in image.compilers:
            yield say(f"{name} is not on PATH: ops cannot be compiled", name, name)
    if image.python_headers is False:
        yield say("Python.h is not there: ops and triton's launchers cannot be compiled", "Python.h")
    known(image.python_headers, "whether Python's headers are there")


@check(at="quick", needs=(IMAGE, PACKAGES, NVCC), domain="image", fix="install the CUDA toolkit of torch's own release")
def nvcc_is_of_torchs_cuda(now: Snapshot) -> Iterator[Finding]:
    """The CUDA compiler is of the release that torch was built for.

    DeepSpeed refuses to compile an op where the major differs, and warns or refuses at another minor: the op is linked
    against torch's runtime.

    Symptom: `Installed CUDA version 11.8 does not match the version torch was compiled with 12.1` at the first step.
    Source: deepspeed/ops/op_builder/builder.py assert_no_cuda_mismatch; deepspeedai/DeepSpeed#3223.
    """
    want, got = cuda_line(now), str(image_of(now).nvcc)
    if release(got)[:1] != release(want)[:1]:
        yield say(f"nvcc is of CUDA {got}, torch of {want}: no op can be compiled", "nvcc", want, got)
    elif not is_of(got, want):
        text = f"nvcc is of CUDA {got}, torch of {want}: set DS_SKIP_CUDA_CHECK=1 only if the ops are tested"
        yield say(text, "nvcc", want, got, outcome="warn")


@check(
    at="quick", needs=(IMAGE,), severity="warn", domain="user", fix="unset CUDA_HOME, or set it to a toolkit with nvcc"
)
def cuda_home_has_a_compiler(now: Snapshot) -> Iterator[Finding]:
    """CUDA_HOME names a toolkit, where it is set.

    DeepSpeed and torch run $CUDA_HOME/bin/nvcc without looking first. A variable left over from another image names a
    folder that is not there.

    Symptom: `FileNotFoundError: /usr/local/cuda/bin/nvcc` at `import deepspeed` or when an op is compiled.
    Source: deepspeed/ops/op_builder/builder.py installed_cuda_version; deepspeedai/DeepSpeed#2772.
    """
    told = image_of(now).cuda_home_set
    if told is not None and image_of(now).nvcc is None:
        yield say(f"CUDA_HOME is {told}, where no nvcc is", "CUDA_HOME", None, told)
