"""Which libraries a training really runs with, as they are mapped after a collective; never by hearsay."""

from checks import CannotTell, check, known, say
from checks.measured import told, users_own
from checks.needs import GPU, PINS, RDMA, TORCH
from checks.rails import fabric
from checks.versions import image_copies, is_of, looked_at, release
from rig.finding import Finding
from rig.lean import Any, Iterator, Mapping
from rig.machine import Hca
from rig.plan.hca import has_provider, provider_of
from rig.snapshot import Snapshot

VENV = "/opt/venv/"
PROBE = "library_identity"
SEARCH = "LD_LIBRARY_PATH and /etc/ld.so.conf.d"


def mapped(now: Snapshot, name: str) -> list[Mapping[str, Any]]:
    """The copies of a library that are mapped."""
    libraries = known(told(now, PROBE).get("libraries"), "the mapped libraries")
    return [one for one in libraries if one["name"] == name]


def _told_by_files(now: Snapshot, name: str) -> bool:
    """Whether cuda_libraries_exist_once fails for this library already."""
    return len({one.version for one in image_copies(now, name)}) > 1


def environment(now: Snapshot) -> str:
    """The folder of the user's Python environment, with its slash. Empty where NCCL is the system's by design."""
    path = now.machine.libraries.nccl_path or f"{VENV}lib/python"
    return path.partition("lib/python")[0] if "lib/python" in path else ""


def _same_file(one: str, other: str) -> bool:
    """Whether two paths are one file of an environment, whatever links lead to it."""
    within = [path.partition("site-packages/")[2] or path for path in (one, other)]
    return within[0] == within[1]


def _paths(copies: list[Mapping[str, Any]]) -> str:
    return ", ".join(f"{one['path']} ({one['version'] or '?'})" for one in copies)


def _asked_for(now: Snapshot, path: str) -> str:
    """The user's variable that brought a library in; empty where none did."""
    preloaded = now.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    if path in preloaded:
        return "LD_PRELOAD"
    folders = [folder.rstrip("/") for folder in now.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return "LD_LIBRARY_PATH" if path.rpartition("/")[0] in folders else ""


@check(
    at="quick",
    needs=(TORCH, PINS),
    domain="image",
    fix="rebuild the image, or set the pin to what it holds",
    probe=PROBE,
)
def mapped_nccl_is_the_pinned_one(now: Snapshot) -> Iterator[Finding]:
    """The NCCL that a collective maps has the version that the image is pinned to.

    Asked of the mapped file itself: torch's own answer is a constant of its build. Where NCCL is linked into torch
    there is no file, and the line that it prints at its start counts. A version that the file tells already is
    nccl_is_the_pinned_one's, another file mapped_nccl_is_the_one_that_was_planned_for's.

    Symptom: "I installed 2.20 and it runs 2.18"; a version mismatch between nodes hangs.
    Source: pytorch/pytorch#122571, NVIDIA/nccl#1212, #1171, #809; verl-project/verl PR#6621.
    """
    data, pin = told(now, PROBE), known(now.pins.get("NCCL_VERSION"), "the pin of NCCL")
    copies = mapped(now, "libnccl")
    if not copies:
        if not known(data.get("nccl_static"), "whether NCCL is linked into torch"):
            raise CannotTell("this torch has no NCCL")
        version = known(data.get("nccl_banner"), "the version of the NCCL inside torch")
        copies = [{"path": "inside torch", "version": version}]
    planned, of_file = now.machine.libraries.nccl_path, now.machine.libraries.nccl_version
    for one in copies:
        version = known(one["version"], f"the version of {one['path']}")
        elsewhere = planned is not None and not _same_file(one["path"], planned) and not data.get("nccl_static")
        if version != pin and release(version) != of_file and not elsewhere:
            yield say(f"NCCL {one['version']} is mapped, the pin is {pin}", one["path"], pin, one["version"])


@check(
    at="quick",
    needs=(TORCH,),
    domain="image",
    fix="remove the second copy, or the variable that brings it in",
    probe=PROBE,
)
def nccl_is_mapped_once(now: Snapshot) -> Iterator[Finding]:
    """One copy of NCCL is mapped, not two.

    With two, torch may call one and a plugin or an extension the other: each has its own communicators. A torch that
    has NCCL inside maps none, which is fine.

    Symptom: hangs or crashes that go away with LD_PRELOAD, or come with it.
    Source: pytorch/pytorch#119072, NVIDIA/nccl#1212.
    """
    copies = mapped(now, "libnccl")
    if len(copies) > 1 and not _told_by_files(now, "libnccl"):
        yield say(f"{len(copies)} copies of NCCL are mapped: {_paths(copies)}", "libnccl", 1, len(copies))


@check(
    at="quick",
    needs=(TORCH,),
    domain="image",
    fix="remove the copy that is found first, or its folder from the search path",
    probe=PROBE,
)
def mapped_nccl_is_the_one_that_was_planned_for(now: Snapshot) -> Iterator[Finding]:
    """The plan's settings are made for the NCCL that is really used.

    Which variables exist depends on the version; the plan reads it from the file in the user's environment.

    Symptom: a setting has no effect, although it is written down.
    Source: NVIDIA/nccl#1212; docs.nvidia.com, NCCL environment variables, "since".
    """
    planned = known(now.machine.libraries.nccl_path, "the NCCL that the plan is made for")
    copies = mapped(now, "libnccl")
    if any(_same_file(one["path"], planned) for one in copies):
        return  # a second one is nccl_is_mapped_once's
    for one in copies:
        variable = _asked_for(now, one["path"])
        if variable or not _told_by_files(now, "libnccl"):
            text = f"{one['path']} is mapped, the plan is made for {planned}"
            fix = f"unset {variable}, or take that file out of it" if variable else ""
            yield say(text, "libnccl", planned, one["path"], fix, domain="user" if variable else "")


@check(at="quick", needs=(TORCH,), domain="image", fix="remove the second copy from the environment", probe=PROBE)
def cuda_runtime_is_mapped_once(now: Snapshot) -> Iterator[Finding]:
    """One CUDA runtime is mapped, not two.

    Each keeps its own state: an extension built against another one fails with an invalid device function.

    Symptom: `invalid device function`, symbols that are missing.
    Source: pytorch/pytorch#119072; CUDA runtime API, "device management" is per library.
    """
    copies = mapped(now, "libcudart")
    if len(copies) > 1 and not _told_by_files(now, "libcudart"):
        yield say(f"{len(copies)} CUDA runtimes are mapped: {_paths(copies)}", "libcudart", 1, len(copies))


@check(
    at="quick",
    needs=(TORCH, PINS),
    domain="image",
    fix="rebuild the image, or set the pin to what it holds",
    probe=PROBE,
)
def mapped_cuda_runtime_is_the_pinned_one(now: Snapshot) -> Iterator[Finding]:
    """The CUDA runtime that torch maps is of the pinned version.

    Another one comes in with a dependency that was resolved without the lock. One that its wheel gives away is
    cuda_wheels_are_of_one_line's, one from elsewhere cuda_libraries_come_from_the_users_environment's.

    Symptom: ops compiled for one CUDA are loaded beside another.
    Source: deepspeedai/DeepSpeed#3223.
    """
    pin = known(now.pins.get("CUDA_VERSION"), "the pin of CUDA")
    wheel = now.image.packages.get("nvidia-cuda-runtime-cu12") if now.image is not None else None
    for one in mapped(now, "libcudart"):
        version = known(one["version"], f"the version of {one['path']}")
        elsewhere = not one["path"].startswith(environment(now)) or (wheel is not None and not is_of(wheel, pin))
        if version != pin and not elsewhere:
            yield say(f"CUDA runtime {version} is mapped, the pin is {pin}", one["path"], pin, version)


@check(at="quick", needs=(TORCH,), domain="image", fix=f"take that folder out of {SEARCH}", probe=PROBE)
def cuda_libraries_come_from_the_users_environment(now: Snapshot) -> Iterator[Finding]:
    """The CUDA runtime, and a NCCL that no plan was made for, are mapped from the environment that torch is in.

    A copy of the system, or of the host, is found first where a search path names its folder; it is updated by somebody
    else.

    Symptom: it works until the base image changes.
    Source: NVIDIA/nccl#1212 (the job's banner says 2.14.3, torch 2.19.3).
    """
    home, names = environment(now), ("libcudart", *(() if now.machine.libraries.nccl_path else ("libnccl",)))
    for one in (copies[0] for name in names if len(copies := mapped(now, name)) == 1):
        variable = _asked_for(now, one["path"])
        if not one["path"].startswith(home) and (variable or not _told_by_files(now, one["name"])):
            fix = f"unset {variable}, or take that file out of it" if variable else ""
            text = f"{one['path']} is mapped, which is not in {home}"
            yield say(text, one["name"], home, one["path"], fix, domain="user" if variable else "")


@check(
    at="quick",
    needs=(TORCH, GPU),
    domain="host",
    fix="restart the container; after an upgrade of the driver reboot",
    probe=PROBE,
)
def mapped_libcuda_is_of_the_driver_that_runs(now: Snapshot) -> Iterator[Finding]:
    """The libcuda in this process belongs to the kernel module that is loaded.

    The runtime puts the host's libraries into the container when it starts; an upgrade afterwards leaves two versions.
    Where the usual folders show it driver_and_its_libraries_are_of_one_version says it; of stubs and compat libraries
    the family libraries speaks.

    Symptom: CUDA error 803, `Driver/library version mismatch`.
    Source: NVIDIA/nvidia-container-toolkit#48; cuda.h, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH.
    """
    driver = known(now.machine.kernel.driver, "the driver's version")
    copies, told_of = mapped(now, "libcuda"), (now.host.driver_libraries or ()) if now.host is not None else ()
    if not copies:
        raise CannotTell("libcuda is not mapped")
    for one in copies:
        if one["path"] in told_of or {"compat", "stubs"} & set(one["path"].split("/")):
            continue
        version = known(one["version"], f"the version of {one['path']}")
        if version != driver:
            yield say(
                f"libcuda {version} is mapped, the driver is {driver}: CUDA error 803", "libcuda", driver, version
            )


@check(
    at="quick", needs=(TORCH, RDMA), domain="image", fix="apt-get install libibverbs1 ibverbs-providers", probe=PROBE
)
def libibverbs_can_be_loaded(now: Snapshot) -> Iterator[Finding]:
    """The library that NCCL needs for RDMA can be loaded.

    NCCL opens it when it starts, and goes on over sockets without a word when it cannot. The host's tools are all green
    then. That its file is missing is told by others.

    Symptom: ten times slower, no error.
    Source: NVIDIA/nvidia-container-toolkit#1877; NCCL src/misc/ibvwrap.cc.
    """
    data, missing = told(now, PROBE), looked_at(now, "libraries") and not image_copies(now, "libibverbs")
    loads = known(data.get("verbs"), "whether libibverbs loads")
    if not loads and not missing and now.machine.libraries.libibverbs is not False:
        yield say(f"libibverbs cannot be loaded: {data.get('verbs_error')}; NCCL falls back to TCP", "libibverbs")


@check(
    at="quick",
    needs=(TORCH, RDMA),
    domain="image",
    fix="read the warnings of ibv_devinfo; apt-get install --reinstall ibverbs-providers",
    probe=PROBE,
)
def libibverbs_lists_every_hca(now: Snapshot) -> Iterator[Finding]:
    """libibverbs lists each RDMA device of the fabric that this container was given.

    It leaves out what its provider cannot drive; NCCL then uses fewer rails, or none. A provider that is missing
    altogether is told by others, and of a device without a node nothing is said: a pod sees the host's devices too.

    Symptom: half of the bandwidth, `No device found` of ibv_devinfo.
    Source: libibverbs ibv_get_device_list(3); NVIDIA/nccl#1044.
    """
    data = told(now, PROBE)
    if data.get("verbs") is False:
        raise CannotTell("libibverbs cannot be loaded")
    seen = known(data.get("verbs_devices"), "the devices of libibverbs")
    for hca in fabric(now):
        if hca.uverbs is not None and hca.name not in seen and _provided(now, hca):
            yield say(f"{hca.name} is not listed by libibverbs, which has a provider for {hca.driver}", hca.name)


def _provided(now: Snapshot, hca: Hca) -> bool:
    """Whether the files promise that it can be driven."""
    named = now.image.providers if now.image is not None else None
    return has_provider(now.machine, hca) and (named is None or provider_of(hca) in (None, *named))


@check(
    at="quick",
    needs=(TORCH,),
    domain="image",
    fix="run the probe by hand: python /opt/rig/checks/probes/library_identity.py",
    probe=PROBE,
)
def a_collective_can_be_made(now: Snapshot) -> Iterator[Finding]:
    """torch sums over gloo, and over NCCL on the first GPU where there is one.

    The smallest thing that a training does; without it nothing else is worth asking.

    Symptom: the first all-reduce ends with an error.
    Source: torch.distributed; NVIDIA/NVSentinel#763.
    """
    data = told(now, PROBE)
    if data.get("collective_error"):
        way = "over NCCL on the first GPU" if data.get("collective") else "at all"
        domain, theirs = "host" if data.get("collective") else "", users_own(now, data["collective_error"])
        fix, domain = (theirs.fix, "user") if theirs and not domain else ("", domain)
        yield say(f"no collective {way}: {data['collective_error']}", "torch.distributed", fix=fix, domain=domain)
    elif data.get("collective") is None:
        raise CannotTell("whether a collective works: not known")
