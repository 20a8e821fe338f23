"""The RIG_* variables: one table of what each may hold, and the reading of it."""

from rig.lean import TYPE_CHECKING, Callable, Mapping, NamedTuple

if TYPE_CHECKING:
    from rig.expected import Expected

CHECKS = ("off", "report", "enforce")


class SettingsError(ValueError):
    """A variable of ours holds what it cannot hold. Its text is one line: name, value, what is allowed.

    `code` is the exit code of a boot that ends by it.
    """

    code = 64


class SourceError(SettingsError):
    """What a variable names cannot be used: training on without it would be another job than the one asked for."""

    code = 78


class Settings(NamedTuple):
    """What the user told rig by environment variables."""

    checks: str = "report"
    fill: bool = True
    cpu_ranks: int = 2
    grace_s: float = 30.0
    root: str | None = None  # a captured tree or a folder laid out like a machine; None: the running machine
    state: str | None = None  # folder for the files that rig writes; None: rig looks for one
    model: str | None = None  # size of the user's model in words, or the path of a Hugging Face config.json
    expected: "Expected | None" = None  # what the machine was sold as; None: nothing was said


class Variable(NamedTuple):
    """One RIG_* variable. `field` is its place in Settings; None where rig writes it, or where rig.job or the boot's
    voice reads it. `parse` raises ValueError on what it cannot hold; None: any text will do."""

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


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise ValueError(text)
        return int(text)

    return parse


def _nodes(text: str) -> tuple[str, ...]:
    from rig.nodelist import expand_safe  # most jobs name no nodes

    return expand_safe(text)


def _expected(text: str) -> "Expected":
    from rig.expected import parse_expected  # few machines are told what they must be

    return parse_expected(text)


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
    Variable("RIG_QUIET", None, "0 or 1", "0", "1: only errors, and what was changed of the user's", _switch),
    Variable("RIG_CHECKS", "checks", "off, report or enforce", "report", "what a failed check does", _one_of_checks),
    Variable("RIG_FILL", "fill", "0 or 1", "1", "0: fill, repair and add nothing", _switch),
    Variable(
        "RIG_CPU_RANKS", "cpu_ranks", "a whole number from 1 to 1024", "2", "ranks without a GPU", _whole(1, 1024)
    ),
    Variable(
        "RIG_GRACE", "grace_s", "seconds from 0 to 86400", "30", "from SIGTERM to SIGKILL after a rank failed", _seconds
    ),
    Variable("RIG_ROOT", "root", "an absolute path", "", "plan for this captured tree, not for this machine", _path),
    Variable(
        "RIG_MODEL", "model", "hidden=4096,layers=32 or a config.json", "", "size of the model, to size buckets", str
    ),
    Variable("RIG_STATE", "state", "an absolute path", "", "folder of facts.json, plan.json and the others", _path),
    Variable("RIG_EXPECT", "expected", "words: gpus=8,hcas=8,gdr=1", "", "what was sold: less fails", _expected),
    Variable(
        "RIG_BAD_GPUS", None, "UUIDs with commas: GPU-5d2c...", "", "GPUs that failed before: a machine with one fails"
    ),
    Variable("RIG_NODES", None, "names and ranges: gpu-[01-16,20]", "", "the nodes of the job", _nodes),
    Variable("RIG_HOSTFILE", None, "a path", "", "a hostfile with the nodes of the job"),
    Variable(
        "RIG_SLOTS", None, "a whole number from 1 to 1024", "", "ranks on each node of RIG_NODES", _whole(1, 1024)
    ),
    Variable(
        "RIG_NODE_RANK", None, "a whole number from 0 to 65535", "", "which node of the job this is", _whole(0, 65535)
    ),
    Variable(
        "RIG_NNODES",
        None,
        "a whole number from 1 to 65536",
        "",
        "number of nodes, where no list names them",
        _whole(1, 65536),
    ),
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
        if not text or variable.parse is None:
            continue
        try:
            value = variable.parse(text)
        except (ValueError, KeyError) as error:
            raise SettingsError(_refusal(variable, text, error)) from None
        if variable.field is not None:
            told[variable.field] = value
    return Settings()._replace(**told)  # type: ignore[arg-type]


def _refusal(variable: Variable, text: str, error: Exception) -> str:
    """One line; a list can be long, and the part that is wrong is what helps."""
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    why = f" ({error})" if variable.parse in (_nodes, _expected) else ""
    return f"{variable.name}={shown}: must be {variable.allowed}{why}"


def unknown_names(environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Each RIG_* name that is in no table, with the known name closest to it (None: none is close)."""
    known = [variable.name for variable in VARIABLES]
    strange = sorted(name for name in environ if name.startswith("RIG_") and name not in known)
    if not strange:
        return []
    from difflib import get_close_matches  # only here: most boots have no strange name

    return [(name, next(iter(get_close_matches(name, known, 1)), None)) for name in strange]
