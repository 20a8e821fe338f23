"""A user that the image does not know (`--user 12345:0`) gets a home, a name and caches that can be written."""

import os

from rig.lean import Mapping, NamedTuple

PASSWD = "/etc/passwd"  # writable for group 0 in the image, so that any UID of that group can be added
# Caches that are made below the home folder unless the variable says where. XDG_CACHE_HOME moves those of torch,
# Hugging Face and torch's compiled extensions; their own names are set too, because programs read those first.
CACHES = (
    ("XDG_CACHE_HOME", ".cache", "cache"),
    ("HF_HOME", ".cache/huggingface", "cache/huggingface"),
    ("TORCH_EXTENSIONS_DIR", ".cache/torch_extensions", "cache/torch_extensions"),
    ("TRITON_CACHE_DIR", ".triton/cache", "cache/triton"),
)


class Home(NamedTuple):
    """`changes` go into the environment; `lines` say so; `account` is the home of the passwd entry, where NCCL looks
    for its .nccl.conf whatever HOME says."""

    changes: dict[str, str]
    lines: tuple[str, ...] = ()
    account: str | None = None


def prepare_home(environ: Mapping[str, str], uid: int, gid: int, state: str | None, passwd: str = PASSWD) -> Home:
    """Decide on HOME, USER, LOGNAME and the caches; make folders and the passwd entry where that is possible."""
    changes: dict[str, str] = {}
    lines = []
    entry, text = _entry(passwd, uid)
    home = environ.get("HOME", "")
    if home in ("", "/") or not writable(home):
        if state is not None:
            lines.append(f"HOME={home or 'not set'} cannot be written: HOME={state}/home")
            home = changes["HOME"] = _folder(f"{state}/home")
        else:
            lines.append(f"HOME={home or 'not set'} cannot be written, and no other place can")
    name = entry[0] if entry else ("user" if "\nuser:" not in "\n" + text else f"user{uid}")
    changes.update({variable: name for variable in ("USER", "LOGNAME") if not environ.get(variable)})
    account = entry[1] if entry else _add(passwd, text, name, uid, gid, home)
    for variable, default, ours in CACHES:
        if not environ.get(variable) and state is not None and not writable(f"{home}/{default}"):
            changes[variable] = _folder(f"{state}/{ours}")
    return Home(changes, tuple(lines), account)


def account_home(uid: int) -> str | None:
    """The home of the user's passwd entry; None where there is no entry."""
    entry, _ = _entry(PASSWD, uid)
    return entry[1] if entry else None


def writable(path: str) -> bool:
    """Whether this process could write into the folder, or make it."""
    while path and not os.path.lexists(path):
        path = path.rpartition("/")[0]
    return os.access(path or "/", os.W_OK | os.X_OK) and os.path.isdir(path or "/")


def _folder(path: str) -> str:
    try:
        os.makedirs(path, 0o700, exist_ok=True)
    except OSError:
        return path  # the program will say it in its own words
    return path


def _entry(passwd: str, uid: int) -> tuple[tuple[str, str] | None, str]:
    """Name and home of the user in the passwd file, and its text."""
    try:
        with open(passwd, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None, ""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 6 and fields[2] == str(uid):
            return (fields[0], fields[5]), text
    return None, text


def _add(passwd: str, text: str, name: str, uid: int, gid: int, home: str) -> str | None:
    """Append an entry; returns its home, or None where the file may not be written."""
    line = f"{name}:x:{uid}:{gid}:added by rig:{home}:/bin/bash\n"
    if not os.access(passwd, os.W_OK) or ":" in home or "\n" in home:
        return None
    try:
        handle = os.open(passwd, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(handle, (line if text.endswith("\n") or not text else "\n" + line).encode())
        finally:
            os.close(handle)
    except OSError:
        return None
    return home
