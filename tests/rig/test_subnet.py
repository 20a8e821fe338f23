"""Addresses and subnets are read as the standard library reads them."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.judge.network import here_only
from rig.plan.socket import local_only
from rig.subnet import Address, is_link_local, parse_address

ANY = st.ip_addresses()


@given(ANY, st.integers(0, 128))
def test_an_interface_is_read_as_the_standard_library_reads_it(address: ipaddress.IPv4Address, length: int) -> None:
    text = f"{address}/{min(length, address.max_prefixlen)}"
    told, wanted = parse_address(text), ipaddress.ip_interface(text)
    assert told is not None
    assert (told.version, told.value, told.prefix) == (wanted.version, int(wanted), wanted.network.prefixlen)
    assert told.network == int(wanted.network.network_address)
    assert told.is_host == (wanted.network.prefixlen == wanted.max_prefixlen)


@given(ANY, ANY, st.integers(0, 128))
def test_a_subnet_holds_what_the_standard_library_says(
    one: ipaddress.IPv4Address, other: ipaddress.IPv4Address, length: int
) -> None:
    network = ipaddress.ip_network(f"{one}/{min(length, one.max_prefixlen)}", strict=False)
    subnet, address = parse_address(f"{one}/{network.prefixlen}"), parse_address(str(other))
    assert subnet is not None and address is not None
    assert subnet.holds(address) == (other in network)


@given(st.text(max_size=20))
def test_any_text_is_an_address_or_none(text: str) -> None:
    told = parse_address(text)
    if told is not None and "%" not in text:
        assert told.value == int(ipaddress.ip_interface(text))


@pytest.mark.parametrize(
    "text", ["", "/", "1.2.3", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/-1", "::1/129", "1.2.3.4/²", "01.2.3.4", "a\0b"]
)
def test_what_is_no_address(text: str) -> None:
    assert parse_address(text) is None


def test_a_scope_is_dropped() -> None:
    assert parse_address("fe80::1%eth0") == Address(6, 0xFE80 << 112 | 1, 128)
    assert parse_address("fe80::1%eth0/64") == Address(6, 0xFE80 << 112 | 1, 64)


@pytest.mark.parametrize("address", ["fe80::1", "FE80::1/64", "fe81::2", "febf:1::", "169.254.0.7/16", "fe80:0000::"])
def test_what_only_a_neighbour_can_reach(address: str) -> None:
    assert is_link_local(address) and local_only(address) and here_only(address)


@pytest.mark.parametrize("address", ["fec0::1", "fe8::1", "2001:db8::1", "fd00::1", "192.0.2.1", "16.9.254.1", ""])
def test_what_others_can_reach_too(address: str) -> None:
    assert not is_link_local(address) and not local_only(address) and not here_only(address)
