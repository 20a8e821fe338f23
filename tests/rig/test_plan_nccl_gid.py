"""The right GID of a port, and the one that NCCL takes on its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.machine import Gid, NetDev, Port
from rig.plan.gid import in_subnet, ipv4_of, is_link_local, nccl_choice, right_gid, v1_only
from tests.case_made import LOCAL, V1, V2, v4

GLOBAL6 = "2001:0db8:0000:0000:0000:0000:0000:0001"
ADDRESSES = st.sampled_from([LOCAL, GLOBAL6, v4(1), v4(2), v4(3, "cb007100"), v4(0, "a9fe0101")])
ENTRIES = st.tuples(ADDRESSES, st.sampled_from([V1, V2, None]), st.sampled_from(["eth2", "eth2.10", None]))
VERSIONS = st.sampled_from([(2, 18, 1), (2, 20, 5), (2, 21, 5), (2, 24, 3), (2, 26, 2), (2, 28, 3)])


def port(*entries: tuple[str, str | None], start: int = 0, refused: int = 0, netdev: str | None = "eth2") -> Port:
    table = tuple(Gid(start + at, gid, kind, netdev) for at, (gid, kind) in enumerate(entries))
    return Port("mlx5_0", 1, "ACTIVE", link_layer="Ethernet", gids=table, gids_refused=refused)


@st.composite
def tables(draw: st.DrawFn) -> Port:
    """Ports with gaps, entries of other types, families and interfaces."""
    indexes = sorted(draw(st.sets(st.integers(0, 20), max_size=10)))
    rows = [draw(ENTRIES) for _ in indexes]
    table = tuple(Gid(index, gid, kind, dev) for index, (gid, kind, dev) in zip(indexes, rows, strict=True))
    return Port("mlx5_0", 1, "ACTIVE", link_layer="Ethernet", gids=table, gids_refused=draw(st.integers(0, 2)))


@given(tables(), st.none() | st.sampled_from(["203.0.113.0/24", "2001:db8::/32", "garbage"]))
def test_the_right_entry_is_v2_and_never_link_local(tried: Port, subnet: str | None) -> None:
    found = right_gid(tried, (NetDev("eth2"),), subnet)
    if found is None:
        return
    assert found.type == V2
    assert not is_link_local(found.gid)
    fit = [one for one in tried.gids if one.type == V2 and ipv4_of(one.gid) and not is_link_local(one.gid)]
    if subnet is None and any(one.netdev == "eth2" for one in fit):
        assert ipv4_of(found.gid)
        assert found.netdev == "eth2"


@given(tables(), VERSIONS, st.sampled_from(["AF_INET", "AF_INET6"]))
def test_the_walk_ends_on_an_entry_of_the_table_or_at_zero(
    tried: Port, version: tuple[int, int, int], family: str
) -> None:
    index = nccl_choice(tried, version, family=family)
    assert index is None or index == 0 or index in {one.index for one in tried.gids}
    if version < (2, 21, 5):
        assert index == 0
    if version >= (2, 26, 2):
        assert index is not None


@given(tables())
def test_a_readable_table_with_ipv4_is_walked_to_an_ipv4_entry(tried: Port) -> None:
    tried = tried._replace(gids_refused=0)
    fourth = [one for one in tried.gids if ipv4_of(one.gid) is not None and one.index > 0]
    index = nccl_choice(tried, (2, 26, 2))
    chosen = next((one for one in tried.gids if one.index == index), None)
    if fourth:
        assert chosen is not None and ipv4_of(chosen.gid)
    if any(one.type == V2 for one in fourth):
        assert chosen is not None and chosen.type == V2


@pytest.mark.parametrize(
    ("table", "right", "walked"),
    [
        (port((LOCAL, V1), (LOCAL, V2), (v4(1), V1), (v4(1), V2)), 3, 3),  # mlx5
        (port((LOCAL, V2), (v4(1), V2)), 1, 1),  # irdma, erdma
        (port((LOCAL, V1), (LOCAL, V2), (GLOBAL6, V1), (GLOBAL6, V2)), 3, 0),  # IPv6 only
        (port((LOCAL, V1), (LOCAL, V2), (v4(1), V1), (v4(1), V2), (v4(2), V1), (v4(2), V2)), 3, 3),  # second address
        (port((LOCAL, V1), (v4(1), V1), (v4(2), V1)), None, 1),  # no v2
        (port((v4(1), V1), (v4(1), V2), (LOCAL, V1), (LOCAL, V2), start=4), 5, 5),  # macvlan pod
    ],
)
def test_known_tables(table: Port, right: int | None, walked: int) -> None:
    found = right_gid(table)
    assert (found.index if found else None) == right
    assert nccl_choice(table, (2, 26, 2)) == walked


def test_the_walk_of_2_21_stops_at_entries_of_other_namespaces() -> None:
    table = port((v4(1), V1), (v4(1), V2), start=4, refused=4)
    assert nccl_choice(table, (2, 21, 5)) is None
    assert nccl_choice(table, (2, 26, 2)) == 5


def test_the_family_variable_finds_ipv6() -> None:
    table = port((LOCAL, V1), (LOCAL, V2), (GLOBAL6, V1), (GLOBAL6, V2))
    assert nccl_choice(table, (2, 21, 5), family="AF_INET6") == 3
    assert nccl_choice(table, (2, 21, 5), family="AF_INET6", subnet="2001:db9::/32") == 0


def test_addresses_of_gids() -> None:
    assert ipv4_of(v4(10)) == "198.51.100.10"
    assert ipv4_of(LOCAL) is None
    assert in_subnet(v4(10), "198.51.100.0/24")
    assert not in_subnet(v4(10), "2001:db8::/32")
    assert in_subnet(GLOBAL6, "2001:db8::/32")
    assert v1_only(port((LOCAL, V1), (v4(1), V1)))
    assert not v1_only(port((LOCAL, None)))
    assert not v1_only(port())
