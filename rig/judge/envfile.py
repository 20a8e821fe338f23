"""A .deepspeed_env: its lines are pasted unquoted into one shell line, `export K=V; cd ...; python ...`."""

from rig.judge.ruling import Judgement, Ruling, judgement
from rig.lean import Any, Mapping

# Families that a launch is made of; what else stands in a file that was appended to is from an older run.
FAMILIES = (
    "NCCL",
    "GLOO",
    "TORCH",
    "TP_",
    "CUDA_",
    "UCX",
    "MV2",
    "FI_",
    "OFI_",
    "OMP_",
    "MKL_",
    "PYTHON",
    "MLFLOW",
    "HF_",
    "DS_",
    "DEEPSPEED",
    "LD_LIBRARY_PATH",
    "PATH",
)
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def judge_text(text: str, world: Mapping[str, Any], name: str) -> Judgement:
    """See rig.judge.judge_deepspeed_env."""
    rulings: list[Ruling] = []
    values: dict[str, str] = {}
    again: list[str] = []
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        found = _pair(raw, number, rulings)
        if found is None:
            continue
        key, value = found
        if key in values:
            again.append(key)
            del values[key]  # the last one counts, and stands where it was written
        values[key] = value
    if again:
        values = _fresh(values, again, world, rulings)
    output = "".join(f"{key}={value}\n" for key, value in values.items())
    return judgement(rulings, output if rulings else text, subject=name)


def _pair(raw: str, number: int, rulings: list[Ruling]) -> tuple[str, str] | None:
    line, at = raw.strip(), str(number)

    def fix(message: str, remedy: str) -> None:
        rulings.append(Ruling("fix", "env-file", message, at, remedy))

    if not line:
        fix("an empty line raises in the launcher", "Remove it")
        return None
    if line.startswith("#"):
        fix(f"'{line[:40]}': the # comments out the launch itself: no rank starts, exit status 0", "Remove it")
        return None
    key, equals, value = line.removeprefix("export ").partition("=")
    key = key.strip()
    if not equals:
        fix(f"'{line[:40]}' has no '=' and raises in the launcher", "Write NAME=value")
        return None
    if not _is_name(key):
        rulings.append(Ruling("reject", "env-file", f"'{key[:40]}' is no name of a variable", at, "Write NAME=value"))
        return None
    if line != raw or line.startswith("export ") or value != value.strip():
        fix(f"{key}: blanks or 'export' around the value", "Write NAME=value")
    return key, _shell_safe(key, value.strip(), fix)


def _shell_safe(key: str, value: str, fix: Any) -> str:
    """The value as a shell takes it for one word; a remark behind it cut off."""
    if _one_word(value):
        return value
    cut = value.find(" #")
    if cut >= 0:
        fix(f"{key}: the remark after # comments out the launch itself: no rank starts, exit status 0", "Remove it")
        value = value[:cut].rstrip()
    if _one_word(value):
        return value
    quoted = "'" + value.replace("'", "'\"'\"'") + "'"
    bad = next(char for char in value if char not in PLAIN)
    fix(f"{key}: {bad!r} in the value is read by the shell of every node: quoted", "Put the value in single quotes")
    return quoted


def _one_word(value: str) -> bool:
    """Whether a shell reads exactly one literal word: plain pieces, 'quoted' and "quoted" ones side by side."""
    at = 0
    while at < len(value):
        if value[at] in PLAIN:
            at += 1
            continue
        stop = value.find(value[at], at + 1) if value[at] in "'\"" else -1
        if stop < 0 or (value[at] == '"' and any(char in "$`\\" for char in value[at:stop])):
            return False
        at = stop + 1
    return True


def _is_name(key: str) -> bool:
    return key.isascii() and key.replace("_", "a").isalnum() and not key[:1].isdigit()


def _fresh(values: dict[str, str], again: list[str], world: Mapping[str, Any], rulings: list[Ruling]) -> dict[str, str]:
    """A file with a name twice was appended to by earlier runs: only what belongs to this launch is kept."""
    env = world.get("env")
    now = env if isinstance(env, Mapping) else {}
    kept = {key: value for key, value in values.items() if key in now or key.startswith(FAMILIES)}
    dropped = [key for key in values if key not in kept]
    text = f"{', '.join(sorted(set(again))[:5])} stands there twice: earlier runs appended, the last value counts"
    if dropped:
        text += f"; left over from them: {', '.join(dropped[:5])}"
    rulings.append(Ruling("fix", "env-file", text, "", "Write the file fresh for every launch, mode 0600"))
    return kept
