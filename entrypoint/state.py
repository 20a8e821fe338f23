"""The folder for what rig writes, and writing there so that no reader ever sees half a file."""

import errno
import os
import stat

from rig.lean import Mapping, NamedTuple

SHARED = "/run/rig"  # every shell of the container finds it; made by the first boot that may
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # a file or a link that is there is never followed


class State(NamedTuple):
    """`folder` is None where nothing at all can be written; `refused` says why better places were passed over, `unfit`
    why the place that the user named cannot be used (then no other is taken)."""

    folder: str | None
    refused: tuple[str, ...] = ()
    unfit: str | None = None


def find_state(environ: Mapping[str, str], uid: int, told: str | None = None) -> State:
    """The first folder that we may write: RIG_STATE, /run/rig, $XDG_RUNTIME_DIR/rig, /tmp/rig-UID, /dev/shm/rig-UID.

    The last is a tmpfs in every container, also with a read-only root. In places that all may write to, a folder of
    somebody else or a symbolic link is refused: what lies there would be read by later shells. Who names a place means
    that one: it is made with all folders above it, and where that fails no other is taken.
    """
    if told:
        why = _unusable_told(told)
        return State(told) if why is None else State(None, unfit=f"RIG_STATE={told}: {why}")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    places = [
        SHARED,
        *([f"{runtime}/rig"] if runtime.startswith("/") else []),
        f"/tmp/rig-{uid}",
        f"/dev/shm/rig-{uid}",
    ]
    refused: list[str] = []
    for place in places:
        why = _unusable(place, uid, shared=place == SHARED)
        if why is None:
            return State(place, tuple(refused))
        if why:
            refused.append(f"{place} {why}")
    return State(None, tuple(refused))


def _unusable_told(place: str) -> str | None:
    try:
        os.makedirs(place, 0o755, exist_ok=True)
    except OSError as error:
        return "is not a folder" if error.errno == errno.EEXIST else error.strerror or str(error)
    return None if os.access(place, os.W_OK | os.X_OK) else "cannot be written by this user"


def _unusable(place: str, uid: int, shared: bool) -> str | None:
    """None where the folder can be used (it is made), "" where it just cannot be, else what is wrong with it."""
    try:
        os.mkdir(place, 0o755 if shared else 0o700)
    except FileExistsError:
        pass
    except OSError:
        return ""
    try:
        told = os.lstat(place)
    except OSError:
        return ""
    if not stat.S_ISDIR(told.st_mode):
        return "is not a folder (a link is not followed)"
    if not shared and told.st_uid != uid:
        return f"belongs to user {told.st_uid}"
    if not shared and told.st_mode & 0o077:
        os.chmod(place, 0o700)
    return None if os.access(place, os.W_OK | os.X_OK) else ""


def fresh_name(path: str) -> str:
    """A name beside `path` that nobody else takes: containers that share a folder all have the same small PIDs."""
    return f"{path}.{os.urandom(8).hex()}"


def write_file(path: str, text: str, mode: int = 0o644) -> str | None:
    """Write a whole file or nothing: a new file in the same folder, renamed over the old. Returns what went wrong."""
    made = fresh_name(path)
    try:
        handle = os.open(made, NEW, mode)
    except OSError as error:
        return error.strerror or str(error)
    try:
        try:
            data = text.encode("utf-8", "surrogateescape")
            while data:
                data = data[os.write(handle, data) :]
        finally:
            os.close(handle)
        os.rename(made, path)
    except OSError as error:
        _remove(made)
        return error.strerror or str(error)
    return None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
