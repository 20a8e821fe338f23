"""Distances between GPUs and HCAs as the plan sees them, and the levels that limit them."""

from hypothesis import given
from hypothesis import strategies as st

from rig.machine import Gpu, Hca, Machine, PciDevice
from rig.plan.gdr import parse_level
from rig.plan.nccl_facts import Candidate, Scene
from rig.plan.nccl_paths import NEAR, ORDER, closest_gpu, gpu_less_numa, measure_paths, nearest, rank

GPU_BUS, HCA_BUS = "0000:1b:00.0", "0000:1c:00.0"


def chain(bus: str, bridges: tuple[str, ...], numa: int | None) -> list[PciDevice]:
    """A device below bridges, nearest last."""
    found, parent = [], None
    for bridge in bridges:
        found.append(PciDevice(bridge, parent, "pci0000:17", "060400", numa=numa))
        parent = bridge
    return [*found, PciDevice(bus, parent, "pci0000:17", numa=numa)]


def scene(gpu: tuple[str, ...], hca: tuple[str, ...], gpu_numa: int | None = 0, hca_numa: int | None = 0) -> Scene:
    tree = {one.bus_id: one for one in (*chain(GPU_BUS, gpu, gpu_numa), *chain(HCA_BUS, hca, hca_numa))}
    machine = Machine((Gpu(0, GPU_BUS, numa=gpu_numa),), (Hca("mlx5_0", HCA_BUS, hca_numa),), pci=tuple(tree.values()))
    return Scene(machine, paths=measure_paths(machine))


def distance(tried: Scene) -> str | None:
    return tried.paths[GPU_BUS, HCA_BUS]


def test_one_switch_is_pix_and_two_are_pxb() -> None:
    port, up, down = "0000:17:01.0", "0000:18:00.0", "0000:19:00.0"
    assert distance(scene((port, up, down), (port, up, "0000:19:01.0"))) == "PIX"
    below = (port, up, down, "0000:1a:00.0", "0000:1a:10.0")
    assert distance(scene(below, (port, up, "0000:19:01.0"))) == "PXB"


@given(st.none() | st.integers(0, 7), st.none() | st.integers(0, 7))
def test_without_a_common_switch_the_path_leads_through_a_cpu(a: int | None, b: int | None) -> None:
    kind = distance(scene(("0000:17:01.0",), ("0000:17:02.0",), a, b))
    assert kind == ("SYS" if None not in (a, b) and a != b else "PHB")


def test_a_device_without_a_place_has_no_distance() -> None:
    machine = Machine((Gpu(0, GPU_BUS),), (Hca("mlx5_0", HCA_BUS), Hca("scif0")))
    tried = Scene(machine, paths=measure_paths(machine))
    assert distance(tried) is None
    assert closest_gpu(tried, machine.hcas[0]) is None
    assert nearest(tried, machine.gpus[0], tuple(Candidate(one, None) for one in machine.hcas)) is None  # type: ignore[arg-type]


def test_a_numa_node_without_gpus_is_known_only_where_all_are() -> None:
    machine = Machine((Gpu(0, numa=0), Gpu(1, numa=1)))
    assert gpu_less_numa(machine, Hca("a", numa=2))
    assert not gpu_less_numa(machine, Hca("a", numa=1))
    assert not gpu_less_numa(machine, Hca("a"))
    assert not gpu_less_numa(Machine((Gpu(0),)), Hca("a", numa=2))


@given(st.text(max_size=6))
def test_levels_are_exact_names_or_old_digits(value: str) -> None:
    level = parse_level(value)
    assert level is None or level in ORDER
    if value not in ORDER and not (value.isascii() and value.isdigit()):
        assert level is None


def test_known_levels() -> None:
    assert [parse_level(value) for value in ("0", "1", "2", "3", "4", "5", "99")] == ["LOC", "PIX", "PXB", "PHB"] + [
        "SYS"
    ] * 3
    assert [parse_level(value) for value in ("NODE", "phb", "", " SYS", "-1")] == [None] * 5
    assert rank("PXB") == 4 and rank("SYS") == 7
    assert all(rank(kind) <= rank("PXB") for kind in NEAR)
