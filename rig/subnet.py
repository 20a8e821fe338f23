"""Addresses and subnets as numbers, without the `ipaddress` module: importing it costs a third of a bare start."""

from rig.lean import NamedTuple

BITS = {4: 32, 6: 128}


class Address(NamedTuple):
    """`value` is the address as a number; `prefix` the length of its subnet, all bits where none was written."""

    version: int
    value: int
    prefix: int

    @property
    def is_host(self) -> bool:
        """Whether the subnet holds this address alone."""
        return self.prefix == BITS[self.version]

    @property
    def network(self) -> int:
        shift = BITS[self.version] - self.prefix
        return self.value >> shift << shift

    def holds(self, other: "Address") -> bool:
        """Whether `other` lies in the subnet of this one."""
        shift = BITS[self.version] - self.prefix
        return self.version == other.version and self.value >> shift == other.value >> shift


def parse_address(text: str) -> Address | None:
    """`192.0.2.1`, `192.0.2.1/24`, `2001:db8::1/64`; a scope (`fe80::1%eth0`) is dropped. None where it is none."""
    import _socket  # inet_pton is the C library's; the module `socket` would cost milliseconds

    bare, slash, length = text.partition("/")
    bare = bare.partition("%")[0] if ":" in bare else bare
    version, family = (6, _socket.AF_INET6) if ":" in bare else (4, _socket.AF_INET)
    try:
        value = int.from_bytes(_socket.inet_pton(family, bare), "big")
    except (OSError, ValueError):
        return None
    if not slash:
        return Address(version, value, BITS[version])
    if not (length.isascii() and length.isdecimal()) or int(length) > BITS[version]:
        return None
    return Address(version, value, int(length))


def is_link_local(address: str) -> bool:
    """fe80::/10 and 169.254/16, with or without a prefix length."""
    head = address.partition(":")[0].lower()
    return address.startswith("169.254.") or (len(head) == 4 and head[:3] in ("fe8", "fe9", "fea", "feb"))
