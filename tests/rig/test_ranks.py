"""Each rank learns who it is, and the numbers of all ranks fit together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.ranks import Place, port_candidates, rank_environment, threads, visible


@given(st.lists(st.integers(1, 16), min_size=1, max_size=8))
def test_ranks_of_all_nodes_count_from_zero_without_a_gap(slots: list[int]) -> None:
    places = [Place(tuple(slots), node) for node in range(len(slots))]
    told = [rank_environment(place, local) for place in places for local in range(place.local_size)]
    assert [int(one["RANK"]) for one in told] == list(range(sum(slots)))
    assert {one["WORLD_SIZE"] for one in told} == {str(sum(slots))}
    for one in told:
        assert 0 <= int(one["LOCAL_RANK"]) < int(one["LOCAL_WORLD_SIZE"]) == slots[int(one["NODE_RANK"])]
        assert one["LOCAL_SIZE"] == one["LOCAL_WORLD_SIZE"]
        assert one["CROSS_RANK"] == one["GROUP_RANK"] == one["NODE_RANK"]


def test_all_ranks_meet_at_one_address() -> None:
    place = Place((2, 2), 1, "node-a", 29511)
    assert {(r["MASTER_ADDR"], r["MASTER_PORT"]) for r in (rank_environment(place, i) for i in range(2))} == {
        ("node-a", "29511")
    }


def test_no_agent_of_torchrun_is_pretended() -> None:
    assert not [name for name in rank_environment(Place((1,)), 0) if name.startswith("TORCHELASTIC")]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (None, 8),
        ("", 0),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("0", 1),
        ("0,2,5", 3),
        (" 0 , 1 ", 2),
        ("0,8,1", 1),
        ("0,-1,1", 1),
        ("GPU-5d1c,GPU-77aa", 2),
        ("MIG-1b", 1),
        ("all", 0),
    ],
)
def test_cuda_visible_devices_is_counted_as_cuda_does(text: str | None, count: int) -> None:
    assert visible(8, text) == count


def test_threads_share_the_cpus() -> None:
    assert threads(96, 8) == 12
    assert threads(2.5, 2) == 1
    assert threads(0.5, 4) == 1
    assert threads(None, 4) == 1
    assert threads(4, 0) == 4


@given(st.binary(min_size=4, max_size=8))
def test_ports_are_below_those_of_outgoing_connections(seed: bytes) -> None:
    for text, start, end in (("32768\t60999\n", 20000, 32768), (None, 20000, 32768), ("2048\t65000\n", 1024, 2048)):
        ports = list(port_candidates(text, seed))
        assert len(ports) == 16
        assert all(start <= port < end for port in ports)
