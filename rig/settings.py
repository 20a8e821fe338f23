"""The RIG_* variables: one table of what each may hold, and the reading of it."""

from rig.lean import Callable, Mapping, NamedTuple

CHECKS = ("off", "report", "enforce")


class SettingsError(ValueError):
    """A variable of ours holds what it cannot hold. Its text is one line: name, value, what is allowed."""


class Settings(NamedTuple):
    """What the user told rig by environment variables."""

    quiet: bool = False
    checks: str = "report"
    fill: bool = True
    cpu_ranks: int = 2
    grace_s: float = 30.0
    root: str | None = None  # a captured tree or a folder laid out like a machine; None: the running machine
    state: str | None = None  # folder for the files that rig writes; None: rig looks for one
    model: str | None = None  # size of the user's model in words, or the path of a Hugging Face config.json


class Variable(NamedTuple):
    """One RIG_* variable. `field` is its place in Settings, None where rig writes it and only others read it."""

    name: str
    field: str | None
    allowed: str  # in words, for the message and the manual
    default: str
    meaning: str
    parse: Callable[[str], object] | None = None


def _switch(text: str) -> bool:
    return {"0": False, "1": True}[text]


def _one_of_checks(text: str) -> str:
    if text not in CHECKS:
        raise ValueError(text)
    return text


def _ranks(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1024):
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86400:
        raise ValueError(text)
    return value


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(text)
    return text


VARIABLES = (
    Variable("RIG_QUIET", "quiet", "0 or 1", "0", "1: only errors, and what was changed of the user's", _switch),
    Variable("RIG_CHECKS", "checks", "off, report or enforce", "report", "what a failed check does", _one_of_checks),
    Variable("RIG_FILL", "fill", "0 or 1", "1", "0: leave the user's DeepSpeed config and arguments alone", _switch),
    Variable("RIG_CPU_RANKS", "cpu_ranks", "a whole number from 1 to 1024", "2", "ranks without a GPU", _ranks),
    Variable(
        "RIG_GRACE", "grace_s", "seconds from 0 to 86400", "30", "from SIGTERM to SIGKILL after a rank failed", _seconds
    ),
    Variable("RIG_ROOT", "root", "an absolute path", "", "plan for this captured tree, not for this machine", _path),
    Variable(
        "RIG_MODEL", "model", "hidden=4096,layers=32 or a config.json", "", "size of the model, to size buckets", str
    ),
    Variable("RIG_STATE", "state", "an absolute path", "", "folder of facts.json, plan.json and the others", _path),
    Variable("RIG_NODES", None, "names and ranges: gpu-[01-16,20]", "", "the nodes of the job"),
    Variable("RIG_HOSTFILE", None, "a path", "", "a hostfile with the nodes of the job"),
    Variable("RIG_SLOTS", None, "a whole number", "", "ranks on each node of RIG_NODES"),
    Variable("RIG_NODE_RANK", None, "a whole number from 0", "", "which node of the job this is"),
    Variable("RIG_NNODES", None, "a whole number", "", "number of nodes, where no list names them"),
    Variable(
        "RIG_PLANNED",
        None,
        "set by rig",
        "",
        "what rig added to the environment, so that it is not taken for the user's",
    ),
    Variable("RIG_DS_CONFIG", None, "set by rig", "", "path of the DeepSpeed config that fits this machine"),
)


def read_settings(environ: Mapping[str, str]) -> Settings:
    """The settings in `environ`; an empty variable is as good as none. Raises SettingsError on a value not allowed."""
    told: dict[str, object] = {}
    for variable in VARIABLES:
        text = environ.get(variable.name, "")
        if not text or variable.field is None or variable.parse is None:
            continue
        try:
            told[variable.field] = variable.parse(text)
        except (ValueError, KeyError):
            raise SettingsError(f"{variable.name}={text}: must be {variable.allowed}") from None
    return Settings()._replace(**told)  # type: ignore[arg-type]


def unknown_names(environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Each RIG_* name that is in no table, with the known name closest to it (None: none is close)."""
    known = [variable.name for variable in VARIABLES]
    strange = sorted(name for name in environ if name.startswith("RIG_") and name not in known)
    if not strange:
        return []
    from difflib import get_close_matches  # only here: most boots have no strange name

    return [(name, next(iter(get_close_matches(name, known, 1)), None)) for name in strange]
