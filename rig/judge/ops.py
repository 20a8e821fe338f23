"""Compiled ops, signals, self-tests."""

from rig.judge.ruling import Edit, Ruling
from rig.lean import Any, Iterator, Mapping

Facts = Mapping[str, Any]
# Minor versions of CUDA that DeepSpeed 0.12.6 takes for equal (op_builder/builder.py).
INTERCHANGEABLE = {11: range(0, 9), 12: range(0, 4)}
NAMES = {
    "fused_adam": "FusedAdam",
    "fused_lamb": "FusedLamb",
    "cpu_adam": "CPUAdam",
    "cpu_adagrad": "CPUAdagrad",
    "quantizer": "the quantizer op",
}
CAUGHT = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT")  # signals that a program may handle
NEEDS_GPU = ("fused_adam", "fused_lamb", "quantizer")


def cuda_versions(given: Facts, world: Facts) -> Iterator[Ruling]:
    """nvcc against the CUDA that torch was built with: CUDAMismatchException, unless DS_SKIP_CUDA_CHECK=1."""
    nvcc, torch = _version(given.get("nvcc")), _version(given.get("torch_cuda"))
    if given.get("prebuilt") is True or nvcc is None or torch is None or nvcc == torch:
        return
    equal = INTERCHANGEABLE.get(torch[0], range(0))
    if nvcc[0] == torch[0] and nvcc[1] in equal and torch[1] in equal:
        return
    env = given.get("env")
    skips = isinstance(env, Mapping) and str(env.get("DS_SKIP_CUDA_CHECK")) == "1"
    text = f"nvcc {nvcc[0]}.{nvcc[1]} vs torch cu{torch[0]}{torch[1]}: DeepSpeed does not compile with that pair"
    fix = f"Install nvcc {torch[0]}.{torch[1]}, or use an image with the op built in"
    yield Ruling("warn" if skips and nvcc[0] == torch[0] else "reject", "cuda-mismatch", text, "nvcc", fix)


def adam(given: Facts, world: Facts) -> Iterator[Ruling]:
    """FusedAdam is compiled at the first use; without nvcc torch's Adam does the same."""
    if given.get("op") != "fused_adam" or given.get("prebuilt") is True or given.get("gpu") is False:
        return
    if "nvcc" in given and given["nvcc"] is None:
        kind = given.get("type") if given.get("type") in ("Adam", "AdamW") else "AdamW"
        text = "FusedAdam cannot be compiled: no nvcc (CUDA_HOME is not set); torch_adam true"
        edits = (Edit(("optimizer", "type"), kind), Edit(("optimizer", "params", "torch_adam"), True))
        yield Ruling("fix", "torch-adam", text, "optimizer.params.torch_adam", "Use an image with FusedAdam", edits)


def no_gpu(given: Facts, world: Facts) -> Iterator[Ruling]:
    """Without a visible GPU the list of architectures is empty, and the build fails on its first entry."""
    name = given.get("op")
    if name in NEEDS_GPU and given.get("gpu") is False and given.get("prebuilt") is not True:
        text = f"{NAMES[str(name)]} cannot be JIT-built without a visible GPU: prebuild with TORCH_CUDA_ARCH_LIST"
        yield Ruling("warn", "jit-no-gpu", text, str(name), "Build it into the image with TORCH_CUDA_ARCH_LIST set")


def no_nvcc(given: Facts, world: Facts) -> Iterator[Ruling]:
    """Ops other than Adam have no replacement: where a GPU is seen they need nvcc, CPUAdam too."""
    name = given.get("op")
    if name not in NAMES or name == "fused_adam" or given.get("gpu") is False or given.get("prebuilt") is True:
        return
    if "nvcc" in given and given["nvcc"] is None:
        text = f"{NAMES[str(name)]} needs nvcc to be compiled where a GPU is seen, and there is none"
        fix = f"Use an image with the op built in (DS_BUILD_{str(name).upper()}=1)"
        yield Ruling("reject", "jit-nvcc", text, str(name), fix)


def forwarded(given: Facts, world: Facts) -> Iterator[Ruling]:
    """The single-node runner has no handler: it dies, launch.py and all ranks keep running."""
    if str(given.get("send")).upper() in CAUGHT:
        text = f"entrypoint forwards the signal to the process group and waits ({given['send']})"
        yield Ruling(
            "require", "signal-forward", text, str(given.get("to", "")), "Start through the image's entrypoint"
        )


def exit_status(given: Facts, world: Facts) -> Iterator[Ruling]:
    """The runner passes on only positive codes: a launcher that died of a signal looks like success."""
    if str(given.get("send")).upper() not in CAUGHT:
        text = "non-zero exit: a launcher or rank that died must not look like success"
        fix = "Start through the image's entrypoint, which asks each rank for proof of life"
        yield Ruling("require", "exit-status", text, str(given.get("to", "")), fix)


def cpu_reduces(given: Facts, world: Facts) -> Iterator[Ruling]:
    """ZeRO-1 on CPU issues no gradient reduction at all and says nothing: its grouping never matches."""
    if given.get("stage") == 1 and given.get("device") == "cpu":
        text = "do not use ZeRO-1 on CPU as a correctness test: it reduces no gradient there"
        yield Ruling("reject", "selftest-zero1-cpu", text, "stage", "Use stage 2 or 3")


def _version(value: Any) -> tuple[int, int] | None:
    parts = str(value).removeprefix("cu").split(".") if isinstance(value, (str, float)) else []
    if len(parts) == 1 and len(parts[0]) == 3 and parts[0].isdigit():
        parts = [parts[0][:2], parts[0][2]]  # cu121
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() and len(part) < 5 for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


OPS = (cuda_versions, adam, no_gpu, no_nvcc)
SIGNALS = (forwarded, exit_status)
SELFTESTS = (cpu_reduces,)
