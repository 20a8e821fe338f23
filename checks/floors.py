"""floors.toml -> what a kind of GPU reaches, and whether one stands out among its like. Pure."""

from functools import cache
from statistics import median, pstdev

from checks import Need
from checks.health import is_vgpu
from rig.lean import Any, Iterable, Mapping, NamedTuple
from rig.machine import Machine
from rig.snapshot import Snapshot

FEW = 4  # below this many GPUs a deviation says nothing
FEW_SHARE = 0.25  # then one is slow only where it is this far below the best


class Figure(NamedTuple):
    """One row. `is_` is spec, measured, floor or nvls; the rest as floors.toml says. None: holds for any."""

    of: str
    is_: str
    value: float
    unit: str
    source: str
    date: str
    gpus: int | None = None
    most: int | None = None
    links: int | None = None
    bytes: int | None = None

    def holds(self, gpus: int | None, links: int | None, size: int | None) -> bool:
        """Whether it speaks of so many GPUs with so many links, and of such a message."""
        return (
            (self.gpus is None or (gpus is not None and gpus >= self.gpus))
            and (self.most is None or (gpus is not None and gpus <= self.most))
            and (self.links is None or links == self.links)
            and (self.bytes is None or (size is not None and size >= self.bytes))
        )


class Kind(NamedTuple):
    """A kind of GPU. `nvlinks` is what a board of it has with all its links, `nvlink_gb_s` their sum, one way."""

    id: str
    name: str
    devices: tuple[str, ...]
    pcie_gen: int
    nvlinks: int
    link_gb_s: float
    nvlink_gb_s: float
    figures: tuple[Figure, ...]

    def figure(
        self, of: str, is_: str, gpus: int | None = None, links: int | None = None, size: int | None = None
    ) -> Figure | None:
        """The first row of the table that speaks of this case."""
        fitting = (one for one in self.figures if one.of == of and one.is_ == is_ and one.holds(gpus, links, size))
        return next(fitting, None)


class Pcie(NamedTuple):
    """One generation. `floor_gb_s` holds for 16 lanes."""

    lane_gb_s: float
    floor_gb_s: float
    source: str
    date: str


@cache
def _table() -> dict[str, Any]:
    import tomllib

    with open(f"{__file__.rpartition('/')[0] or '.'}/floors.toml", "rb") as file:
        return tomllib.load(file)


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of the table."""
    found = []
    for name, row in _table()["kinds"].items():
        figures = tuple(Figure(**{_field(key): value for key, value in one.items()}) for one in row["figures"])
        found.append(Kind(name, **{**row, "devices": tuple(row["devices"]), "figures": figures}))
    return tuple(found)


def _field(key: str) -> str:
    return "is_" if key == "is" else key


def pcie(generation: int) -> Pcie | None:
    """What a generation of PCIe carries; None for one that is not in the table."""
    row = _table()["pcie"].get(str(generation))
    return Pcie(**row) if row is not None else None


def rdma_floor_share() -> float:
    return float(_table()["rdma"]["floor_share"])


def kind_of(machine: Machine, bus_id: str | None) -> Kind | None:
    """The kind of the GPU at a bus id, by its PCI device id alone; None where it is not known, and for a share of a
    board."""
    if any(gpu.bus_id == bus_id and is_vgpu(gpu) for gpu in machine.gpus):
        return None
    device = device_id(machine, bus_id)
    return next((kind for kind in kinds() if device in kind.devices), None)


def floor_of(machine: Machine, bus_id: str | None, of: str) -> tuple[Kind, Figure] | None:
    """The floor of one GPU by itself; None where the table has none."""
    kind = kind_of(machine, bus_id)
    floor = kind.figure(of, "floor") if kind else None
    return (kind, floor) if kind and floor else None


def floored(name: str, *of: str) -> tuple[Need, Need]:
    """That a GPU here is of a kind in the table, and that the table has a floor of one of these for it."""

    def met(now: Snapshot) -> bool:
        return any(floor_of(now.machine, gpu.bus_id, one) for gpu in now.machine.gpus for one in of)

    return KNOWN_KIND, Need(
        f"floor-{name}", f"checks/floors.toml has no floor of {' or '.join(of)} for the kind here", met
    )


KNOWN_KIND = Need(
    "known-kind",
    "no GPU here is of a kind that checks/floors.toml has",
    lambda now: any(kind_of(now.machine, gpu.bus_id) for gpu in now.machine.gpus),
)


def device_id(machine: Machine, bus_id: str | None) -> str | None:
    """Four hex digits of an NVIDIA device; None where PCI does not show it."""
    ids = (one.device for one in machine.pci if one.bus_id == bus_id and one.vendor == "10de")
    return next(ids, None)


def alike(machine: Machine, bus_ids: Iterable[str]) -> list[list[str]]:
    """Bus ids in groups of one device id. Unknown ids are one group: most machines have one kind."""
    groups: dict[str | None, list[str]] = {}
    for bus_id in bus_ids:
        groups.setdefault(device_id(machine, bus_id), []).append(bus_id)
    return list(groups.values())


PEERS = Need(
    "peers",
    "no two GPUs of one kind here",
    lambda now: any(len(one) > 1 for one in alike(now.machine, [str(gpu.bus_id) for gpu in now.machine.gpus])),
)


def stragglers(rates: Mapping[str, float], share: float) -> list[tuple[str, float]]:
    """(name, typical rate) of those that are slow among their like: more than `share` and more than one standard
    deviation below the median. Of two or three nobody can say what is usual: then below the best, by a quarter.

    Source: microsoft/superbenchmark (5 %), NVIDIA/Megatron-LM PR#4662 (10 % and one sigma).
    """
    if len(rates) < 2:
        return []
    values = list(rates.values())
    few = len(values) < FEW
    usual, wide = (max(values), 0.0) if few else (median(values), pstdev(values))
    limit = min(usual * (1 - (FEW_SHARE if few else share)), usual - wide)
    return [(name, usual) for name, rate in rates.items() if rate < limit]
