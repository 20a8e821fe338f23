"""All rules together: Machine + Job + Platform + what the user said -> Plan. Pure."""

from rig.job import World
from rig.lean import Mapping, NamedTuple
from rig.machine import Machine
from rig.plan import Plan, Setting
from rig.plan.launch import plan_launch
from rig.settings import Settings


class Asked(NamedTuple):
    """What the user said: the environment without anything of ours, the lines of their own nccl.conf, the settings."""

    environ: Mapping[str, str] = {}  # noqa: RUF012  never changed
    nccl_conf: Mapping[str, str] = {}  # noqa: RUF012
    settings: Settings = Settings()


def make_plan(machine: Machine, world: World, asked: Asked) -> Plan:
    """The plan for this node, each line with its source and reason."""
    launch = plan_launch(machine, world, asked.settings, asked.environ)
    hosts = tuple((node.name, slots) for node, slots in zip(world.nodes, _slots(launch.ranks), strict=False))
    return Plan(
        ranks=launch.ranks,
        environment=launch.environment,
        hostfile=hosts,
        findings=launch.findings,
    )


def _slots(ranks: tuple[Setting, ...]) -> tuple[int, ...]:
    return next((line.value for line in ranks if line.name == "slots"), ())
