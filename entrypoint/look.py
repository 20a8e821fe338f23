"""Looking at the machine, once, for every verb that plans: facts, the job's world, the user's own files."""

import os

from rig.detect import detect
from rig.finding import Finding
from rig.job import World, read_world
from rig.lean import Mapping, NamedTuple
from rig.machine import Machine
from rig.plan import Plan
from rig.plan.compose import Asked, make_plan
from rig.root import Live, Root
from rig.settings import Settings

NCCL_CONF = "/etc/nccl.conf"
PLANNED = "RIG_PLANNED"


class Seen(NamedTuple):
    """What this boot knows, and what it made of it."""

    machine: Machine
    world: World
    plan: Plan


def open_root(settings: Settings) -> Root:
    """The running machine, or the captured one that RIG_ROOT names: a file of `rig capture`, or a folder."""
    if settings.root is None:
        return Live()
    if os.path.isdir(settings.root):
        return Live(settings.root)
    from rig.captured import Captured

    return Captured(settings.root)


def look(settings: Settings, environ: Mapping[str, str]) -> Seen:
    """Detect, read who takes part, plan. `environ` is the user's environment (see `users_own`)."""
    root = open_root(settings)
    machine = detect(root)
    hostname = machine.surroundings.hostname or "localhost"
    world, strange = read_world(environ, hostname=hostname, read=root.read)
    asked = Asked(environ, users_nccl_conf(root), settings)
    plan = make_plan(machine, world, asked)
    return Seen(machine, world, plan._replace(findings=(*strange, *plan.findings)))


def users_own(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what an earlier boot added to it.

    In a shell of a booted container the plan's own values would else look like the user's, and win. RIG_PLANNED holds
    them as NAME=value lines; what was changed since stays.
    """
    added = dict(line.split("=", 1) for line in environ.get(PLANNED, "").splitlines() if "=" in line)
    return {name: value for name, value in environ.items() if name != PLANNED and added.get(name) != value}


def users_nccl_conf(root: Root) -> dict[str, str]:
    """The variables of an /etc/nccl.conf that the user or the platform wrote; empty where the file is ours."""
    from rig.emit import NCCL_MARK

    text = root.read(NCCL_CONF) or ""
    if text.startswith(NCCL_MARK):
        return {}
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {name: value for name, sign, value in lines if sign}


def failures(findings: "tuple[Finding, ...]") -> "tuple[Finding, ...]":
    return tuple(finding for finding in findings if finding.outcome == "fail")
