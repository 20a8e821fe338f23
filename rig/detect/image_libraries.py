"""The user's packages, every copy of the CUDA libraries, and where the dynamic linker looks.

Nothing is loaded: versions come from dist-info folders (PEP 376) and file names. Sources: ld.so(8) (LD_LIBRARY_PATH: an
empty element is the current folder; LD_PRELOAD), ldconfig(8) (/etc/ld.so.conf.d), rdma-core libibverbs/init.c
(/etc/libibverbs.d, lib<name>-rdmav<abi>.so), PEP 405 (pyvenv.cfg), CUDA's version.json.
"""

import re

from rig.image import Image, Library
from rig.lean import Iterator, Mapping, NamedTuple
from rig.root import Root, Running
from rig.text import line, whole

DEADLINE_S = 6.0
VENV = "/opt/venv"
ONE_EACH = ("libnccl", "libcudart", "libcublas", "libcudnn", "libnvrtc", "libnvJitLink", "libibverbs", "libcuda")
SYSTEM = ("/usr/local/lib", "/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
# Programs that the launchers and the probes of checks call.
TOOLS = ("ssh", "sshd", "pdsh", "pkill", "ibv_devinfo", "ib_write_bw")
STUB_BYTES = 1 << 20  # the driver's own libcuda has more than 20 MB, a stub some 50 KB
# A wheel's copy of a library can have a digest in its name: libcudart-d0da41ae.so.11.0.
NAME = re.compile(rf"({'|'.join(ONE_EACH)})(?:-[0-9a-f]+)?\.so((?:\.\d+)*)")
RELEASE = re.compile(r"release (\d+\.\d+)")


class Asked(NamedTuple):
    """The children that look, started beside one another."""

    files: Running
    nvcc: Running | None
    environ: Mapping[str, str]


def parse_packages(names: list[str]) -> dict[str, str]:
    """`nvidia_nccl_cu12-2.21.5.dist-info` -> {"nvidia-nccl-cu12": "2.21.5"}."""
    found = {}
    for name in names:
        package, _, version = name.removesuffix(".dist-info").partition("-")
        if name.endswith(".dist-info") and package and version:
            found[re.sub(r"[-_.]+", "-", package).lower()] = version
    return found


def parse_library(path: str, packages: Mapping[str, str]) -> Library | None:
    """A library by its file. The wheels of NVIDIA name no version in theirs; their dist-info does."""
    match = NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    version = match[2].lstrip(".") or None
    wheel = re.search(r"/nvidia/(\w+)/lib/[^/]+$", path)
    if wheel is not None:
        start = f"nvidia-{wheel[1].replace('_', '-')}-cu"
        version = next((told for name, told in packages.items() if name.startswith(start)), version)
    return Library(match[1], path, version)


def parse_files(text: str) -> dict[str, int]:
    """Path -> bytes of what find printed."""
    found = {}
    for entry in text.splitlines():
        size, _, path = entry.partition(" ")
        number = whole(size)
        if path.startswith("/") and number is not None:
            found[path] = number
    return found


def parse_pyvenv(text: str | None) -> tuple[str | None, str | None]:
    """Version and folder of the interpreter that an environment was made with; uv and virtualenv say version_info."""
    told = {
        key.strip(): value.strip()
        for key, sign, value in (entry.partition("=") for entry in (text or "").splitlines())
        if sign
    }
    version = told.get("version") or told.get("version_info")
    return (".".join(version.split(".")[:3]) if version else None), told.get("home")


def parse_conf(text: str | None) -> list[str]:
    """Folders in a file of /etc/ld.so.conf.d."""
    lines = (entry.partition("#")[0].strip() for entry in (text or "").splitlines())
    return [entry.rstrip("/") or "/" for entry in lines if entry.startswith("/")]


def parse_providers(names: list[str]) -> tuple[str, ...]:
    """`mlx5` of mlx5.driver and of libmlx5-rdmav34.so."""
    stems = (re.fullmatch(r"(?:(\w+)\.driver|lib(\w+)-rdmav\d+\.so)", name) for name in names)
    return tuple(sorted({match[1] or match[2] for match in stems if match is not None}))


def _folders(root: Root) -> tuple[str, ...]:
    found = parse_conf(root.read("/etc/ld.so.conf"))
    for name in root.ls("/etc/ld.so.conf.d"):
        if name.endswith(".conf"):
            found += parse_conf(root.read(f"/etc/ld.so.conf.d/{name}"))
    return tuple(dict.fromkeys(found))


def _split(text: str | None, signs: str) -> tuple[str, ...]:
    """Elements of a path variable as they stand; a variable that is empty has none."""
    return tuple(re.split(f"[{signs}]", text)) if text else ()


def _files_command(folders: Iterator[str]) -> tuple[str, ...]:
    names = tuple(word for name in ONE_EACH for word in ("-o", "-name", f"{name}[.-]*"))[1:]
    above = ("/usr/lib", "/usr/local", "/opt")
    others = [path for path in dict.fromkeys(folders) if not f"{path}/".startswith(tuple(f"{one}/" for one in above))]
    return ("find", *above, *others, "-xdev", "-type", "f", "(", *names, ")", "-printf", "%s %p\\n")


def _programs(environ: Mapping[str, str]) -> list[str]:
    path = environ.get("PATH") or f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return [folder for folder in path.split(":") if folder.startswith("/")]


def _cuda_home(root: Root, environ: Mapping[str, str]) -> str | None:
    told = environ.get("CUDA_HOME") or environ.get("CUDA_PATH")
    return told or ("/usr/local/cuda" if root.link("/usr/local/cuda/bin") is not None else None)


def start(root: Root, environ: Mapping[str, str]) -> Asked:
    """Start to look; `read_image_libraries` collects."""
    home = _cuda_home(root, environ)
    folders = [*([f"{home}/bin"] if home else []), *_programs(environ)]
    nvcc = next((f"{one}/nvcc" for one in folders if root.link(f"{one}/nvcc") is not None), None)
    ld_path = (path.rstrip("/") for path in _split(environ.get("LD_LIBRARY_PATH"), ":;") if path.startswith("/"))
    files = root.start(_files_command(path for path in (*ld_path, *_folders(root)) if path), DEADLINE_S)
    return Asked(files, None if nvcc is None else root.start((nvcc, "--version"), DEADLINE_S), environ)


def read_image_libraries(root: Root, asked: Asked, image: Image) -> Image:
    """`image` with its packages and libraries; `read` names what could be looked at too. Never fails."""
    environ = asked.environ
    version, interpreter = parse_pyvenv(root.read(f"{VENV}/pyvenv.cfg"))
    packages = _packages(root)
    told = asked.files.collect()
    files = parse_files(told.output if told.state in ("ok", "failed") else "")
    libraries = [one for path in _once(root, files) if (one := parse_library(path, packages)) is not None]
    ld_path, ld_conf = _split(environ.get("LD_LIBRARY_PATH"), ":;"), _folders(root)
    stubs, compat = _odd_libcuda(root, dict.fromkeys((*ld_path, *ld_conf, *SYSTEM)), files)
    nvcc = RELEASE.search(asked.nvcc.collect().output) if asked.nvcc is not None else None
    driver_files = root.ls("/etc/libibverbs.d")
    beside = [name for folder in dict.fromkeys((*ld_conf, *SYSTEM)) for name in root.ls(f"{folder}/libibverbs")]
    known = {"libraries": files or None, "packages": packages or None}
    return image._replace(
        packages=packages,
        libraries=tuple(libraries),
        ld_path=ld_path,
        ld_preload=_preloaded(root, environ),
        providers=parse_providers(driver_files) if driver_files else (() if files else None),
        nvcc=nvcc[1] if nvcc is not None else None,
        compilers=tuple(name for name in ("g++", "ninja") if _found(root, environ, name)),
        python=version,
        stub_libraries=stubs,
        compat_libraries=compat,
        read=(*(image.read or ()), *(what for what, found in known.items() if found is not None)),
        python_headers=_headers(root, version, interpreter),
        verbs_files=parse_providers(beside) if files else None,
        tools=tuple(name for name in TOOLS if _found(root, environ, name)) if files else None,
        cuda_home_set=environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or None,
    )


def _once(root: Root, files: Mapping[str, int]) -> list[str]:
    """The paths without links on the way, each once: /lib is /usr/lib."""
    return sorted({root.link(path) or path for path in files})


def _packages(root: Root) -> dict[str, str]:
    for python in root.ls(f"{VENV}/lib"):
        if python.startswith("python3"):
            return parse_packages(root.ls(f"{VENV}/lib/{python}/site-packages"))
    return {}


def _preloaded(root: Root, environ: Mapping[str, str]) -> tuple[str, ...]:
    words = [*_split(environ.get("LD_PRELOAD"), ": "), *(line(root.read("/etc/ld.so.preload")) or "").split()]
    return tuple(word for word in words if word)


def _odd_libcuda(
    root: Root, folders: Mapping[str, None], files: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """libcuda stubs and libcuda of a compat folder that the loader would find: as `path`, the compat one as its file,
    which has the driver's version in its name."""
    stubs: dict[str, str] = {}
    compat: dict[str, str] = {}
    for folder in folders:
        for name in ("libcuda.so.1", "libcuda.so"):
            path = f"{folder.rstrip('/')}/{name}"
            target = root.link(path) if folder.startswith("/") else None
            if target is None:
                continue
            size = files.get(target)
            if "stubs" in path.split("/") or "stubs" in target.split("/") or (size is not None and size < STUB_BYTES):
                stubs.setdefault(target, path)
            elif "compat" in target or "compat" in folder:
                compat.setdefault(target, path)
    return tuple(stubs.values()), tuple(compat)


def _found(root: Root, environ: Mapping[str, str], name: str) -> bool:
    return any(root.link(f"{folder}/{name}") is not None for folder in _programs(environ))


def _headers(root: Root, version: str | None, interpreter: str | None) -> bool | None:
    """Python.h beside the interpreter that the environment was made with: /usr/include/python3.11/Python.h."""
    if version is None or interpreter is None or "." not in version:
        return None
    short = ".".join(version.split(".")[:2])
    above = interpreter.rstrip("/").rpartition("/")[0]
    return root.link(f"{above}/include/python{short}/Python.h") is not None
