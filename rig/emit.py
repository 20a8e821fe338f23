"""A plan as the bytes of each file. Knows formats, not reasons."""

from rig.finding import Finding
from rig.lean import Any, Callable, Iterable, Mapping
from rig.plan import Plan, Setting

NCCL_MARK = "# written by rig at boot; a file without this line is yours and stays as it is"
# The start of names that a later shell (ssh, docker exec) needs as the user gave them to the container, and words
# that keep a name out: what grants access is not written to a file.
CARRIED = (
    "NCCL",
    "TORCH",
    "CUDA_",
    "NVIDIA_",
    "DS_",
    "OMP_",
    "GLOO_",
    "HF_",
    "UCX",
    "RIG_",
    "PYTHON",
    "LD_LIBRARY_PATH",
)
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
SECRET = ("TOKEN", "SECRET", "KEY", "PASS", "PWD", "CRED", "AUTH", "COOKIE")
SECRET_WORDS = ("PAT", "PW", "JWT", "SAS")  # between underscores only: PATH is none


def _quoted(text: str) -> str:
    """A JSON string. Nearly every text is plain; to load the C part of the json package costs half a millisecond."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(text)


def to_json(value: Any, depth: int = 1) -> str:
    """Plain data and records as JSON text without a final newline.

    Records become objects. The outermost `depth` levels get a line for each member, so that the file can be read and
    compared by line. A float that JSON cannot hold becomes null. Raises TypeError on anything else.
    """
    return _json(value, depth, "\n")


def _json(value: Any, depth: int, newline: str) -> str:
    write = _SCALARS.get(type(value))
    if write is not None:
        return write(value)
    below, inner = depth - 1, newline + "  "
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        named = [
            f'"{name}": {write(item) if (write := _SCALARS.get(type(item))) else _json(item, below, inner)}'
            for name, item in zip(value._fields, value, strict=True)
        ]
        return _members("{}", named, depth, newline)
    if isinstance(value, (tuple, list)):
        return _members("[]", [_json(item, below, inner) for item in value], depth, newline)
    if isinstance(value, dict):
        named = [f"{_quoted(str(key))}: {_json(item, below, inner)}" for key, item in value.items()]
        return _members("{}", named, depth, newline)
    raise TypeError(f"{type(value).__name__} is not plain data")


_SCALARS: dict[type, Callable[[Any], str]] = {
    str: _quoted,
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    float: lambda value: float.__repr__(value) if value - value == 0 else "null",
}


def _members(brackets: str, members: list[str], depth: int, newline: str) -> str:
    if depth <= 0 or not members:
        return brackets[0] + ", ".join(members) + brackets[1]
    inner = newline + "  "
    return brackets[0] + inner + ("," + inner).join(members) + newline + brackets[1]


def ds_config(config: Mapping[str, Any]) -> str:
    """The generated DeepSpeed config: strict JSON, a key a line."""
    return to_json(config, depth=4) + "\n"


def nccl_conf(settings: Iterable[Setting]) -> str:
    """This node's nccl.conf: `NAME=value` a line; empty text when there is nothing to say.

    NCCL 2.18 to 2.21 take each line with a `=` as a variable, without trimming and without comments
    (src/misc/param.cc, setEnvFile): so nothing follows a value, and the reasons stay in plan.json.
    """
    lines = [f"{one.name}={_flat(str(one.value))}" for one in settings]
    return "\n".join([NCCL_MARK, *lines]) + "\n" if lines else ""


def hostfile(hosts: Iterable[tuple[str, int]]) -> str:
    """DeepSpeed's and MPI's hostfile: `name slots=N`."""
    return "".join(f"{name} slots={slots}\n" for name, slots in hosts)


def env(settings: Iterable[Setting], environ: Mapping[str, str]) -> str:
    """A shell file that gives a login shell the environment of the plan and the user's own training variables.

    What the shell already has is left alone, as the order of authority wants it. Variables of `docker run -e` are not
    visible in ssh sessions, which is why they are here; those that may be secrets are not written.
    """
    told = {name: value for name, value in sorted(environ.items()) if _carried(name) and not is_secret(name, value)}
    told.update((setting.name, str(setting.value)) for setting in settings)
    return "".join(f'[ "${{{name}+x}}" ] || export {name}={shell_word(value)}\n' for name, value in told.items())


def _carried(name: str) -> bool:
    fits = name.startswith(CARRIED) or name.lower() in PROXIES
    return fits and name.replace("_", "a").isalnum() and name.isascii()


def is_secret(name: str, value: str) -> bool:
    """Whether a variable may grant access: by its name, as an address with a user or a signature in it (a proxy is an
    address with or without a scheme), or as a Hugging Face token under any name."""
    upper = name.upper().replace("PKEY", "")  # a partition of the fabric opens nothing
    if any(word in upper for word in SECRET) or any(word in SECRET_WORDS for word in upper.split("_")):
        return True
    address = "://" in value or upper.endswith("_PROXY")
    return value.startswith("hf_") or (address and ("@" in value or "?" in value))


def shell_word(text: str) -> str:
    """`text` as one word of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _flat(text: str) -> str:
    return " ".join(text.split())


def facts_json(machine: Any) -> str:
    """facts.json: the machine, a fact family a line."""
    return to_json(machine, depth=2) + "\n"


def plan_json(plan: Plan) -> str:
    """plan.json: every line of the plan with its source and reason."""
    return to_json(plan, depth=2) + "\n"


def checks_json(findings: Iterable[Finding], results: Iterable[Any]) -> str:
    """checks.json of a boot: what was found, a finding a line, and what each check came to (id -> outcome)."""
    outcomes = {result.id: result.outcome for result in results}
    return to_json({"level": "boot", "findings": list(findings), "outcomes": outcomes}, depth=2) + "\n"
