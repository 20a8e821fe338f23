"""RDMA devices: names, ports, GID tables with gaps, refusals and garbage."""

import pytest

from rig.captured import Captured
from rig.detect import rdma
from rig.machine import Hca
from tests.machines.gids import gid4, gid_local, roce
from tests.machines.paper import ZERO, Paper

HOST = "/sys/devices/pci0000:00"


def one(paper: Paper) -> Hca:
    (found,) = rdma.read_hcas(Captured(paper.done()))
    return found


def card(paper: Paper, ids: str = "15b3:1021") -> str:
    return paper.pci(HOST, "0000:00:05.0", code="020000", ids=ids, numa=1)


def test_a_port_of_a_healthy_card() -> None:
    paper = Paper()
    folder = card(paper)
    paper.netdev("ens5", above=folder)
    paper.hca(folder, "mlx5_0", layer="Ethernet", rate=400, guid=7, gids=roce("198.51.100.1", "ens5", 7))
    hca = one(paper)
    assert (hca.name, hca.bus_id, hca.numa, hca.driver, hca.function) == (
        "mlx5_0",
        "0000:00:05.0",
        1,
        "mlx5_core",
        "pf",
    )
    assert (hca.uverbs, hca.opens, hca.sys_image_guid) == ("/dev/infiniband/uverbs0", True, "0200:00ff:fe00:0007")
    (port,) = hca.ports
    assert (port.name, port.state, port.phys_state, port.link_layer) == ("mlx5_0:1", "ACTIVE", "LinkUp", "Ethernet")
    assert (port.rate_gbps, port.rate_text, port.netdevs) == (400.0, "400 Gb/sec (4X NDR)", ("ens5",))
    assert [(gid.index, gid.type, gid.netdev) for gid in port.gids] == [
        (0, "IB/RoCE v1", "ens5"),
        (1, "RoCE v2", "ens5"),
        (2, "IB/RoCE v1", "ens5"),
        (3, "RoCE v2", "ens5"),
    ]
    assert port.gids[3].gid == gid4("198.51.100.1") and port.gids_refused == 0


@pytest.mark.parametrize(
    "name", ["mlx5_bond_0", "ibp24s0", "rocep8s0f1", "rdmap16s27", "bnxt_re0", "irdma1", "qib0", "scif0"]
)
def test_any_name_will_do(name: str) -> None:
    paper = Paper()
    paper.hca(card(paper), name)
    assert one(paper).name == name


def test_devices_stand_in_natural_order() -> None:
    paper = Paper()
    for number in (10, 2, 1):
        paper.hca(paper.pci(HOST, f"0000:00:{number:02x}.0", code="020700", ids="15b3:1021"), f"mlx5_{number}")
    assert [hca.name for hca in rdma.read_hcas(Captured(paper.done()))] == ["mlx5_1", "mlx5_2", "mlx5_10"]


@pytest.mark.parametrize(
    ("opens", "node"), [(True, "/dev/infiniband/uverbs0"), (False, "/dev/infiniband/uverbs0"), (None, None)]
)
def test_presence_is_not_access(opens: bool | None, node: str | None) -> None:
    paper = Paper()
    paper.hca(card(paper), "mlx5_0", opens=opens)
    hca = one(paper)
    assert (hca.opens, hca.uverbs) == (opens, node)


def test_a_device_without_ports_and_without_pci() -> None:
    paper = Paper()
    paper.link("/sys/class/infiniband/scif0", "/sys/devices/virtual/infiniband/scif0")
    paper.tree.folder("/sys/devices/virtual/infiniband/scif0")
    hca = one(paper)
    assert (hca.bus_id, hca.function, hca.ports, hca.opens) == (None, None, (), None)


def test_a_virtual_function_knows_its_physical_one() -> None:
    paper = Paper()
    physical = card(paper)
    virtual = paper.pci(HOST, "0000:00:05.2", code="020000", ids="15b3:101e")
    paper.link(f"{virtual}/physfn", physical)
    paper.hca(virtual, "mlx5_2")
    hca = one(paper)
    assert (hca.function, hca.pf_bus_id) == ("vf", "0000:00:05.0")


def test_a_guest_knows_a_virtual_function_by_its_id() -> None:
    paper = Paper()
    paper.hca(card(paper, "15b3:101e"), "mlx5_0")
    assert (one(paper).function, one(paper).pf_bus_id) == ("vf", None)


def test_entries_of_another_namespace_are_counted_as_refused() -> None:
    paper = Paper()
    gids = (f"0,{gid_local(1)},?,?", f"1,{gid4('198.51.100.9')},?,?", *roce("203.0.113.2", "net1", 2, first=6))
    paper.hca(card(paper), "mlx5_0", layer="Ethernet", gids=gids)
    (port,) = one(paper).ports
    assert [(gid.index, gid.type) for gid in port.gids] == [
        (0, None),
        (1, None),
        (6, "IB/RoCE v1"),
        (7, "RoCE v2"),
        (8, "IB/RoCE v1"),
        (9, "RoCE v2"),
    ]
    assert port.gids_refused == 2 and port.netdevs == ("net1",)


@pytest.mark.parametrize(("index", "seen"), [(63, True), (80, False)])
def test_the_first_64_entries_of_an_ethernet_port_are_always_looked_at(index: int, seen: bool) -> None:
    paper = Paper()
    paper.hca(card(paper), "mlx5_0", layer="Ethernet", gids=(f"{index},{gid4('198.51.100.9')},RoCE v2,net1",))
    assert bool(one(paper).ports[0].gids) is seen


def test_an_entry_at_the_end_moves_the_end() -> None:
    paper = Paper()
    gids = tuple(f"{index},{gid4('198.51.100.9')},RoCE v2,net1" for index in (60, 90, 120, 200))
    paper.hca(card(paper), "mlx5_0", layer="Ethernet", gids=gids)
    assert [gid.index for gid in one(paper).ports[0].gids] == [60, 90, 120]


def test_a_table_that_cannot_be_read_at_all_is_refused() -> None:
    paper = Paper()
    folder = paper.hca(card(paper), "mlx5_0", layer="Ethernet", table=0)
    for index in range(4):
        paper.refuse(f"{folder}/ports/1/gids/{index}")
    (port,) = one(paper).ports
    assert port.gids == () and port.gids_refused == 4


@pytest.mark.parametrize(
    "gid", ["", "fe80::1", ZERO[:-1], ZERO + ":0000", "zz80" + ZERO[4:], "fe80:" * 8, "\0\1", "fe80 0000" + ZERO[9:]]
)
def test_what_is_no_gid_is_none(gid: str) -> None:
    assert rdma.parse_gid(gid) is None


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("4: ACTIVE\n", "ACTIVE"),
        ("1: DOWN", "DOWN"),
        ("2: INIT\n", "INIT"),
        ("5: ACTIVE_DEFER", "ACTIVE_DEFER"),
        ("9: LOVELY", None),
        ("", None),
        (None, None),
        ("\ufffd\ufffd", None),
    ],
)
def test_states(text: str | None, state: str | None) -> None:
    assert rdma.parse_state(text) == state


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)\n", 400.0),
        ("2.5 Gb/sec (1X)", 2.5),
        ("-400 Gb/sec (4X NDR)", None),
        ("999999 Gb/sec", None),
        ("0 Gb/sec", None),
        (". Gb/sec", None),
        ("Unknown", None),
        (None, None),
    ],
)
def test_rates(text: str | None, rate: float | None) -> None:
    assert rdma.parse_rate(text)[1] == rate


def test_an_unset_guid_is_none() -> None:
    assert rdma.parse_guid("0000:0000:0000:0000\n") is None
    assert rdma.parse_guid("b83f:d203:00AA:1234\n") == "b83f:d203:00aa:1234"
    assert rdma.parse_guid("b83fd20300aa1234") is None


def test_two_ports_of_one_function_have_their_own_interfaces() -> None:
    paper = Paper()
    folder = card(paper, "15b3:1007")
    hca = paper.hca(folder, "mlx4_0", layer="Ethernet")
    for name, text in list(paper.tree.texts.items()):
        if name.startswith(f"{hca}/ports/1/"):
            paper.file(name.replace("/ports/1/", "/ports/2/"), text.rstrip("\n"))
    for number, name in enumerate(("eth2", "eth3")):
        paper.netdev(name, above=folder)
        paper.file(f"{folder}/net/{name}/dev_port", str(number))
    assert [(port.number, port.netdevs) for port in one(paper).ports] == [(1, ("eth2",)), (2, ("eth3",))]


@pytest.mark.parametrize("number", ["-1", "0", "99999999999999999999", "one", "\u0661", "1_0"])
def test_absurd_port_numbers_are_left_out(number: str) -> None:
    paper = Paper()
    hca = paper.hca(card(paper), "mlx5_0")
    paper.names(f"{hca}/ports", number)
    assert [port.number for port in one(paper).ports] == [1]
