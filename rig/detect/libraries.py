"""The libraries of the image that NCCL needs, by their files; none is loaded.

Sources: NVIDIA/nccl src/misc/ibvwrap.cc and net plugin loading (libnccl-net.so), rdma-core (libibverbs/init.c,
/etc/libibverbs.d, provider files lib<name>-rdmav<abi>.so), PEP 376 (dist-info folders).
"""

from rig.machine import Libraries
from rig.root import Root
from rig.text import whole

ENVIRONMENT = "/opt/venv/lib"  # the user's Python environment in our images
TRIPLETS = ("x86_64-linux-gnu", "aarch64-linux-gnu")
SYSTEM = ("/usr/local/lib", "/usr/lib64", "/usr/lib")
PLUGIN_FOLDERS = (
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/aws-ofi-nccl/lib",
    "/opt/hpcx/nccl_rdma_sharp_plugin/lib",
    "/usr/local/nccl-rdma-sharp-plugins/lib",
    "/usr/local/nvidia/lib64",
)
PLUGINS = ("libnccl-net.so", "libnccl-net-ofi.so")


def parse_version(text: str) -> tuple[int, int, int] | None:
    """(2, 21, 5) of `2.21.5`, `2.21.5.post1` and `2.18.3+cuda12.1`; None without three leading numbers."""
    parts = text.partition("+")[0].partition("-")[0].split(".")[:3]
    numbers = [whole(part, 0, 999) for part in parts]
    if len(numbers) != 3 or None in numbers:
        return None
    major, minor, patch = (number or 0 for number in numbers)
    return (major, minor, patch)


def parse_distribution(name: str, prefix: str) -> str | None:
    """`2.21.5` of `nvidia_nccl_cu12-2.21.5.dist-info` for prefix `nvidia_nccl_cu`."""
    if not name.startswith(prefix) or not name.endswith(".dist-info"):
        return None
    return name[: -len(".dist-info")].partition("-")[2] or None


def parse_provider(name: str) -> str | None:
    """`mlx5` of `libmlx5-rdmav34.so`, and of `mlx5.driver` in /etc/libibverbs.d."""
    if name.endswith(".driver"):
        return name[: -len(".driver")] or None
    if name.startswith("lib") and "-rdmav" in name and name.endswith(".so"):
        return name[3:].partition("-rdmav")[0] or None
    return None


def parse_folders(text: str | None) -> list[str]:
    """Folders in a file of /etc/ld.so.conf.d."""
    lines = (entry.partition("#")[0].strip() for entry in (text or "").splitlines())
    return [entry.rstrip("/") for entry in lines if entry.startswith("/")]


def system_folders(root: Root) -> tuple[str, ...]:
    """Where the dynamic linker looks, in its order: /etc/ld.so.conf.d, then its own folders. No LD_LIBRARY_PATH."""
    folders: dict[str, None] = {}
    for name in root.ls("/etc/ld.so.conf.d"):
        if name.endswith(".conf"):
            folders.update(dict.fromkeys(parse_folders(root.read(f"/etc/ld.so.conf.d/{name}"))))
    folders.update(dict.fromkeys(SYSTEM))
    present = set(root.ls("/usr/lib"))
    folders.update(dict.fromkeys(f"/usr/lib/{triplet}" for triplet in TRIPLETS if triplet in present))
    return tuple(folders)


def read_environment(root: Root) -> tuple[str | None, tuple[int, int, int] | None, tuple[int, int] | None]:
    """NCCL's file and version and the CUDA runtime's version in the user's Python environment. The wheels' folders tell
    the versions (2.21.5 from nvidia_nccl_cu12-2.21.5.dist-info): reading 245 MB for a string would take a second."""
    for python in root.ls(ENVIRONMENT):
        packages = f"{ENVIRONMENT}/{python}/site-packages"
        path = f"{packages}/nvidia/nccl/lib/libnccl.so.2"
        if not python.startswith("python3") or root.link(path) is None:
            continue
        nccl = cuda = None
        for name in root.ls(packages):
            if (told := parse_distribution(name, "nvidia_nccl_cu")) is not None:
                nccl = parse_version(told)
            elif (told := parse_distribution(name, "nvidia_cuda_runtime_cu")) is not None:
                number = parse_version(told)
                cuda = None if number is None else number[:2]
        return path, nccl, cuda
    return None, None, None


def read_system_nccl(root: Root, folders: tuple[str, ...]) -> tuple[str | None, tuple[int, int, int] | None]:
    """A distribution's NCCL: libnccl.so.2 is a link to libnccl.so.2.18.3."""
    for folder in folders:
        target = root.link(f"{folder}/libnccl.so.2")
        if target is not None:
            return f"{folder}/libnccl.so.2", parse_version(target.rpartition("/libnccl.so.")[2])
    return None, None


def read_providers(root: Root, folders: tuple[str, ...]) -> tuple[str, ...]:
    """rdma-core's providers, by their files beside libibverbs."""
    found: dict[str, None] = {}
    for folder in folders:
        for name in root.ls(f"{folder}/libibverbs"):
            provider = parse_provider(name)
            if provider is not None:
                found[provider] = None
    return tuple(sorted(found))


def read_libraries(root: Root) -> Libraries:
    """What the image brings. `ib_providers` is None where there is no libibverbs to load them."""
    folders = system_folders(root)
    path, nccl, cuda = read_environment(root)
    if path is None:
        path, nccl = read_system_nccl(root, folders)
    verbs = any(root.link(f"{folder}/libibverbs.so.1") is not None for folder in folders)
    plugins = [
        f"{folder}/{name}"
        for folder in dict.fromkeys((*PLUGIN_FOLDERS, *folders))
        for name in PLUGINS
        if root.link(f"{folder}/{name}") is not None
    ]
    return Libraries(path, nccl, verbs, read_providers(root, folders) if verbs else None, tuple(plugins), cuda)
