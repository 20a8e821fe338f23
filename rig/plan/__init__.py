"""Machine + Job + Platform -> Plan. Pure rules: they look at nothing, write nothing, and give reasons."""

from rig.finding import Finding
from rig.lean import Any, NamedTuple

# The order of authority, first wins (docs/architecture.md).
SOURCES = ("command line", "environment", "user file", "platform file", "detection", "default")


class Setting(NamedTuple):
    """One line of a plan: a name, a value, who said so (one of SOURCES) and why."""

    name: str
    value: Any
    source: str
    reason: str


class Plan(NamedTuple):
    """What this node will do. `environment` goes to the program, `nccl` to this node's nccl.conf (node-local values),
    `ds_config` holds dotted names (`zero_optimization.reduce_bucket_size`)."""

    ranks: tuple[Setting, ...] = ()
    environment: tuple[Setting, ...] = ()
    nccl: tuple[Setting, ...] = ()
    ds_config: tuple[Setting, ...] = ()
    hostfile: tuple[tuple[str, int], ...] = ()  # (host, slots)
    findings: tuple[Finding, ...] = ()
