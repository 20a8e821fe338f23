"""What is really in the image, compared with the pins it was built from.

Runs with the user's Python as a build step: `readback.py FILE NAME=VALUE ...`. Writes the content to FILE as JSON; a
difference, a second copy of a CUDA library or an unknown pin ends it with status 1 and one line each.
"""

import ctypes
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

# Pinned by names of their own.
OWN_PIN = {"nvidia-cudnn-cu12", "nvidia-nccl-cu12"}
# Libraries that do not count as CUDA does: their numbers in each CUDA release (its release notes, table of components).
COMPONENTS = {
    "12.1": {"nvidia-cufft-cu12": "11.0.2.", "nvidia-curand-cu12": "10.3.2.", "nvidia-cusolver-cu12": "11.4.5."}
}
ONE_EACH = ("libnccl", "libcudart", "libcublas", "libcudnn")
# What `pip check` may say, and nothing else: requirements/overrides.txt has the reasons.
EXPECTED_COMPLAINTS = (
    r"torch \S+ has requirement nvidia-nccl-cu12==2\.18\.1; .*but you have nvidia-nccl-cu12 \S+\.",
    r"deepspeed \S+ requires pynvml, which is not installed\.",
)


def version(name: str) -> str:
    return importlib.metadata.version(name)


def mapped(library: str) -> list[str]:
    """Files of this library that this process has mapped."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        paths = {line.split()[-1] for line in lines if f"/{library}.so" in line}
    return sorted(paths)


def nccl_version() -> str:
    """What the mapped libnccl itself reports after a collective; torch's own constant is of compile time."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29999", rank=0, world_size=1)
    dist.all_reduce(torch.ones(1))
    [path] = mapped("libnccl")
    number = ctypes.c_int()
    if ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number)) != 0:
        raise SystemExit("ncclGetVersion failed")
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def torch_build() -> tuple[str, str]:
    """torch's own version and the CUDA it was built for. A CPU build is an error of its own."""
    import torch

    return torch.__version__.partition("+")[0], str(torch.version.cuda)


def cuda_wheels() -> dict[str, str]:
    names = (str(item.metadata["Name"]) for item in importlib.metadata.distributions())
    return {name: version(name) for name in sorted(names) if name.startswith("nvidia-") and name.endswith("-cu12")}


def copies(library: str) -> list[str]:
    """Every file of that library in the image; symbolic links are not copies."""
    pattern = re.compile(rf"{library}\.so(\.\d+)*$")
    found = []
    for folder, folders, files in os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name not in ("proc", "sys", "dev")]
        found += [os.path.join(folder, name) for name in files if pattern.match(name)]
    return sorted(path for path in found if not os.path.islink(path))


def deepspeed_version() -> str:
    import deepspeed

    return str(deepspeed.__version__).partition("+")[0]


READ: dict[str, Callable[[], str]] = {
    "CUDA_VERSION": lambda: torch_build()[1],
    "TORCH_VERSION": lambda: torch_build()[0],
    "DEEPSPEED_VERSION": deepspeed_version,
    "NCCL_VERSION": nccl_version,
    "CUDNN_VERSION": lambda: ".".join(version("nvidia-cudnn-cu12").split(".")[:3]),
    "NVJITLINK_VERSION": lambda: version("nvidia-nvjitlink-cu12"),
    "DRIVER_FLOOR": lambda: os.environ.get("NVIDIA_REQUIRE_CUDA", "").removeprefix("driver>="),
}


def faults(pins: dict[str, str], content: dict[str, str], wheels: dict[str, str]) -> Iterator[str]:
    for name, want in pins.items():
        if name not in content:
            yield f"pin {name} is not read back from the image: unknown here"
        elif content[name] != want:
            yield f"pin {name} is {want}, the image holds {content[name]}"
    for name, got in wheels.items():
        want = COMPONENTS.get(pins["CUDA_VERSION"], {}).get(name, pins["CUDA_VERSION"] + ".")
        if name not in OWN_PIN and not got.startswith(want):
            yield f"{name} is {got}, not of CUDA {pins['CUDA_VERSION']}"


def complaints() -> Iterator[str]:
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        known = any(re.fullmatch(pattern, line) for pattern in EXPECTED_COMPLAINTS)
        if not known and not line.startswith("No broken requirements"):
            yield f"pip check: {line}"


def main() -> int:
    pins = dict(argument.split("=", 1) for argument in sys.argv[2:])
    content = {name: read() for name, read in READ.items()}
    wheels = cuda_wheels()
    wrong = [*faults(pins, content, wheels), *complaints()]
    files = {library: copies(library) for library in ONE_EACH}
    wrong += [f"{len(found)} copies of {name}: {', '.join(found)}" for name, found in files.items() if len(found) != 1]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"pins": content, "cuda_wheels": wheels, "libraries": files}, out, indent=1)
    for line in wrong:
        print(f"readback: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    os._exit(status)  # past the end of gloo's threads: patches/deepspeed-0.12.6-cpu-gloo.patch has the reason
