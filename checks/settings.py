"""Variables of the user that slow or change every rank."""

from checks import check, known, say
from rig.finding import Finding
from rig.lean import Iterator, Mapping
from rig.snapshot import Snapshot

# Left over from a search for a fault: the values that count (none: any but 0) and what they do. Those of CUDA and
# NCCL are judged in checks/cuda.py and checks/nccl.py.
DEBUGGING: Mapping[str, tuple[tuple[str, ...], str]] = {
    "TORCH_DISTRIBUTED_DEBUG": (("DETAIL",), "each collective is checked by another one"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ((), "each tensor is a cudaMalloc of its own"),
    "TORCH_CUDA_SANITIZER": ((), "every access of every kernel is recorded"),
    "PYTHONDEVMODE": ((), "Python checks every allocation"),
    "PYTHONMALLOC": (("DEBUG", "MALLOC_DEBUG", "PYMALLOC_DEBUG"), "Python checks every allocation"),
}
OFF = ("", "0", "OFF", "FALSE", "NO")
PACKAGED = ("/site-packages", "/dist-packages")
PER_CPU = 2  # threads that a CPU may be given before ranks get into one another's way


@check(at="quick", severity="warn", domain="user", fix="unset the variable")
def no_debugging_of_ranks_is_left_on(now: Snapshot) -> Iterator[Finding]:
    """No variable of a search for a fault is left on.

    They make programs wait, print or copy at every step, and stay in shell profiles and pod specs long after.

    Symptom: half the speed on every machine; logs of gigabytes.
    Source: environment variables in the documentation of PyTorch and Python.
    """
    for name, (values, effect) in DEBUGGING.items():
        told = now.environ.get(name)
        if told is None or told.upper() in OFF:
            continue
        if not values or told.upper() in values:
            yield say(f"{name}={told}: {effect}", name, None, told, f"unset {name}")


@check(at="quick", domain="user", fix="unset PYTHONPATH PYTHONHOME")
def python_finds_the_images_packages(now: Snapshot) -> Iterator[Finding]:
    """No variable puts another Python's packages before those of the image.

    Every folder of PYTHONPATH comes before /opt/venv. A site-packages of another environment there brings its torch or
    half of it. Folders with a user's own code are innocent.

    Symptom: another torch than `pip list` shows; `undefined symbol` at import.
    Source: docs.python.org, PYTHONPATH and PYTHONHOME.
    """
    home = now.environ.get("PYTHONHOME")
    if home:
        yield say(f"PYTHONHOME={home}: Python takes its own library from there", "PYTHONHOME", None, home)
    for element in now.environ.get("PYTHONPATH", "").split(":"):
        path = element.rstrip("/")
        if path.endswith(PACKAGED) and not path.startswith("/opt/venv/"):
            yield say(f"PYTHONPATH puts {element} before the image's packages", "PYTHONPATH", None, element)


@check(at="quick", severity="warn", domain="user", fix="unset OMP_NUM_THREADS: the launcher chooses it per rank")
def threads_fit_the_cpus(now: Snapshot) -> Iterator[Finding]:
    """OMP_NUM_THREADS is a number that all ranks together have CPUs for.

    Each rank starts that many for every operation on the CPU: data loading, offloaded Adam. Too many and they take
    turns; what is no number is ignored, and every rank takes all CPUs.

    Symptom: a load of hundreds, GPUs idle; offloaded steps ten times slower.
    Source: OpenMP 5.2, section 21.1.2 (OMP_NUM_THREADS); torch.distributed.run sets 1 by itself.
    """
    told = now.environ.get("OMP_NUM_THREADS")
    if not told:
        return
    first = told.partition(",")[0].strip()
    if not (first.isascii() and first.isdigit()) or int(first) == 0:
        yield say(f"OMP_NUM_THREADS={told} is no number of threads", "OMP_NUM_THREADS", None, told)
        return
    counts = [count for count in (now.machine.limits.cpus, now.machine.cpu.online) if count and count > 0]
    cpus = known(min(counts, default=None), "how many CPUs there are")  # a limit of -1 is none
    ranks = max(1, len(now.machine.gpus))
    if int(first) * ranks > PER_CPU * cpus:
        text = f"OMP_NUM_THREADS={told} for {ranks} ranks is {int(first) * ranks} threads on {cpus:g} CPUs"
        yield say(text, "OMP_NUM_THREADS", max(1, int(cpus) // ranks), int(first))
