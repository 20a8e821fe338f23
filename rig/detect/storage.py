"""Storage: the file systems that training writes to, drives, software RAIDs, errors that ext4 counted, ssh's files.

Sources: statvfs(3) in a child with a deadline (storage_child.py), /proc/self/mountinfo (proc(5)), /sys/class/nvme
(drivers/nvme/host/core.c), /sys/block/mdN/md (Documentation/admin-guide/md.rst), /sys/fs/ext4 (fs/ext4/sysfs.c).
"""

from rig.host import Mount, Raid, SshFile
from rig.lean import Mapping, NamedTuple
from rig.root import Collected, Root, Running
from rig.text import line, whole

TIMEOUT_S = 3.0
# Where caches go unless a variable says otherwise, and the variables that name folders.
PLACES = ("/", "/tmp", "/dev/shm")
NAMED = (
    "HOME",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "HF_HOME",
    "TORCH_HOME",
    "TORCH_EXTENSIONS_DIR",
    "TRITON_CACHE_DIR",
    "RIG_STATE",
)
BELOW_HOME = ("/.cache", "/.triton")  # mounts of their own, often
ENDLESS = 1 << 62


class Asked(NamedTuple):
    """The child that asks about `paths`."""

    running: Running
    paths: tuple[str, ...]


class StorageFacts(NamedTuple):
    """Fields of rig.host.Host, under the same names."""

    mounts: tuple[Mount, ...] = ()
    silent_mounts: tuple[str, ...] | None = None
    nvme: tuple[tuple[str, str | None], ...] | None = None
    raids: tuple[Raid, ...] | None = None
    fs_errors: tuple[tuple[str, int], ...] | None = None
    ssh_files: tuple[SshFile, ...] | None = None


class Row(NamedTuple):
    """One line of mountinfo."""

    point: str
    kind: str
    read_only: bool
    no_exec: bool


def places(root: Root, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders to ask about: the working folder first, then home, caches, /tmp, /dev/shm and the root."""
    work = root.link("/proc/self/cwd") or environ.get("PWD")
    if work == "/proc/self/cwd":  # a capture keeps the name and not where it leads
        work = environ.get("PWD")
    home = environ.get("HOME", "").rstrip("/")
    named = [environ.get(name, "") for name in NAMED] + [home + below for below in BELOW_HOME if home]
    found = [path for path in (work or "", *named, *PLACES) if path.startswith("/") and path.isprintable()]
    return tuple(dict.fromkeys(path.rstrip("/") or "/" for path in found))


def start(root: Root, environ: Mapping[str, str]) -> Asked:
    """Start asking; files can be read meanwhile."""
    paths = places(root, environ)
    home = environ.get("HOME", "")
    ssh = ("--ssh", home.rstrip("/")) if home.startswith("/") and home.rstrip("/") and home.isprintable() else ()
    return Asked(root.start(("rig-storage", *ssh, *paths), TIMEOUT_S), paths)


def unescape(text: str) -> str:
    """`\\040` and the like, as the kernel writes blanks, tabs, newlines and backslashes in mountinfo."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def parse_mountinfo(text: str | None) -> tuple[Row, ...]:
    """Mount point, type of file system, and whether it is read-only and without execution, in mount order."""
    rows = []
    for entry in (text or "").splitlines():
        left, dash, right = entry.partition(" - ")
        words, more = left.split(" "), right.split(" ")
        if dash and len(words) > 5 and len(more) > 2:
            options = words[5].split(",")
            read_only = "ro" in options or "ro" in more[2].split(",")
            rows.append(Row(unescape(words[4]), more[0], read_only, "noexec" in options))
    return tuple(rows)


def mount_of(path: str, rows: tuple[Row, ...]) -> Row | None:
    """The mount that holds a path: the deepest point, of several on one point the last."""
    found = None
    for row in rows:
        inside = path == row.point or path.startswith(row.point.rstrip("/") + "/")
        if inside and (found is None or len(row.point) >= len(found.point)):
            found = row
    return found


def parse_space(text: str) -> tuple[tuple[int | None, ...], bool | None, str] | None:
    """((total, free, inodes, free inodes), writable, path) of a line `space ...`; None when it is none. File systems
    without a fixed number of inodes (btrfs, some NFS servers) say 0: None."""
    words = text.split(" ", 6)
    if len(words) != 7 or words[0] != "space":
        return None
    numbers = tuple(whole(word, 0, ENDLESS) for word in words[1:5])
    if not numbers[2]:
        numbers = (*numbers[:2], None, None)
    return numbers, {"1": True, "0": False}.get(words[5]), words[6]


def parse_answer(collected: Collected) -> tuple[dict[str, Mount], tuple[SshFile, ...], str | None]:
    """What the child said: space by path, ssh's files, and the path that did not answer."""
    spaces: dict[str, Mount] = {}
    files: list[SshFile] = []
    asking: str | None = None
    absent: set[str] = set()
    for entry in collected.output.splitlines():
        told = parse_space(entry)
        if told is not None:
            total, free, inodes, inodes_free = told[0]
            spaces[told[2]] = Mount(told[2], total, free, None, None, told[1], inodes, inodes_free)
            spaces[told[2]] = spaces[told[2]]._replace(exists=False if told[2] in absent else None)
        elif entry.startswith("absent "):
            absent.add(entry[7:])
        elif entry.startswith("mode "):
            files.extend(_ssh_file(entry))
        elif entry.startswith("asking "):
            asking = entry[7:]
        elif entry == "end":
            asking = None
    return spaces, tuple(files), asking if collected.state == "hung" else None


def _ssh_file(entry: str) -> tuple[SshFile, ...]:
    words = entry.split(" ", 4)
    owner = whole(words[3], 0, (1 << 32) - 1) if len(words) == 5 else None
    if owner is None or not words[2] or words[2].strip("01234567"):
        return ()
    return (SshFile(words[4], words[1], int(words[2], 8), owner),)


def read_mounts(asked: Asked, text: str | None) -> tuple[tuple[Mount, ...], tuple[SshFile, ...], tuple[str, ...]]:
    """One record for each path that was asked about; those that did not answer have no sizes."""
    answer = asked.running.collect()
    spaces, files, silent = parse_answer(answer)
    if answer.state in ("unasked", "cut"):
        return (), (), ()
    rows = parse_mountinfo(text)
    found = []
    for path in asked.paths:
        row = mount_of(path, rows)
        mount = spaces.get(path, Mount(path))
        found.append(
            mount if row is None else mount._replace(kind=row.kind, read_only=row.read_only, no_exec=row.no_exec)
        )
    return tuple(found), files, (silent,) if silent else ()


def read_nvme(root: Root) -> tuple[tuple[str, str | None], ...] | None:
    """NVMe controllers with their state; None where sysfs shows no NVMe class at all."""
    names = root.ls("/sys/class/nvme")
    if not names:
        return None
    return tuple((name, line(root.read(f"/sys/class/nvme/{name}/state"), 24)) for name in names)


def read_raids(root: Root) -> tuple[Raid, ...] | None:
    """Software RAIDs with the number of drives that they miss; None where /sys/block cannot be listed."""
    names = root.ls("/sys/block")
    if not names:
        return None
    found = []
    for name in names:
        missing = whole(line(root.read(f"/sys/block/{name}/md/degraded"), 8), 0, 1024) if name[:2] == "md" else None
        if missing is not None:
            found.append(Raid(name, missing, whole(line(root.read(f"/sys/block/{name}/md/raid_disks"), 8), 0, 1024)))
    return tuple(found)


def read_fs_errors(root: Root) -> tuple[tuple[str, int], ...] | None:
    """Errors that ext4 has noted in its superblock, by device; None where no ext4 is seen."""
    found = []
    for name in root.ls("/sys/fs/ext4"):
        count = whole(line(root.read(f"/sys/fs/ext4/{name}/errors_count"), 12))
        if count is not None:
            found.append((name, count))
    return tuple(found) or None


def read_storage(root: Root, asked: Asked) -> StorageFacts:
    """Everything about storage."""
    mounts, files, silent = read_mounts(asked, root.read("/proc/self/mountinfo"))
    return StorageFacts(
        mounts,
        silent if mounts else None,
        read_nvme(root),
        read_raids(root),
        read_fs_errors(root),
        files if mounts else None,
    )
