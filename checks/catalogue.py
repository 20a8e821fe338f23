"""All checks, in the order in which they are told: what makes others meaningless first."""

from checks import LEVELS, Check
from rig.lean import Iterable
from rig.snapshot import Snapshot

# Families with a check of level boot stand in BOOT: a boot imports no other. FABRIC is of no concern where there is
# neither GPU nor HCA, and none was promised; SOLD where GPUDirect was not.
FABRIC, SOLD = ("rdma", "nccl"), ("gpudirect",)
BOOT = ("driver", "gpu", "limits", *FABRIC, *SOLD)
FAMILIES = (
    "driver",
    "gpu",
    "cuda",
    "gpu_state",
    "memory",
    "kernel",
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
    "packages",
    "libraries",
    "image",
    "settings",
    "framework",
    "training",
    "identity",
    "liveness",
    "performance",
    "collectives",
)


def checks_of(level: str, families: Iterable[str] = FAMILIES) -> list[Check]:
    """Every check that runs at a level: its own and those of the levels below."""
    wanted = LEVELS[: LEVELS.index(level) + 1]
    return [one for family in families for one in family_checks(family) if one.at in wanted]


def boot_checks(now: Snapshot) -> list[Check]:
    """The checks of level boot that may concern this node."""
    machine, expected = now.machine, now.expected
    concerned = machine.gpus or machine.hcas or expected.promises_gpus or expected.promises_hcas or expected.gdr
    left_out = (*(() if concerned else FABRIC), *(() if expected.gdr else SOLD))
    return checks_of("boot", [family for family in BOOT if family not in left_out])


def family_checks(family: str) -> list[Check]:
    """The checks of a family in the order of its file."""
    module = __import__(f"checks.{family}", fromlist=["*"])
    return [value for value in vars(module).values() if isinstance(value, Check)]
