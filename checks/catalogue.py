"""All checks, in the order in which they are told: what makes others meaningless first."""

from checks import LEVELS, Check
from rig.lean import Iterable

# Families with a check of level boot stand in BOOT: a boot imports no other.
BOOT = ("driver", "gpu", "limits", "rdma", "gpudirect", "nccl")
FAMILIES = (
    "driver",
    "gpu",
    "memory",
    "clocks",
    "nvlink",
    "pcie",
    "topology",
    "rdma",
    "ports",
    "roce",
    "gpudirect",
    "nccl",
    "limits",
    "system",
    "storage",
    "drives",
    "network",
    "image",
    "framework",
    "identity",
    "performance",
)


def checks_of(level: str, families: Iterable[str] = FAMILIES) -> list[Check]:
    """Every check that runs at a level: its own and those of the levels below."""
    wanted = LEVELS[: LEVELS.index(level) + 1]
    return [one for family in families for one in family_checks(family) if one.at in wanted]


def family_checks(family: str) -> list[Check]:
    """The checks of a family in the order of its file."""
    module = __import__(f"checks.{family}", fromlist=["*"])
    return [value for value in vars(module).values() if isinstance(value, Check)]
