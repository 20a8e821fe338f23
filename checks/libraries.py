"""The image's shared libraries: one of each, no stand-ins for the driver's, and a loader that finds the right ones."""

from checks import CannotTell, check, known, say
from checks.needs import IMAGE
from checks.versions import image_copies, image_of, looked_at, release
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot

ONCE = ("libnccl", "libcudart", "libcublas", "libcudnn", "libnvrtc", "libnvJitLink")
# Elements of LD_LIBRARY_PATH that come from another system than this image, or that anybody can write.
FOREIGN = ("/host/", "/hostfs/", "/run/host/", "/mnt/", "/media/", "/home/")
SHARED = ("/tmp/", "/var/tmp/", "/dev/shm/")
CONSUMER = ("GeForce", "TITAN")
# Allocators and OpenMP runtimes: preloaded on purpose, and good for it.
PRELOADS = ("libjemalloc", "libtcmalloc", "libmimalloc", "libiomp5", "libgomp", "libomp", "libstdc++", "libhugetlbfs")


@check(at="quick", needs=(IMAGE,), domain="image", fix="remove the copy that is not torch's own, and run ldconfig")
def cuda_libraries_exist_once(now: Snapshot) -> Iterator[Finding]:
    """NCCL, cuDNN, cuBLAS, nvrtc, nvJitLink and the CUDA runtime lie in the image once each.

    Which of two copies is mapped depends on who is imported first, on RPATHs and on LD_LIBRARY_PATH: two processes of
    one job can differ. Two copies of one version only cost space.

    Symptom: `NCCL version 2.18.1` in the log of an image that was built with 2.21.5; hangs between such ranks.
    Source: pytorch/pytorch#119072, #186591, NVIDIA/nccl#1212; file names and dist-info folders.
    """
    known(looked_at(now, "libraries"), "the image's libraries")
    for name in ONCE:
        copies = image_copies(now, name)
        if len(copies) < 2:
            continue
        same = len({one.version for one in copies}) == 1
        told = ", ".join(f"{one.path} ({one.version or 'version unknown'})" for one in copies)
        outcome = "warn" if same else "fail"
        yield say(f"{len(copies)} copies of {name}: {told}", name, 1, len(copies), outcome=outcome)


@check(
    at="quick", needs=(IMAGE,), domain="image", fix="take the folder stubs out of LD_LIBRARY_PATH and /etc/ld.so.conf.d"
)
def loader_finds_no_stub_of_the_driver(now: Snapshot) -> Iterator[Finding]:
    """The loader cannot take a stub for the driver's libcuda.

    CUDA brings an empty libcuda to link against (lib64/stubs). Where the loader finds it first, every call of the
    driver answers CUDA error 34.

    Symptom: `CUDA driver is a stub library`; torch.cuda.is_available() is False on a machine with GPUs.
    Source: ld.so(8); CUDA_ERROR_STUB_LIBRARY in cuda.h.
    """
    known(looked_at(now, "libraries"), "the image's libraries")
    for path in image_of(now).stub_libraries:
        yield say(f"the loader finds a stub of the driver's library: {path} (CUDA error 34)", path)


@check(
    at="quick",
    needs=(IMAGE,),
    domain="image",
    fix="take the folder compat out of LD_LIBRARY_PATH and /etc/ld.so.conf.d",
)
def loader_finds_no_needless_compat_libcuda(now: Snapshot) -> Iterator[Finding]:
    """A forward-compatibility libcuda is found only where the driver is older and the GPU allows it.

    A compat folder carries the user half of one driver. It must be newer than the machine's driver, and GeForce cards
    do not take it at all.

    Symptom: CUDA error 804, `forward compatibility was attempted on non supported HW`; error 803 after an update.
    Source: CUDA compatibility guide; NVIDIA/nvidia-container-toolkit#291, NVIDIA/nvidia-docker#1515.
    """
    known(looked_at(now, "libraries"), "the image's libraries")
    consumer = next(
        (gpu.model for gpu in now.machine.gpus if any(word in (gpu.model or "") for word in CONSUMER)), None
    )
    driver = now.machine.kernel.driver
    for path in image_of(now).compat_libraries:
        brought = path.rpartition("/libcuda.so.")[2]
        if consumer is not None:
            yield say(f"the loader takes {path}, which {consumer} does not support: CUDA error 804", path)
        elif driver is None:
            text = f"the loader takes {path}: wrong on every machine whose driver is not older"
            yield say(text, path, outcome="warn")
        elif not release(brought) or release(brought) <= release(driver):
            text = f"the loader takes {path}, and the driver {driver} is not older: CUDA error 803 or 804"
            yield say(text, path, f"newer than {driver}", brought)


@check(
    at="quick",
    needs=(IMAGE,),
    domain="image",
    fix="name folders of the image only, no empty element: unset LD_LIBRARY_PATH",
)
def ld_library_path_is_clean(now: Snapshot) -> Iterator[Finding]:
    """LD_LIBRARY_PATH names folders of this image, each of them whole.

    An empty element (`:/usr/local/lib`, what `$LD_LIBRARY_PATH:...` makes of an unset variable) is the current folder:
    libraries are then taken from wherever a program is started. Folders of a host or of everybody's are no better.

    Symptom: `version 'GLIBC_2.36' not found`; another NCCL than the image's, in some working folders only.
    Source: ld.so(8).
    """
    image = image_of(now)
    blamed = {path.rpartition("/")[0] for path in image.stub_libraries}  # loader_finds_no_stub_of_the_driver
    told = ":".join(image.ld_path)
    for element in image.ld_path:
        path = f"{element.rstrip('/')}/"
        if not element:
            yield say(f"LD_LIBRARY_PATH={told} has an empty element: the current folder", "LD_LIBRARY_PATH", None, told)
        elif not element.startswith("/"):
            yield say(
                f"LD_LIBRARY_PATH has {element}, which depends on the working folder", "LD_LIBRARY_PATH", None, told
            )
        elif "/stubs/" in path and element.rstrip("/") not in blamed:
            yield say(f"LD_LIBRARY_PATH has {element}: stubs are for linking only", "LD_LIBRARY_PATH", None, told)
        elif path.startswith(FOREIGN):
            text = f"LD_LIBRARY_PATH has {element}: libraries of another system than this image's"
            yield say(text, "LD_LIBRARY_PATH", None, told, outcome="warn", domain="user")
        elif path.startswith(SHARED):
            yield say(f"LD_LIBRARY_PATH has {element}, which everybody can write", "LD_LIBRARY_PATH", None, told)


@check(at="quick", needs=(IMAGE,), severity="warn", domain="user", fix="unset LD_PRELOAD")
def preloaded_libraries_are_harmless(now: Snapshot) -> Iterator[Finding]:
    """Nothing is preloaded into every process but allocators and OpenMP runtimes.

    A preloaded library comes before all others, torch's own included: a libnccl or libcuda there is the one that runs,
    whatever the image holds; sanitizers and profilers slow every rank.

    Symptom: a NCCL version in the log that no file of the environment has.
    Source: ld.so(8), LD_PRELOAD and /etc/ld.so.preload; verl-project/verl#6621.
    """
    for word in image_of(now).ld_preload:
        name = word.rpartition("/")[2]
        if not name.startswith(PRELOADS):
            yield say(f"{word} is preloaded into every process", "LD_PRELOAD", None, word)


@check(at="quick", needs=(IMAGE,), domain="image", fix="apt-get install libibverbs1 ibverbs-providers librdmacm1")
def image_brings_libibverbs(now: Snapshot) -> Iterator[Finding]:
    """libibverbs is in the image.

    NCCL loads it by name and, where it is not there, takes TCP: no error, a tenth of the speed. It is the image's to
    bring; the host's checks cannot see that it is missing.

    Symptom: `NET/Socket` in NCCL's log on a machine with HCAs.
    Source: NVIDIA/nccl src/misc/ibvwrap.cc; NVIDIA/nvidia-container-toolkit#1877.
    """
    known(looked_at(now, "libraries"), "the image's libraries")
    if not image_copies(now, "libibverbs"):
        yield say("no libibverbs in the image: NCCL will use TCP and not say so", "libibverbs.so.1")


@check(at="quick", needs=(IMAGE,), domain="image", fix="apt-get install ibverbs-providers")
def image_brings_rdma_providers(now: Snapshot) -> Iterator[Finding]:
    """The user-space drivers of HCAs are in the image: each registered, and each with its library.

    libibverbs reads /etc/libibverbs.d for names and loads lib<name>-rdmav<N>.so from its folder. With either gone
    `ibv_devices` is empty, and NCCL takes TCP. Warnings about drivers of other makes are harmless.

    Symptom: `libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0`.
    Source: rdma-core libibverbs/init.c; NVIDIA/nccl#1044, NVIDIA/nvidia-container-toolkit#1877.
    """
    known(looked_at(now, "libraries"), "the image's libraries")
    if not image_copies(now, "libibverbs"):
        raise CannotTell("no libibverbs that could load them")
    named = known(image_of(now).providers, "/etc/libibverbs.d")
    files = known(image_of(now).verbs_files, "the providers beside libibverbs")
    if not named or not files:
        where = "/etc/libibverbs.d" if not named else "the folder libibverbs"
        yield say(f"no RDMA provider in {where}: NCCL will use TCP and not say so", where, "mlx5, efa, ...")
    elif "mlx5" not in named or "mlx5" not in files:
        text = "the provider mlx5 is not whole: ConnectX cards cannot be used"
        yield say(text, "mlx5", "mlx5.driver and libmlx5-rdmav*.so", None)
