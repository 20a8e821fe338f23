"""An image's files: keys and tokens, caches, modes, the init, the entrypoint, the account that runs.

What no Root tells (modes, owners, sizes, whether this user may write) find(1) of findutils is asked, in children with a
deadline, never across file systems: what is mounted into a container is not its image. A file that is younger than the
container (/.dockerenv and /etc/hosts are written when one is made) was made in it, and is not its image's either.

Sources: find(1), -printf; passwd(5); os-release(5); proc(5), /proc/PID/{comm,status}; ssh-keygen(1); sshd(8).
"""

from rig.image import Account, Image
from rig.lean import Mapping, NamedTuple, Sequence
from rig.root import Root, Running
from rig.text import line, whole

DEADLINE_S = 6.0
BORN = "/etc/hosts"  # written when a container starts; also shows that find could look at all
MADE = "/.dockerenv"  # written when Docker makes a container, and not again when it is started once more
AT_MOST = 50  # paths of one kind that are kept
CACHE_BYTES = 1_000_000  # what is smaller is not worth a word

MODES = (
    *("find", "/usr", "/opt", "/etc", "-xdev", "!", "-type", "l"),
    *("(", "-path", BORN, "-o", "-perm", "/6000", "-o"),
    *("-perm", "-0002", "!", "(", "-type", "d", "-perm", "-1000", ")", ")"),
    *("-printf", "%m %y %p\\n"),
)
# Names of keys, and of files in which tools keep passwords and tokens.
KEY_NAMES = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", "ssh_host_*_key")
TOKEN_FILES = {
    "authorized_keys": ("ssh-", "ecdsa-", "sk-"),
    ".netrc": ("password",),
    ".git-credentials": ("://",),
    ".pypirc": ("password",),
    ".npmrc": ("_authToken", "_auth", "_password"),
    "config.json": ('"auth"',),  # ~/.docker
    "credentials": ("aws_secret_access_key",),  # ~/.aws
    "application_default_credentials.json": ("refresh_token", "private_key"),
    "kaggle.json": ('"key"',),
    "token": ("hf_",),  # ~/.cache/huggingface
}
PARENTS = {"config.json": ".docker", "credentials": ".aws", "token": "huggingface"}
PEM = ("*.pem", "*.key")
PACKAGED = ("/site-packages/", "/dist-packages/", "/usr/share/", "/usr/lib/")  # keys of tests and examples


def _any_of(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("-o", "-name", name))[1:]


SECRETS = (
    *("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/sys", "-o", "-path", "/dev", ")", "-prune", "-o"),
    *(
        "(",
        "-path",
        BORN,
        "-o",
        "-path",
        MADE,
        "-o",
        "-type",
        "f",
        "(",
        *_any_of((*KEY_NAMES, *TOKEN_FILES, *PEM)),
        ")",
        ")",
    ),
    *("-printf", "%C@ %s %p\\n"),
)
CACHE_FOLDERS = (
    *("/root/.cache/pip", "/root/.cache/uv", "/root/.npm", "/var/cache/apt", "/var/lib/apt/lists", "/opt/conda/pkgs"),
    *("/tmp", "/var/tmp"),
)
CACHES = ("find", BORN, MADE, *CACHE_FOLDERS, "-xdev", "-type", "f", "-printf", "%C@ %s %p\\n")
PROGRAMS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
ENTRYPOINT = "/usr/local/bin/rig"
ROOMS = "/opt/rig"
PASSWD = "/etc/passwd"
STATES = (
    "/run/rig",
    "/tmp",
    "/dev/shm",
)  # where the boot makes a home up (entrypoint/state.py), and what its variables name


class Found(NamedTuple):
    """One line of find: change time (seconds), size in bytes, path."""

    changed: float
    size: int
    path: str


class Asked(NamedTuple):
    """The children that look, started beside one another; `answers` are keyed by what they look at."""

    answers: Mapping[str, Running]
    uid: int | None
    name: str | None
    home: str | None
    variable: str | None
    states: tuple[str, ...]


def parse_modes(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Paths that everybody may write, and programs with setuid or setgid; None when find could not look."""
    loose, setuid, looked = [], [], False
    for entry in text.splitlines():
        mode, _, rest = entry.partition(" ")
        kind, _, path = rest.partition(" ")
        if path == BORN:
            looked = True
        elif path.startswith("/") and mode.isdecimal() and not mode.strip("01234567"):
            if int(mode, 8) & 0o002:
                loose.append(path)
            if kind == "f" and int(mode, 8) & 0o6000:
                setuid.append(path)
    return (tuple(sorted(loose)[:AT_MOST]), tuple(sorted(setuid)[:AT_MOST])) if looked else None


def parse_found(text: str) -> list[Found] | None:
    """What find printed that is of the image: older than the container. None when it could not look."""
    found = []
    for entry in text.splitlines():
        when, _, rest = entry.partition(" ")
        size, _, path = rest.partition(" ")
        number = whole(size)
        if path.startswith("/") and number is not None and when.replace(".", "", 1).isdecimal():
            found.append(Found(float(when), number, path))
    if BORN not in [one.path for one in found]:
        return None
    born = min(one.changed for one in found if one.path in (BORN, MADE))
    return [one for one in found if one.path not in (BORN, MADE) and one.changed < born]


def parse_home(passwd: str | None, uid: int | None) -> tuple[str | None, str | None]:
    """Name and home of a user in /etc/passwd."""
    for entry in (passwd or "").splitlines():
        fields = entry.split(":")
        if len(fields) == 7 and uid is not None and fields[2] == str(uid):
            return fields[0] or None, fields[5] or None
    return None, None


def parse_uid(status: str | None) -> int | None:
    """The effective user of /proc/self/status: `Uid: real effective saved file-system`."""
    for entry in (status or "").splitlines():
        if entry.startswith("Uid:"):
            return whole([*entry.split(), "", "", ""][2])
    return None


def parse_codename(text: str | None) -> str | None:
    """VERSION_CODENAME of /etc/os-release; `ID VERSION_ID` where a system has none."""
    told = dict(entry.split("=", 1) for entry in (text or "").splitlines() if "=" in entry)
    words = [told.get(name, "").strip().strip("\"'") for name in ("VERSION_CODENAME", "ID", "VERSION_ID")]
    return words[0] or " ".join(word for word in words[1:] if word) or None


def is_secret(path: str, text: str | None) -> bool:
    """Whether a file of such a name holds a secret, by its text; one that cannot be read counts by its name alone."""
    folder, _, name = path.rpartition("/")
    if name in TOKEN_FILES:
        parent = PARENTS.get(name)
        if parent is not None and folder.rpartition("/")[2] != parent:
            return False
        return text is not None and any(word in text for word in TOKEN_FILES[name])
    if any(part in path for part in PACKAGED):
        return False
    if name.endswith((".pem", ".key")):
        return text is not None and "PRIVATE KEY-----" in text
    return text is None or "PRIVATE KEY-----" in text


def _rights(paths: Sequence[str]) -> tuple[str, ...]:
    ways = ("-printf", "x %p\\n", "-writable", "-printf", "w %p\\n")
    return (
        "find",
        BORN,
        *paths,
        "-maxdepth",
        "0",
        *ways[:2],
        "(",
        *ways[2:],
        "-o",
        "-true",
        ")",
        "-executable",
        "-printf",
        "e %p\\n",
    )


def start(root: Root, environ: Mapping[str, str]) -> Asked:
    """Start to look; `read_files` collects."""
    uid = parse_uid(root.read("/proc/self/status"))
    name, home = parse_home(root.read(PASSWD), uid)
    variable = environ.get("HOME") or None
    named = (environ.get("RIG_STATE"), environ.get("XDG_RUNTIME_DIR"), *STATES)
    states = tuple(path for path in named if path is not None and path.startswith("/"))
    wanted = (home, variable, ROOMS, ENTRYPOINT, PASSWD, *states)
    paths = [path for path in wanted if path is not None and path.startswith("/")]
    asked = {"modes": MODES, "secrets": SECRETS, "caches": CACHES, "rights": _rights(list(dict.fromkeys(paths)))}
    return Asked(
        {what: root.start(argv, DEADLINE_S) for what, argv in asked.items()}, uid, name, home, variable, states
    )


def read_files(root: Root, asked: Asked) -> Image:
    """The image as its files tell; `read` names what could be looked at. Never fails.

    find ends with an error where a folder may not be entered, and has told the rest by then: that is no reason to know
    nothing. One that did not end in time tells nothing.
    """
    told = {what: answer.collect() for what, answer in asked.answers.items()}
    texts = {what: one.output if one.state in ("ok", "failed") else "" for what, one in told.items()}
    modes, secrets, caches = parse_modes(texts["modes"]), parse_found(texts["secrets"]), parse_found(texts["caches"])
    rights = set(texts["rights"].splitlines())
    looked = {"modes": modes, "secrets": secrets, "caches": caches, "rights": f"x {BORN}" in rights or None}
    loose, setuid = modes or ((), ())
    return Image(
        secrets=_secrets(root, secrets or []),
        caches=_caches(caches or []),
        loose=loose,
        setuid=setuid,
        init=line(root.read("/proc/1/comm")),
        tini=next((f"{one}/tini" for one in PROGRAMS if root.link(f"{one}/tini") is not None), None),
        entrypoint=f"e {ENTRYPOINT}" in rights if looked["rights"] else None,
        account=_account(asked, rights if looked["rights"] else None),
        os_release=parse_codename(root.read("/etc/os-release")),
        rig_files_writable=f"w {ROOMS}" in rights if looked["rights"] and asked.uid else None,
        read=tuple(what for what, found in looked.items() if found is not None),
    )


def _secrets(root: Root, found: list[Found]) -> tuple[str, ...]:
    named = [one.path for one in found if one.size and is_secret(one.path, root.read(one.path))]
    return tuple(sorted(named)[:AT_MOST])


def _caches(found: list[Found]) -> tuple[str, ...]:
    """Folders with what they hold: `/root/.cache/pip (8.0 MB)`."""
    bytes_of = dict.fromkeys(CACHE_FOLDERS, 0)
    for one in found:
        for folder in CACHE_FOLDERS:
            if one.path.startswith(folder + "/"):
                bytes_of[folder] += one.size
    return tuple(f"{folder} ({size / 1e6:.1f} MB)" for folder, size in bytes_of.items() if size >= CACHE_BYTES)


def _account(asked: Asked, rights: set[str] | None) -> Account:
    def has(sign: str, path: str | None) -> bool | None:
        return None if rights is None or path is None else f"{sign} {path}" in rights

    home, variable = asked.home, asked.variable
    return Account(
        asked.uid,
        asked.name,
        home,
        has("x", home),
        has("w", home),
        variable,
        has("w", variable),
        has("w", PASSWD),
        None if rights is None else any(f"w {path}" in rights for path in asked.states),
    )
