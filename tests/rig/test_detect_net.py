"""Interfaces, addresses and default routes from kernel texts and from rtnetlink's bytes."""

import sys

import pytest

from rig import netlink
from rig.captured import Captured
from rig.detect import net
from rig.machine import NetDev
from tests.machines.paper import Paper

HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


def look(paper: Paper) -> dict[str, NetDev]:
    return {netdev.name: netdev for netdev in net.read_netdevs(Captured(paper.done()))}


def test_interfaces_stand_in_kernel_order() -> None:
    paper = Paper()
    paper.loopback()
    paper.netdev("zeta")
    paper.netdev("alpha")
    assert list(look(paper)) == ["lo", "zeta", "alpha"]


def test_kinds() -> None:
    paper = Paper()
    card = paper.pci("/sys/devices/pci0000:00", "0000:00:03.0", code="020000", ids="15b3:101d")
    paper.loopback()
    paper.netdev("eth0", above=card)
    paper.netdev("eth1", above=f"{card}/virtio0")
    paper.netdev("bond0", devtype="bond")
    paper.netdev("eth0.10", devtype="vlan", lower=2)
    paper.netdev("docker0", devtype="bridge")
    paper.netdev("veth1", lower=40)
    paper.netdev("ib0", above=card, arp=32)
    paper.netdev("tun0", arp=65534)
    paper.netdev("gre0", arp=778)
    paper.netdev("net1", devtype="macvlan", lower=9)
    paper.netdev("dummy0")
    kinds = {name: netdev.kind for name, netdev in look(paper).items()}
    assert kinds == {
        "lo": "loopback",
        "eth0": "physical",
        "eth1": "physical",
        "bond0": "bond",
        "eth0.10": "vlan",
        "docker0": "bridge",
        "veth1": "veth",
        "ib0": "ipoib",
        "tun0": "tunnel",
        "gre0": "tunnel",
        "net1": "virtual",
        "dummy0": "virtual",
    }
    assert {name: netdev.bus_id for name, netdev in look(paper).items() if netdev.bus_id} == dict.fromkeys(
        ("eth0", "eth1", "ib0"), "0000:00:03.0"
    )


def test_a_member_names_its_bond_and_the_bonding_drivers_file_is_no_interface() -> None:
    paper = Paper()
    paper.netdev("bond0", devtype="bond")
    paper.netdev("eth0", master="bond0")
    paper.file("/sys/class/net/bonding_masters", "bond0")
    found = look(paper)
    assert list(found) == ["bond0", "eth0"] and found["eth0"].master == "bond0"


def test_addresses_and_the_route_of_lowest_metric() -> None:
    paper = Paper()
    paper.netdev("eth0", ipv4="192.0.2.1/24", ipv6="fe800000000000000200000000000001")
    paper.netdev("eth1", ipv4="198.51.100.1/31")
    paper.routes += ["eth0\t00000000\t010200C0\t0003\t0\t0\t200\t00000000\t0\t0\t0"]
    paper.routes += ["eth1\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0"]
    found = look(paper)
    assert (found["eth0"].ipv4, found["eth0"].ipv6) == (("192.0.2.1/24",), ("fe80::200:0:0:1/64",))
    assert (found["eth0"].default_route, found["eth1"].default_route) == (False, True)


def test_without_ipv4_routes_the_ipv6_default_counts() -> None:
    paper = Paper()
    paper.netdev("eth0", ipv6="20010db8000000000000000000000001")
    zeros = "0" * 32
    paper.file(
        "/proc/net/ipv6_route",
        f"{zeros} 00 {zeros} 00 fe80{'0' * 27}1 00000400 00000001 00000000 00000003     eth0",
        f"{zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo",
    )
    assert look(paper)["eth0"].default_route is True


@pytest.mark.parametrize("speed", ["-1", "4294967295", "0", "\0", "fast", "1_000"])
def test_absurd_speeds_are_unknown(speed: str) -> None:
    paper = Paper()
    paper.netdev("eth0")
    paper.file("/sys/devices/virtual/net/eth0/speed", speed)
    assert look(paper)["eth0"].speed_mbps is None


@pytest.mark.parametrize(
    ("state", "flags", "carrier", "up"),
    [
        ("up", None, None, True),
        ("down", None, None, False),
        ("lowerlayerdown", None, None, False),
        ("unknown", "0x9", "1", True),
        ("unknown", "0x1003", None, True),
        ("unknown", "0x1003", "0", False),
        ("unknown", "0x1002", None, False),
        (None, None, None, None),
        ("\ufffd", "garbage", None, None),
    ],
)
def test_up(state: str | None, flags: str | None, carrier: str | None, up: bool | None) -> None:
    assert net.is_up(state, flags, carrier) is up


@pytest.mark.parametrize(
    "row",
    ["eth0\t00000000\t0\t0001", "eth0 00000000 0 0202 0 0 0 00000000", "eth0 00000000 0 zz 0 0 0 00000000", "\0", ""],
)
def test_a_row_that_is_no_usable_default_route_is_left_out(row: str) -> None:
    assert net.parse_routes(HEADER + row + "\n") == ()


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ("0" * 31 + "1", "::1"),
        ("0" * 32, "::"),
        ("20010db8000000010000000000000001", "2001:db8:0:1::1"),
        ("20010db8000000000001000000000001", "2001:db8::1:0:0:1"),
        ("00010002000300040005000600070008", "1:2:3:4:5:6:7:8"),
        ("00010000000300040005000600070008", "1:0:3:4:5:6:7:8"),
    ],
)
def test_ipv6_is_written_short(digits: str, text: str) -> None:
    assert net.short_ipv6(digits) == text


@pytest.mark.parametrize(
    "text", ["eth0 1.2.3/24", "eth0 1.2.3.4", "eth0 1.2.3.256/24", "eth0 1.2.3.4/33", "eth0", "a b c"]
)
def test_what_is_no_address_is_left_out(text: str) -> None:
    assert net.parse_ipv4(text) == {}


def attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return size.to_bytes(2, sys.byteorder) + kind.to_bytes(2, sys.byteorder) + value + bytes(-size % 4)


def message(kind: int, body: bytes) -> bytes:
    size = 16 + len(body)
    return size.to_bytes(4, sys.byteorder) + kind.to_bytes(2, sys.byteorder) + bytes(10) + body + bytes(-size % 4)


def address(label: bytes, *parts: bytes, family: int = 2) -> bytes:
    return message(
        20, bytes([family, 24, 0, 0]) + (2).to_bytes(4, sys.byteorder) + b"".join((*parts, attribute(3, label)))
    )


def test_an_address_dump_is_read_in_order() -> None:
    data = address(b"lo\0", attribute(1, bytes([127, 0, 0, 1])))
    data += address(b"eth0:1\0", attribute(1, bytes([192, 0, 2, 9])), attribute(2, bytes([192, 0, 2, 1])))
    data += address(b"eth0\0", attribute(1, bytes(16)), family=10)
    assert netlink.parse_addresses(data) == ([("lo", "127.0.0.1/24"), ("eth0", "192.0.2.1/24")], False)
    assert netlink.parse_addresses(data + message(3, bytes(4)))[1] is True


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 16, b"\xff" * 64, message(20, b"\x02"), message(20, b"\x02" * 8 + b"\x03\0\1\0")]
)
def test_broken_dumps_say_nothing(data: bytes) -> None:
    assert netlink.parse_addresses(data)[0] == []


class Line:
    """A netlink socket with its answers; an exception among them is raised."""

    def __init__(self, *answers: bytes | OSError) -> None:
        self.answers = list(answers)
        self.sent = b""
        self.closed = False

    def settimeout(self, seconds: float) -> None:
        assert seconds < 1

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def recv(self, size: int) -> bytes:
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


def test_the_kernel_is_asked_once_and_answers_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    eth0 = address(b"eth0\0", attribute(2, bytes([192, 0, 2, 1])))
    line = Line(address(b"lo\0", attribute(2, bytes([127, 0, 0, 1]))), eth0 + message(3, bytes(4)))
    monkeypatch.setattr("_socket.socket", lambda *kind: line)
    assert netlink.ipv4_addresses() == "lo 127.0.0.1/24\neth0 192.0.2.1/24\n"
    assert len(line.sent) == 24 and line.closed


def test_a_kernel_that_does_not_answer_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(TimeoutError())
    monkeypatch.setattr("_socket.socket", lambda *kind: line)
    assert netlink.ipv4_addresses() is None and line.closed

    def refuse(*kind: int) -> Line:
        raise PermissionError

    monkeypatch.setattr("_socket.socket", refuse)
    assert netlink.ipv4_addresses() is None
