"""Which libraries a training really runs with: those that are mapped into this process after a collective.

Not by hearsay: `torch.cuda.nccl.version()` is a constant of torch's build, whatever library is loaded (pytorch#122571,
NVIDIA/nccl#1212); so `ncclGetVersion` is called in the very file that is mapped. Where none is mapped NCCL is linked
into torch (NVIDIA/nccl#1171, #809), and the line that it prints at its start is read instead.

Each file's hash is told too: no check judges it, but by it two nodes' snapshots are compared. The smallest are hashed
first, and none after HASHING_S: libnccl alone has 200 MB.

The collective over NCCL, where a GPU is, has not been seen on hardware yet.
"""

import contextlib
import ctypes
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from telling import first_line, run, tell

KNOWN = re.compile(r"(libnccl-net|libnccl|libcudart|libcuda|libibverbs)(-[\w.]+)?\.so(\.|$)")
PROVIDER = re.compile(r"(lib\w+)-rdmav\d+\.so$")
HASHING_S = 2.0  # for all of them
BANNER = re.compile(r"NCCL version (\d+\.\d+\.\d+)")


def mapped(maps: str) -> list[tuple[str, str]]:
    """(name, path) of each library that matters, once, in the order of /proc/self/maps (proc(5))."""
    found: dict[str, str] = {}
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[5] if line.count("/") else ""
        file = path.rpartition("/")[2]
        match = KNOWN.match(file) or PROVIDER.match(file)
        if match:
            found.setdefault(path, match[1])
    return [(name, path) for path, name in found.items()]


def dotted(code: int) -> str:
    """22105 is 2.21.5; before 2.9 the steps were smaller: 2804 is 2.8.4 (nccl.h)."""
    major, minor, patch = (code // 10000, code // 100 % 100, code % 100) if code >= 10000 else _old(code)
    return f"{major}.{minor}.{patch}"


def _old(code: int) -> tuple[int, int, int]:
    return code // 1000, code // 100 % 10, code % 100


def version(name: str, path: str) -> str | None:
    """What the library itself says, else its file's name."""
    said = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        if name == "libnccl" and ctypes.CDLL(path).ncclGetVersion(ctypes.byref(said)) == 0:
            return dotted(said.value)
        if name == "libcudart" and ctypes.CDLL(path).cudaRuntimeGetVersion(ctypes.byref(said)) == 0:
            return f"{said.value // 1000}.{said.value % 1000 // 10}"
    in_name = re.search(r"\.so\.(\d+(\.\d+)+)$", path)
    return in_name[1] if in_name else None


def hashes(paths: list[str], seconds: float) -> dict[str, str]:
    """Path -> sha256 of those that could be read within so many seconds, the smallest first."""
    until, made = time.monotonic() + seconds, dict[str, str]()
    for path in sorted(paths, key=lambda path: os.path.getsize(path) if os.path.exists(path) else 0):
        hashed = sha256(path, until)
        if hashed is not None:
            made[path] = hashed
    return made


def sha256(path: str, until: float) -> str | None:
    """None where it cannot be read, or not before `until` (monotonic seconds)."""
    made = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(4 << 20):
                made.update(piece)
                if time.monotonic() > until:
                    return None
    except OSError:
        return None
    return made.hexdigest()


@contextlib.contextmanager
def nccl_log() -> Iterator[str]:
    """A file that NCCL writes its first line to: in memory, so that no kind of end leaves it behind."""
    handle = os.memfd_create("rig-nccl")
    try:
        path = f"/proc/self/fd/{handle}"
        os.environ.update(NCCL_DEBUG="VERSION", NCCL_DEBUG_FILE=path)
        yield path
    finally:
        os.close(handle)


def collect(log: str) -> dict[str, Any]:
    """A sum over gloo, and one over NCCL where a driver is loaded; the longest name says how far it went."""
    import torch
    from torch import distributed

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    distributed.all_reduce(torch.ones(4))
    told: dict[str, Any] = {"collective": "gloo", "nccl_built": distributed.is_nccl_available()}
    if os.path.exists("/proc/driver/nvidia/version") and torch.cuda.is_available():
        tell(asking="NCCL on the first GPU", **told)
        try:
            distributed.all_reduce(torch.ones(4, device="cuda:0"), group=distributed.new_group([0], backend="nccl"))
            torch.cuda.synchronize()
            told["collective"] = "nccl"
        except Exception as error:  # the driver or NCCL refuses; what is mapped can be told all the same
            told["collective_error"] = first_line(error)
        with contextlib.suppress(OSError), open(log) as file:
            said = BANNER.search(file.read())
            told["nccl_banner"] = said[1] if said else None
    return told


def verbs() -> dict[str, Any]:
    """Whether libibverbs loads, and the devices that it lists: for that it loads the provider of each."""
    try:
        library = ctypes.CDLL("libibverbs.so.1")
    except OSError as error:
        return {"verbs": False, "verbs_error": first_line(error)}
    library.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
    library.ibv_get_device_name.argtypes = [ctypes.c_void_p]
    library.ibv_get_device_name.restype = ctypes.c_char_p
    count = ctypes.c_int()
    listed = library.ibv_get_device_list(ctypes.byref(count))
    names = [(library.ibv_get_device_name(listed[index]) or b"").decode() for index in range(count.value)]
    return {"verbs": True, "verbs_devices": names}


def main() -> None:
    tell(asking="import of torch")
    with nccl_log() as log:
        told: dict[str, Any] = {}
        try:
            told = collect(log)
        except Exception as error:
            told = {"collective": None, "collective_error": first_line(error)}
    tell(asking="libibverbs", **told)
    tell(**verbs())
    tell(asking="libcuda")
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")  # which one it is, not whether it works
    with open("/proc/self/maps") as file:
        found = mapped(file.read())
    made = hashes([path for _, path in found], HASHING_S)
    tell(
        libraries=[
            {"name": name, "path": path, "version": version(name, path), "sha256": made.get(path)}
            for name, path in found
        ],
        nccl_static=bool(told.get("nccl_built")) and "libnccl" not in [name for name, _ in found],
        asking=None,
    )


if __name__ == "__main__":
    run(main)
