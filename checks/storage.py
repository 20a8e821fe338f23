"""Storage: room and rights where training writes, file systems and drives that work."""

from checks import check, known, say
from checks.needs import GPU, HOST
from rig.finding import Finding
from rig.host import Mount
from rig.lean import Iterator
from rig.snapshot import Snapshot

GIB = 1 << 30
TEMPORARY_LEAST = 256_000_000  # bytes
FULL_SHARE = 0.05  # less than this is free
ROOM_LEAST, ROOM_ENOUGH = GIB, 100 * GIB
INODES_LEAST, INODES_ENOUGH = 1000, 100_000
MEMORY = ("tmpfs", "ramfs")
REMOTE = ("nfs", "nfs4", "lustre", "ceph", "beegfs", "gpfs", "cifs", "smb3", "9p", "virtiofs", "glusterfs", "wekafs")
# Where what is compiled at run time is kept and loaded from: variables, the first that is set wins, and what stands
# below that folder by default. Source: torch/utils/cpp_extension.py, triton/runtime/cache.py.
COMPILED = (
    (("TORCH_EXTENSIONS_DIR", ""), ("XDG_CACHE_HOME", ""), ("HOME", "/.cache")),
    (("TRITON_CACHE_DIR", ""), ("HOME", "/.triton")),
)
CACHES = ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")


def _mounts(now: Snapshot) -> tuple[Mount, ...]:
    return known((now.host.mounts or None) if now.host else None, "the file systems")  # type: ignore[no-any-return]


def _path(text: str) -> str:
    """As rig.host.Mount names a folder."""
    return text.rstrip("/") or text[:1]


def _of_variables(now: Snapshot, names: tuple[str, ...]) -> list[tuple[str, Mount]]:
    """(variable, its folder) of those that are set."""
    by_path = {mount.path: mount for mount in _mounts(now)}
    named = [(name, _path(now.environ.get(name, ""))) for name in names]
    return [(name, by_path[path]) for name, path in named if path in by_path]


def _compiled(now: Snapshot) -> list[tuple[str, Mount]]:
    """(name, folder) of each cache of compiled code."""
    by_path = {mount.path: mount for mount in _mounts(now)}
    found = []
    for rule in COMPILED:
        name, below = next(((name, below) for name, below in rule if now.environ.get(name)), ("HOME", ""))
        path = _path(now.environ.get(name, ""))
        mount = by_path.get(path.rstrip("/") + below) or by_path.get(path)
        if mount is not None:
            found.append((f"{name}={path}" if not below else mount.path, mount))
    return found


def _written(now: Snapshot) -> list[Mount]:
    """One for each file system that training writes to; /dev/shm has its own check, and what cannot be written is not
    filled by training."""
    found: dict[tuple[int | None, int | None, str | None], Mount] = {}
    for mount in _mounts(now):
        if mount.path != "/dev/shm" and mount.writable and not mount.read_only and mount.total_bytes:
            found.setdefault((mount.total_bytes, mount.free_bytes, mount.kind), mount)
    return list(found.values())


def _temporary(now: Snapshot) -> Mount:
    """Where temporary files go: TMPDIR where it is there, else /tmp."""
    named = [mount for _, mount in _of_variables(now, ("TMPDIR",)) if mount.exists is not False]
    slash = [mount for mount in _mounts(now) if mount.path == "/tmp"]
    return known(next(iter(named + slash), None), "/tmp")  # type: ignore[no-any-return]


def _unknown_ones(now: Snapshot) -> Iterator[Finding]:
    """Those that did not answer: no room is known there, and the others can be judged all the same."""
    for mount in _mounts(now):
        if mount.total_bytes is None:
            yield say(f"{mount.path}: its file system is not known", mount.path, outcome="unknown")


@check(at="quick", needs=(HOST,), domain="host", fix="Unmount it (umount -l), or mend its server; then start again")
def file_systems_answer(now: Snapshot) -> Iterator[Finding]:
    """Every file system that training uses answers within seconds.

    One on a server that is gone blocks whoever asks: a process that opens a file there cannot even be killed.

    Symptom: `ls`, `df` and the start of training hang, without a message.
    Source: statvfs(2), asked in a child with a deadline.
    """
    for path in known(now.host.silent_mounts if now.host else None, "the file systems"):
        yield say(f"{path} does not answer: its file system hangs", path)


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    fix="Delete old checkpoints and caches (du -xh --max-depth=2 | sort -h), or mount a larger disk: docker run -v",
)
def disk_has_room(now: Snapshot) -> Iterator[Finding]:
    """The file systems that training writes to are not full.

    Less than 5 % and 100 GiB free is a warning, less than 1 GiB a failure.

    Symptom: `No space left on device` at step N; a checkpoint that cannot be read.
    Source: statvfs(2); 95 % as in imbue-ai/cluster-health.
    """
    yield from _unknown_ones(now)
    for mount in _written(now):
        total, free = known(mount.total_bytes, mount.path), known(mount.free_bytes, mount.path)
        full, memory = free < FULL_SHARE * total, mount.kind in MEMORY
        if (full and (memory or free < ROOM_ENOUGH)) or (free < ROOM_LEAST and not memory):
            text = f"{mount.path}: {free / GIB:.1f} of {total / GIB:.1f} GiB are free"
            yield say(text, mount.path, ROOM_ENOUGH, free, outcome="fail" if free < ROOM_LEAST else "warn")


@check(at="quick", needs=(HOST,), domain="user", fix="Delete small files (pip and HF caches first)")
def inodes_are_left(now: Snapshot) -> Iterator[Finding]:
    """More files can be made.

    A file system with a fixed number of inodes is full when they are used up, whatever room is left; data sets of
    small files do that.

    Symptom: `No space left on device` with hundreds of GB free.
    Source: f_files and f_favail of statvfs(2).
    """
    yield from _unknown_ones(now)
    for mount in _written(now):
        total, free = mount.inodes_total, mount.inodes_free
        if total and free is not None and free < min(FULL_SHARE * total, INODES_ENOUGH):
            text = f"{mount.path}: {free} of {total} inodes are free"
            yield say(text, mount.path, INODES_ENOUGH, free, outcome="fail" if free < INODES_LEAST else "warn")


@check(
    at="quick",
    needs=(HOST, GPU),
    domain="user",
    severity="warn",
    fix="Mount a larger disk for checkpoints (docker run -v), or keep fewer of them",
)
def checkpoint_fits_beside_the_program(now: Snapshot) -> Iterator[Finding]:
    """The work folder has room for a checkpoint.

    A ZeRO checkpoint holds weights and optimizer states: for a model that fills the GPUs about half of their memory.

    Symptom: the first save dies after hours.
    Source: statvfs(2); sizes as in DeepSpeed's estimate_zero3_model_states_mem_needs. The half is an own estimate.
    """
    work = _mounts(now)[0]
    free = known(work.free_bytes, f"the free space of {work.path}")
    need = sum(known(gpu.memory_bytes, "the memory of the GPUs") for gpu in now.machine.gpus) // 2
    if work.writable and free < need:
        text = f"{work.path}: {free / GIB:.0f} GiB free; a checkpoint of a model that fills the GPUs is about "
        yield say(f"{text}{need / GIB:.0f} GiB", work.path, need, free)


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    fix="docker run --tmpfs /tmp:exec,size=8g (for a read-only root), or TMPDIR=a folder that can be written",
)
def temporary_files_can_be_written(now: Snapshot) -> Iterator[Finding]:
    """TMPDIR, or /tmp, is there and can be written.

    torch, Triton, compilers and DataLoader workers make their files and sockets there. A container with a read-only
    root needs a tmpfs.

    Symptom: `FileNotFoundError: No usable temporary directory found`, `Read-only file system`.
    Source: access(2); Python's tempfile.
    """
    for name, mount in _of_variables(now, ("TMPDIR",)):
        if mount.exists is False:  # Python goes on with /tmp, others do not
            yield say(f"{name}={mount.path} does not exist", name, fix=f"mkdir -p {mount.path}", outcome="warn")
    place = _temporary(now)
    if place.exists is False:
        yield say(f"{place.path} does not exist", place.path, True, False, f"mkdir -m 1777 {place.path}")
        return
    writable = known(place.writable, f"whether {place.path} can be written")
    if place.read_only or not writable:
        why = "is read-only" if place.read_only else "cannot be written by this user"
        yield say(f"{place.path} {why}", place.path, True, False)


@check(
    at="quick", needs=(HOST,), domain="user", severity="warn", fix="docker run --tmpfs /tmp:exec,size=8g, or set TMPDIR"
)
def temporary_files_have_room(now: Snapshot) -> Iterator[Finding]:
    """TMPDIR, or /tmp, has 256 MB for what compilers and workers write there.

    A small tmpfs is meant here; of disks, and of what is full, disk_has_room speaks.

    Symptom: `No space left on device` when an op is compiled, with a disk that is empty.
    Source: statvfs(2). The size is an own estimate: objects of one compiled op.
    """
    place = _temporary(now)
    total, free = known(place.total_bytes, place.path), known(place.free_bytes, place.path)
    if place.kind in MEMORY and FULL_SHARE * total <= free < TEMPORARY_LEAST:
        yield say(f"{place.path}: {free / 1e6:.3g} MB are free", place.path, TEMPORARY_LEAST, free)


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    severity="warn",
    fix="docker run -v $PWD:/workspace, or --user of the folder's owner; with a read-only root mount a volume",
)
def work_folder_can_be_written(now: Snapshot) -> Iterator[Finding]:
    """Checkpoints and logs can be written in the current folder.

    Symptom: `Permission denied` or `Read-only file system` at the first save.
    Source: access(2), /proc/self/mountinfo.
    """
    work = _mounts(now)[0]
    writable = known(work.writable, f"whether {work.path} can be written")
    if work.read_only or not writable:
        why = "is read-only" if work.read_only else "cannot be written by this user"
        yield say(f"the work folder {work.path} {why}", work.path, True, False)


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    severity="warn",
    fix="Set the variable to a folder of your own, or mount one there: docker run -v, --tmpfs FOLDER:exec",
)
def caches_can_be_written(now: Snapshot) -> Iterator[Finding]:
    """The folders that variables name for the caches of torch, Triton and Hugging Face can be written.

    They are often mounted from elsewhere, read-only or of another owner. Without such variables caches go below HOME,
    of which home_can_be_written speaks.

    Symptom: `PermissionError: [Errno 13] Permission denied` at the first download or compiled op.
    Source: access(2).
    """
    for name, mount in _of_variables(now, CACHES):
        if mount.read_only or mount.writable is False:
            yield say(f"{name}={mount.path} cannot be written", name, True, False)


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    severity="warn",
    fix="docker run --tmpfs FOLDER:exec (Docker's --tmpfs is noexec unless told), or move the variable's folder",
)
def compiled_code_can_be_loaded(now: Snapshot) -> Iterator[Finding]:
    """Caches of compiled kernels lie where libraries may be loaded.

    DeepSpeed's ops, torch extensions and Triton's launchers are compiled at run time and loaded from their cache. On a
    mount with `noexec`, which --tmpfs and /dev/shm of Docker are, the loader refuses.

    Symptom: `failed to map segment from shared object`.
    Source: mmap(2), /proc/self/mountinfo; Docker's documentation of tmpfs mounts.
    """
    for name, mount in _compiled(now):
        if mount.no_exec:
            yield say(f"{name} is mounted noexec", name, "exec", "noexec")


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    severity="warn",
    fix="Set TRITON_CACHE_DIR and TORCH_EXTENSIONS_DIR to folders on this machine's own disk",
)
def compiled_code_is_kept_on_this_machine(now: Snapshot) -> Iterator[Finding]:
    """Caches of compiled kernels are not shared by nodes over a file server.

    They are guarded by locks that file servers keep badly: nodes that compile at once wait for a lock forever.

    Symptom: the start hangs after `Using ... as PyTorch extensions root`; DeepSpeed warns of Triton's cache on NFS.
    Source: statfs type in /proc/self/mountinfo; deepspeed/ops/transformer/inference/triton/matmul_ext.py.
    """
    for name, mount in _compiled(now):
        if mount.kind in REMOTE or (mount.kind or "").startswith("fuse."):
            yield say(f"{name} is on a {mount.kind} file system", name, got=mount.kind)


@check(
    at="quick",
    needs=(HOST,),
    domain="user",
    severity="warn",
    fix="docker run -v $PWD:/workspace, PWD on a disk",
)
def work_folder_is_on_a_disk(now: Snapshot) -> Iterator[Finding]:
    """The work folder is not main memory.

    Symptom: `Killed` while a checkpoint is saved (a tmpfs counts as memory); nothing left after a restart.
    Source: /proc/self/mountinfo.
    """
    work = _mounts(now)[0]
    if known(work.kind, f"the file system of {work.path}") in MEMORY:
        yield say(f"the work folder {work.path} is a {work.kind}", work.path, got=work.kind)
