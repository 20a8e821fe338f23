"""Everything that a check may look at, as one value that travels: machine, plan, host, image, what probes measured.

A snapshot is JSON (rig.emit.to_json writes it, `read_snapshot` reads it): a check can be replayed on yesterday's node.
"""

from rig.expected import Expected
from rig.finding import Finding
from rig.host import GpuHealth, Host, KernelEvent, Mount, PciLink, PortHealth, Stuck
from rig.image import Account, Image, Library
from rig.lean import Any, Mapping, NamedTuple
from rig.machine import (
    Cpu,
    Gid,
    Gpu,
    Hca,
    Kernel,
    Libraries,
    Limits,
    Machine,
    NetDev,
    NumaNode,
    PciDevice,
    Port,
    Surroundings,
)
from rig.plan import Plan, Setting

VERSION = 1


class SnapshotError(ValueError):
    """The text is no snapshot: one line with the place and what is wrong."""


class Probe(NamedTuple):
    """What became of a probe program. `state`: ok, failed (it ended with an error: `error`), unresponsive (it did not
    end in time), absent (its program or library is not there), unasked (no time was left, or an earlier one is stuck).
    `data` is the JSON object that it printed; for one that did not end, what it had printed until then."""

    name: str
    state: str
    data: Mapping[str, Any] = {}  # noqa: RUF012
    error: str = ""
    seconds: float | None = None


class Snapshot(NamedTuple):
    """A node at one moment. `host` and `image` are None where only the boot looked; `environ` holds the variables of
    the user that checks look at, without secrets; `pins` what the image is meant to hold (NAME -> version)."""

    machine: Machine
    plan: Plan = Plan()
    expected: Expected = Expected()
    environ: Mapping[str, str] = {}  # noqa: RUF012
    pins: Mapping[str, str] = {}  # noqa: RUF012
    host: Host | None = None
    image: Image | None = None
    probes: Mapping[str, Probe] = {}  # noqa: RUF012
    taken_at: str | None = None  # ISO 8601, UTC
    version: int = VERSION


# Field -> record, or a tuple of one for a list of them. Annotations are no help: the packed boot has none.
NESTED: dict[type, dict[str, Any]] = {
    Snapshot: {"machine": Machine, "plan": Plan, "expected": Expected, "host": Host, "image": Image},
    Machine: {
        "gpus": (Gpu,),
        "hcas": (Hca,),
        "netdevs": (NetDev,),
        "pci": (PciDevice,),
        "numa": (NumaNode,),
        "cpu": Cpu,
        "kernel": Kernel,
        "libraries": Libraries,
        "limits": Limits,
        "surroundings": Surroundings,
    },
    Hca: {"ports": (Port,)},
    Port: {"gids": (Gid,)},
    Plan: {
        "ranks": (Setting,),
        "environment": (Setting,),
        "nccl": (Setting,),
        "ds_config": (Setting,),
        "findings": (Finding,),
    },
    Host: {
        "kernel_log": (KernelEvent,),
        "gpus": (GpuHealth,),
        "links": (PciLink,),
        "ports": (PortHealth,),
        "stuck": (Stuck,),
        "mounts": (Mount,),
    },
    Image: {"libraries": (Library,), "account": Account},
}


def read_snapshot(text: str, name: str = "snapshot") -> Snapshot:
    """The snapshot in a JSON text. SnapshotError when it is none, or one of another version; unknown fields are
    ignored, so that a newer rig's snapshot can be read as far as it is known."""
    import json

    try:
        data = json.loads(text)
    except ValueError as error:
        raise SnapshotError(f"{name}: no JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("machine"), dict):
        raise SnapshotError(f"{name}: not a snapshot: it has no machine; `rig check --save FILE` writes one")
    if data.get("version") != VERSION:
        raise SnapshotError(f"{name}: version {data.get('version')!r}; this rig reads version {VERSION}")
    probes = data.get("probes")
    made = _record(Snapshot, data, name)
    if not isinstance(probes, dict):
        raise SnapshotError(f"{name}: probes must be an object")
    return made._replace(probes={key: _record(Probe, value, f"{name}: probes.{key}") for key, value in probes.items()})


def _record(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise SnapshotError(f"{where}: must be an object")
    nested = NESTED.get(kind, {})
    values = {
        field: _value(nested.get(field), data[field], f"{where}: {field}") for field in kind._fields if field in data
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise SnapshotError(f"{where}: {error}") from None


def _value(kind: Any, data: Any, where: str) -> Any:
    if data is None or kind is None:
        return _frozen(data)
    if isinstance(kind, tuple):
        if not isinstance(data, list):
            raise SnapshotError(f"{where}: must be a list")
        return tuple(_record(kind[0], item, f"{where}[{index}]") for index, item in enumerate(data))
    return _record(kind, data, where)


def _frozen(data: Any) -> Any:
    """Lists as tuples, all the way down: records hold no lists."""
    if isinstance(data, list):
        return tuple(_frozen(item) for item in data)
    if isinstance(data, dict):
        return {key: _frozen(value) for key, value in data.items()}
    return data
