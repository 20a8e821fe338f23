"""The table of floors is possible physics, and finding a kind or a straggler in it is exact."""

import pytest

from checks import evaluate
from checks.catalogue import family_checks
from checks.floors import FEW_SHARE, Kind, alike, kind_of, kinds, pcie, rdma_floor_share, stragglers
from rig.machine import Machine, PciDevice
from rig.snapshot import Snapshot
from tests.checks.snapshots import a100, h100, rtx4090
from tests.checks.twins_collectives import NVL_PAIR
from tests.checks.twins_performance import NEW_KIND, every, of_kind, probed

UNITS = {"hbm": "GB/s", "bf16": "TFLOP/s", "fp16": "TFLOP/s", "nvlink": "GB/s", "busbw": "GB/s"}
FIGURES = [(kind, figure) for kind in kinds() for figure in kind.figures]
NAMES = [f"{kind.id}-{figure.of}-{figure.is_}-{figure.value}" for kind, figure in FIGURES]


def machine(*devices: str) -> Machine:
    return Machine(
        pci=tuple(
            PciDevice(f"0000:{index:02x}:00.0", vendor="10de", device=one) for index, one in enumerate(devices, 1)
        )
    )


def limit(kind: Kind, of: str) -> float:
    """What physics allows: the datasheet, the links; for busbw the best that anybody measured, since NVLink SHARP
    passes the rate of the links."""
    if of == "nvlink":
        return kind.nvlink_gb_s
    rows = [one.value for one in kind.figures if one.of == of and one.is_ == ("measured" if of == "busbw" else "spec")]
    return max(rows)


@pytest.mark.parametrize(("kind", "figure"), FIGURES, ids=NAMES)
def test_no_figure_is_above_its_limit(kind: Kind, figure: object) -> None:
    one = kind.figures[kind.figures.index(figure)]
    assert 0 < one.value <= limit(kind, one.of)
    assert one.is_ in ("spec", "measured", "floor", "nvls")
    assert one.unit == UNITS[one.of]
    assert one.source.strip() and len(one.date) == 7 and one.date[:2] == "20" and one.date[4] == "-"


@pytest.mark.parametrize(("kind", "figure"), FIGURES, ids=NAMES)
def test_a_floor_is_below_what_was_measured(kind: Kind, figure: object) -> None:
    one = kind.figures[kind.figures.index(figure)]
    if one.is_ != "floor":
        return
    for gpus in (2, 3, 4, 8):
        best = kind.figure(one.of, "measured", gpus, one.links)
        if one.holds(gpus, one.links, 1 << 40) and best:
            assert one.value < best.value


@pytest.mark.parametrize("kind", kinds(), ids=[kind.id for kind in kinds()])
def test_links_times_their_rate_is_the_bandwidth(kind: Kind) -> None:
    assert kind.nvlinks * kind.link_gb_s == kind.nvlink_gb_s
    assert all(one.links in (None, kind.nvlinks) for one in kind.figures)
    assert kind.nvlinks or not any(one.of == "nvlink" for one in kind.figures)


def test_a_device_id_belongs_to_one_kind() -> None:
    ids = [device for kind in kinds() for device in kind.devices]
    assert len(set(ids)) == len(ids)
    assert all(len(one) == 4 and not set(one) - set("0123456789abcdef") for one in ids)


def test_a_floor_of_rates_that_differ_by_ten_would_be_seen() -> None:
    """The slips of other tables: ten times too low, or in megabytes."""
    for kind in kinds():
        floors = {one.of: one.value for one in kind.figures if one.is_ == "floor"}
        for of in ("hbm", "bf16", "fp16"):
            if of in floors:
                assert floors[of] > limit(kind, of) / 3


@pytest.mark.parametrize("generation", [3, 4, 5])
def test_the_floor_of_pcie_is_below_sixteen_lanes(generation: int) -> None:
    row = pcie(generation)
    assert row is not None and row.source
    assert row.lane_gb_s * 16 / 2 < row.floor_gb_s < row.lane_gb_s * 16
    assert pcie(9) is None


def test_rdma_s_share_is_one() -> None:
    assert 0.5 < rdma_floor_share() < 1


@pytest.mark.parametrize("device", ["2335", "2330", "2684"])
def test_a_kind_is_found_by_the_whole_id_of_an_nvidia_device(device: str) -> None:
    found = kind_of(machine(device), "0000:01:00.0")
    assert found is not None and device in found.devices
    other = machine(device)._replace(pci=(PciDevice("0000:01:00.0", vendor="1002", device=device),))
    assert kind_of(other, "0000:01:00.0") is None


@pytest.mark.parametrize("device", ["2342", "233", "23350", "ffff"])
def test_what_is_alike_in_name_only_is_not_found(device: str) -> None:
    """2342 is GH200, in whose name "H200" stands."""
    assert kind_of(machine(device), "0000:01:00.0") is None


def test_a_figure_holds_for_its_gpus_links_and_messages_only() -> None:
    a100 = next(kind for kind in kinds() if kind.id == "a100-pcie-80")
    pair, many = a100.figure("busbw", "floor", 2, 12), a100.figure("busbw", "floor", 4, 12)
    assert pair is not None and many is not None and pair.value > many.value
    assert a100.figure("busbw", "floor", 2, 0) is None and a100.figure("busbw", "floor", None, 12) is None
    h100 = next(kind for kind in kinds() if kind.id == "h100-sxm")
    assert h100.figure("busbw", "floor", 8, 18, 256 << 20) is None
    assert h100.figure("busbw", "nvls", 4, 18, 4 << 30) is None


def test_gpus_of_two_models_are_not_compared() -> None:
    groups = alike(machine("2330", "2684", "2330"), ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"])
    assert groups == [["0000:01:00.0", "0000:03:00.0"], ["0000:02:00.0"]]


@pytest.mark.parametrize(
    ("rates", "slow"),
    [
        ([100, 101, 99, 100, 100, 101, 99, 100], []),
        ([100, 101, 99, 100, 88, 101, 99, 100], [4]),
        ([100, 100, 100, 100, 91, 100, 100, 100], []),  # 9 % is within the share
        ([100, 84, 120, 70, 130, 100, 90, 110], [3]),  # a wide field: one sigma is 18
        ([100, 60, 60, 100, 100, 100, 100, 100], [1, 2]),
        ([100, 80], []),  # who of two is usual?
        ([100, 100 * (1 - FEW_SHARE) - 1], [1]),
        ([50], []),
        ([], []),
    ],
)
def test_a_straggler_is_off_the_median_by_share_and_sigma(rates: list[float], slow: list[int]) -> None:
    found = stragglers({str(index): rate for index, rate in enumerate(rates)}, 0.1)
    assert [int(name) for name, _ in found] == slow


V100 = every(of_kind(a100(), "1db5", "Tesla V100-SXM2-32GB", 6), "gpu_matmul", "gpus", bf16_tflops=None)
FLOORS = {
    one.id: one
    for family in ("performance", "collectives")
    for one in family_checks(family)
    if "known-kind" in [need.name for need in one.needs]
}


@pytest.mark.parametrize(
    ("now", "skipped"),
    [
        (NEW_KIND, set(FLOORS)),
        (of_kind(NEW_KIND, "2f00", "NVIDIA Something New", 0, count=1), set(FLOORS)),
        (of_kind(h100(), "2342", "NVIDIA GH200 480GB", 18), set(FLOORS)),
        (V100, {"gpus_multiply_as_fast_as_their_kind", "copies_over_nvlink_reach_their_floor"}),
        (rtx4090(), {"gpu_memory_reaches_its_floor", "gpus_multiply_as_fast_as_their_kind"}),
        (probed(h100(), "nccl_node", bytes=256 << 20), {"all_reduce_in_the_node_reaches_its_floor"}),
        (h100(), set()),
    ],
)
def test_what_no_table_knows_is_skipped_by_name_and_never_passed(now: Snapshot, skipped: set[str]) -> None:
    results = {name: evaluate(one, now) for name, one in FLOORS.items()}
    named = {
        name for name, one in results.items() if one.missing.startswith(("known-kind", "floor-", "gpus", "nvlink"))
    }
    assert named >= skipped
    assert not {name for name, one in results.items() if one.outcome == "pass"} & skipped
    assert skipped or {one.outcome for one in results.values()} == {"pass"}


def test_the_peers_of_an_unknown_kind_are_compared_where_there_are_two() -> None:
    peers = [one for one in family_checks("performance") if "peers" in [need.name for need in one.needs]]
    single = of_kind(NEW_KIND, "2f00", "NVIDIA Something New", 0, count=1)
    assert peers
    assert {evaluate(one, NEW_KIND).outcome for one in peers} == {"pass"}
    assert {evaluate(one, single).outcome for one in peers} == {"skip"}


def test_a_gpu_without_a_floor_beside_one_with_it_is_unknown() -> None:
    pci = tuple(
        one._replace(device="2f00") if one.bus_id == h100().machine.gpus[0].bus_id else one
        for one in h100().machine.pci
    )
    now = h100()._replace(machine=h100().machine._replace(pci=pci))
    assert evaluate(FLOORS["gpu_memory_reaches_its_floor"], now).outcome == "unknown"


def test_a_pair_has_the_floor_of_a_pair() -> None:
    assert evaluate(FLOORS["all_reduce_in_the_node_reaches_its_floor"], NVL_PAIR).outcome == "pass"
