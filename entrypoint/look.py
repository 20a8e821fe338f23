"""Looking at the machine, once, for every verb that plans: facts, the job's world, the user's own files."""

import os

from rig.detect import detect
from rig.finding import Finding
from rig.job import Node, World, read_world, unusable
from rig.lean import TYPE_CHECKING, Mapping, NamedTuple
from rig.machine import Machine
from rig.plan import Plan
from rig.plan.compose import Asked, Composed, judge_users_files, make_plan
from rig.plan.ds_model import Model, ModelError, parse_model
from rig.root import Live, Root
from rig.settings import Settings, SettingsError, SourceError

if TYPE_CHECKING:
    from rig.platform import Platform
    from rig.scriptargs import ScriptFacts

PLATFORM = "/etc/rdma/network_topology.json"
NCCL_CONF = "/etc/nccl.conf"
PLANNED = "RIG_PLANNED"


class Seen(NamedTuple):
    """What this boot knows, and what it made of it."""

    machine: Machine
    world: World
    plan: Plan
    composed: Composed


def open_root(settings: Settings) -> Root:
    """The running machine, or the one that RIG_ROOT names: a file of `rig capture`, or a folder laid out like one.

    Raises SettingsError where it is neither.
    """
    if settings.root is None:
        return Live()
    if os.path.isdir(settings.root):
        return Live(settings.root)  # as rig.captured would say, without the reader of captures
    from rig.captured import open_root as open_replay

    try:
        return open_replay(settings.root)
    except ValueError as error:
        raise SettingsError(f"RIG_ROOT={error}") from None


def look(
    settings: Settings,
    environ: Mapping[str, str],
    script: "ScriptFacts | None" = None,
    account: str | None = None,
    root: Root | None = None,
) -> Seen:
    """Detect, read who takes part, plan.

    `environ` is the user's environment (see `users_own`), `script` what the text of the script to start shows,
    `account` the home of the passwd entry; `root` is the machine where it is not the one that `settings` name. Raises
    SettingsError where RIG_MODEL cannot be read.
    """
    model = _model(settings)
    root = root or open_root(settings)
    machine = detect(root, links=False)
    platform, strange = _platform(root)
    hostname = machine.surroundings.hostname or "localhost"
    listed = tuple(Node(node.name, node.slots) for node in platform.nodes) if platform else ()
    world, unfit = read_world(environ, hostname=hostname, read=root.read, platform_nodes=listed)
    asked = Asked(environ, users_nccl_conf(root, account), settings, script, model)
    composed = make_plan(machine, world, asked, platform)
    unfit = (*unfit, *judge_users_files(environ, root.read, composed.plan))
    if (broken := unusable(unfit)) is not None:
        raise SourceError(f"{broken.text}. {broken.fix}")
    plan = composed.plan._replace(findings=(*strange, *unfit, *composed.plan.findings))
    return Seen(machine, world, plan, composed)


def _platform(root: Root) -> "tuple[Platform | None, tuple[Finding, ...]]":
    folder, _, name = PLATFORM.rpartition("/")
    if root.link(PLATFORM) is None and name not in root.ls(folder):
        return None, ()
    from rig.platform import load_platform  # only where there is a file

    return load_platform(root, PLATFORM)


def _model(settings: Settings) -> Model:
    """RIG_MODEL: words, or the path of a Hugging Face config.json."""
    told = settings.model
    if told is None:
        return Model()
    text: str | None = told
    named = told.startswith(("/", "./", "../")) or os.path.exists(told)
    if named or ("=" not in told and not told.startswith("{")):
        text = Live().read(os.path.join(told, "config.json") if os.path.isdir(told) else os.path.abspath(told))
    if text is None:
        raise SettingsError(f"RIG_MODEL={told}: there is no such file, and hidden=4096,layers=32 are the words")
    try:
        return parse_model(text)
    except ModelError as error:
        raise SettingsError(f"RIG_MODEL={told}: {error}") from None


def users_own(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what an earlier boot added to it.

    In a shell of a booted container the plan's own values would else look like the user's, and win. RIG_PLANNED holds
    them as NAME=value lines; what was changed since stays.
    """
    added = dict(line.split("=", 1) for line in environ.get(PLANNED, "").splitlines() if "=" in line)
    return {name: value for name, value in environ.items() if name != PLANNED and added.get(name) != value}


def users_nccl_conf(root: Root, account: str | None) -> dict[str, str]:
    """The variables of the nccl.conf files that the user or the platform wrote; nothing of a file that is ours.

    NCCL reads the one in the home folder of the passwd entry first, then /etc/nccl.conf, and what is set stays
    (src/misc/param.cc, initEnv and setEnvFile): so the home's values win.
    """
    from rig.emit import NCCL_MARK

    found: dict[str, str] = {}
    for path in (*([home_conf(account)] if account else []), NCCL_CONF):
        text = root.read(path) or ""
        if text.startswith(NCCL_MARK):
            continue
        lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
        found = {**{name: value for name, sign, value in lines if sign}, **found}
    return found


def home_conf(account: str) -> str:
    """The path of the account's own nccl.conf."""
    return f"{account.rstrip('/')}/.nccl.conf"


def failures(findings: "tuple[Finding, ...]") -> "tuple[Finding, ...]":
    return tuple(finding for finding in findings if finding.outcome == "fail")
