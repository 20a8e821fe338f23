"""The text of a snapshot -> Snapshot: every record by its place, since the packed rig has no annotations."""

from rig.expected import Expected
from rig.finding import Finding
from rig.host import GpuHealth, Host, KernelEvent, Mount, PciLink, PortHealth, Raid, SshFile, Stuck
from rig.image import Account, Image, Library
from rig.lean import Any
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
from rig.snapshot import VERSION, Probe, Snapshot, SnapshotError

# Field -> record, or a tuple of one for a list of them.
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
        "raids": (Raid,),
        "ssh_files": (SshFile,),
    },
    Image: {"libraries": (Library,), "account": Account},
}

# What is written out as it stands, and what all else is judged by; the rest is only judged, and a check that breaks is
# unknown. Exactly these: True is no number.
KINDS: dict[type, dict[str, tuple[type, ...]]] = {
    Snapshot: {"taken_at": (str,)},
    Surroundings: {"hostname": (str,)},
    Probe: {"name": (str,), "state": (str,), "data": (dict,), "error": (str,), "seconds": (int, float)},
    Expected: {
        "gpus": (int,),
        "model": (str,),
        "hcas": (int,),
        "rate": (int,),
        "gdr": (bool,),
        "nvlinks": (int,),
        "memory_gb": (int,),
    },
}


def read(text: str, name: str) -> Snapshot:
    """What rig.snapshot.read_snapshot gives."""
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
    made: Snapshot = _record(Snapshot, data, name)
    if not isinstance(probes, dict):
        raise SnapshotError(f"{name}: probes must be an object")
    return made._replace(probes={key: _record(Probe, value, f"{name}: probes.{key}") for key, value in probes.items()})


def _record(kind: Any, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise SnapshotError(f"{where}: must be an object")
    nested = NESTED.get(kind, {})
    values = {
        field: _value(nested.get(field), data[field], f"{where}: {field}")
        for field in kind._fields
        if field in data and (data[field] is not None or kind._field_defaults.get(field) is None)
    }  # null is unknown: where a record knows no unknown, it is as good as left out
    for field, kinds in KINDS.get(kind, {}).items():
        if values.get(field) is not None and type(values[field]) not in kinds:
            raise SnapshotError(f"{where}: {field} cannot be {values[field]!r:.40}")
    try:
        return kind(**values)
    except TypeError as error:
        raise SnapshotError(f"{where}: {error}") from None


def _value(kind: Any, data: Any, where: str) -> Any:
    if data is None or kind is None:
        return frozen(data)
    if isinstance(kind, tuple):
        if not isinstance(data, list):
            raise SnapshotError(f"{where}: must be a list")
        return tuple(_record(kind[0], item, f"{where}[{index}]") for index, item in enumerate(data))
    return _record(kind, data, where)


def frozen(data: Any) -> Any:
    """Lists as tuples, all the way down: records hold no lists."""
    if isinstance(data, list):
        return tuple(frozen(item) for item in data)
    if isinstance(data, dict):
        return {key: frozen(value) for key, value in data.items()}
    return data
