"""`rig plan`: what rig would choose on this machine, without writing or starting anything."""

import os

from entrypoint.home import account_home
from entrypoint.page import found_line
from entrypoint.say import Voice, printable, sentence
from rig.lean import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple
from rig.plan import Plan, Setting
from rig.settings import SettingsError, read_settings

if TYPE_CHECKING:
    from rig.plan.deepspeed import DsPlan

USAGE_TEXT = """usage: rig plan [--explain] [--json] [--root PATH]

  --explain    for each line: who said so, and the reason with its numbers; for each network key of the DeepSpeed
               config also DeepSpeed's default and what Hugging Face writes for "auto"
  --json       the plan as boot writes it to plan.json
  --root PATH  for a captured machine (a file of `rig capture`, or a folder laid out like one)"""
USAGE = 64


class Wanted(NamedTuple):
    explain: bool = False
    json: bool = False
    root: str | None = None


class BadUsage(ValueError):
    """A word that `rig plan` does not know."""


def run(argv: list[str]) -> int:
    """Print the plan on standard output; 64 on a wrong word or setting, 1 where a line of the plan failed."""
    if "-h" in argv or "--help" in argv:
        print(USAGE_TEXT)
        return 0
    from entrypoint.look import failures, look, users_own

    environ = users_own(os.environ)
    try:
        wanted = _wanted(argv)
        settings = read_settings(environ)
        seen = look(settings._replace(root=wanted.root or settings.root), environ, account=account_home(os.geteuid()))
    except (BadUsage, SettingsError) as error:
        Voice(os.environ).error(str(error))
        return error.code if isinstance(error, SettingsError) else USAGE
    if wanted.json:
        from rig.emit import plan_json

        print(plan_json(seen.plan), end="")
    else:
        lines = (
            "machine",
            f"  {found_line(seen.machine)}",
            *_sections(seen.plan, _instead(seen.composed.ds) if wanted.explain else None, seen.composed.ds_config()),
        )
        print(*map(printable, lines), sep="\n")
    return 1 if failures(seen.plan.findings) else 0


def _wanted(argv: list[str]) -> Wanted:
    wanted, words = Wanted(), list(argv)
    while words:
        word = words.pop(0)
        if word == "--explain":
            wanted = wanted._replace(explain=True)
        elif word == "--json":
            wanted = wanted._replace(json=True)
        elif word == "--root" and words:
            wanted = wanted._replace(root=os.path.abspath(words.pop(0)))
        elif word.startswith("--root="):
            wanted = wanted._replace(root=os.path.abspath(word.partition("=")[2]))
        else:
            raise BadUsage(f"rig plan does not know {word!r}; rig plan --help")
    if wanted.root is not None and not os.path.exists(wanted.root):
        raise BadUsage(f"{wanted.root} does not exist")
    return wanted


def _instead(ds: "DsPlan") -> dict[str, str]:
    """For each network key of the config, what it would have been without this plan."""
    from rig.judge.auto import HF_BUCKETS

    told = {}
    for one in ds.alternatives:
        resolved = one.key.rpartition(".")[2] in HF_BUCKETS
        auto = "not known without the hidden size (RIG_MODEL)" if resolved else "not resolved"
        auto = auto if one.hf_auto is None else _shown(one.hf_auto)
        told[one.key] = f"DeepSpeed's default: {_shown(one.deepspeed)}; Hugging Face's \"auto\": {auto}"
    return told


def _sections(plan: Plan, instead: Mapping[str, str] | None, generated: Mapping[str, Any]) -> Iterable[str]:
    """`instead`: None where nothing is to be explained. `generated` is the config that boot would write."""
    for title, lines in (
        ("ranks", plan.ranks),
        ("environment", plan.environment),
        ("nccl.conf", plan.nccl),
        ("ds_config.json", plan.ds_config),
    ):
        if lines:
            yield from ("", title)
            apart = {one.name for one in lines if not _holds(generated, one.name)} if lines is plan.ds_config else set()
            yield from _lines(lines, instead, apart)
    if plan.hostfile:
        yield from ("", "hostfile")
        yield from (f"  {name} slots={slots}" for name, slots in plan.hostfile)
    if plan.findings:
        yield from ("", "findings")
        yield from (f"  {'note' if one.outcome == 'pass' else one.outcome}: {sentence(one)}" for one in plan.findings)


def _holds(config: Mapping[str, Any], dotted: str) -> bool:
    """Whether a nested config has a key `a.b.c`."""
    value: Any = config
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


def _lines(lines: tuple[Setting, ...], instead: Mapping[str, str] | None, apart: set[str]) -> Iterable[str]:
    width = max(len(one.name) for one in lines)
    for one in lines:
        note = "  (for a config of yours; the generated one leaves it out)" if one.name in apart else ""
        yield f"  {one.name:{width}}  {_shown(one.value)}{note}"
        if instead is not None:
            yield f"  {'':{width}}    {one.source}: {one.reason}"
            if one.name in instead:
                yield f"  {'':{width}}    {instead[one.name]}"


def _shown(value: object) -> str:
    from rig.emit import to_json

    return value if isinstance(value, str) else to_json(value, 0)
