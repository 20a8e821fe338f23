"""What is private in a capture, replaced so that every rule still answers the same.

Equal texts stay equal, addresses of one subnet stay in one subnet, a GID that carries an IPv4 address carries its
replacement, link-local stays link-local. IPv4 networks become blocks of the documentation ranges (RFC 5737), so their
prefixes grow longer; IPv6 networks become /64s of 2001:db8::/32 (RFC 3849).
"""

import re

from rig.anonymous_names import platform_names
from rig.captured import Tree
from rig.lean import Callable, Iterable
from rig.root import IPV4_FILE, Collected
from rig.subnet import parse_address
from rig.text import whole

RANGES = (0xC0000200, 0xC6336400, 0xCB007100)  # 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24
OVERFLOW = 0xC6120000  # 198.18.0.0/15, for benchmarks (RFC 2544), when a machine has more networks than those hold
BLOCK_BITS = 4  # a network becomes a /28: 14 hosts, and no machine has more addresses of its own in one network
KEPT_NETWORKS = ((0x7F000000, 8), (0xA9FE0000, 16), (0x00000000, 8))  # loopback, link-local, "this host"
DOCUMENTATION = 0x20010DB8 << 96
LINK_LOCAL = 0xFE80 << 112
MAPPED = 0xFFFF << 32  # ::ffff:a.b.c.d

NCCL_CONF, PLATFORM = "/etc/nccl.conf", "/etc/rdma/network_topology.json"
UUID = re.compile(
    r"(?:(?<=pod)|(?<![0-9A-Fa-f]))[0-9A-Fa-f]{8}(?:[-_][0-9A-Fa-f]{4}){3}[-_][0-9A-Fa-f]{12}(?![0-9A-Fa-f])"
)
LONG_HEX = re.compile(r"(?<![0-9A-Fa-f])[0-9a-f]{32,64}(?![0-9A-Fa-f])")
GID = re.compile(r"(?:[0-9A-Fa-f]{4}:){7}[0-9A-Fa-f]{4}")
GUID = re.compile(r"(?:[0-9A-Fa-f]{4}:){3}[0-9A-Fa-f]{4}")
IPV4 = re.compile(r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?:/[0-9]{1,2})?(?![0-9.])")
MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9A-Fa-f:])")
MAC_NAME = re.compile(r"(?<![A-Za-z0-9])enx[0-9a-f]{12}")
IPV6 = re.compile(r"(?<![0-9A-Za-z:._])[0-9A-Fa-f:]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:/[0-9]{1,3})?(?![0-9A-Za-z:_])")
# Names of people and of their machines in paths: homes, slices and scopes of systemd, Slurm's and LXC's groups.
OWNED = re.compile(r"(/home/|/Users/|/lxc/|lxc\.payload\.|\buser-|\buser@|\buid_|\bmachine-)([^/\s:,;\"'.]+)")
ADDRESS_FILES = (NCCL_CONF, PLATFORM)  # other texts may hold versions like 1.2.3.4
NAMING_FILES = (*ADDRESS_FILES, "/proc/self/cgroup")  # where a short host name, too, can only be the host
HOST_PORT = re.compile(r"^(NCCL_(?:COMM_ID|HOSTID) *= *)([A-Za-z][A-Za-z0-9._-]*)", re.MULTILINE)
IN_QUOTES = re.compile(r'"[^"\\]*"')
NAME_AT_LEAST = 5  # shorter host names (`vm`, `node`) are words that stand elsewhere too


def number4(text: str) -> int:
    """`192.0.2.1` as a number."""
    first, second, third, fourth = map(int, text.split("."))
    return first << 24 | second << 16 | third << 8 | fourth


def text4(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


class Aliases:
    """Replacements given so far; the same thing always gets the same one."""

    def __init__(self, host: str | None = None) -> None:
        self.given: dict[tuple[str, str], str] = {}
        self.counts: dict[str, int] = {}
        self.networks: dict[tuple[int, int], tuple[int, int]] = {}  # (network, length) -> (block, its length)
        self.hosts: dict[int, int] = {}
        self.used: dict[int, int] = {}  # addresses given in a block
        self.next_block = 0
        self.host, _, self.domain = (host or "").partition(".")

    def alias(self, kind: str, text: str, make: Callable[[int], str]) -> str:
        """The replacement of `text`; a new one is made from its number within its kind, from 1."""
        key = (kind, text.lower())
        if key not in self.given:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.given[key] = make(self.counts[kind])
        return self.given[key]

    def node(self, name: str) -> str:
        """A machine's name: this one is node-1, with or without its domain. An address stays an address."""
        if parse_address(name) is not None:
            return self.addresses(name)
        if self.host and name.partition(".")[0].lower() == self.host.lower():
            return "node-1"
        return self.alias("node", name, lambda n: f"node-{n + 1}")

    def owned(self, text: str) -> str:
        """Replace the names of people and of guests in paths."""
        return OWNED.sub(lambda hit: hit[1] + self.alias("owner", hit[2], lambda n: f"owner{n}"), text)

    def addresses(self, text: str) -> str:
        """Replace IPv4 and IPv6 addresses and subnets, in a text that holds no other dotted numbers."""
        return IPV6.sub(lambda hit: self.prefix6(hit[0]), IPV4.sub(lambda hit: _prefix(self)(hit[0]), text))

    def prefix6(self, text: str) -> str:
        """`fd00:1::/64`; a wider subnet becomes a /64, and what is no address stays."""
        told = parse_address(text)
        if told is None or told.version != 6:
            return text
        plain = _groups(self.ipv6(told.value), 8)
        return f"{plain}/{max(told.prefix, 64)}" if "/" in text else plain

    def own_name(self, text: str) -> str:
        """Replace the host's name, however short it is."""
        if not self.host:
            return text
        domain = rf"(?:\.{re.escape(self.domain)})?" if self.domain else ""
        return re.sub(rf"(?<![A-Za-z0-9]){re.escape(self.host)}{domain}(?![A-Za-z0-9])", "node-1", text)

    def words(self, text: str) -> str:
        """Replace UUIDs, long ids, MACs, interfaces named after a MAC, owners, and the host's name, anywhere in a
        text."""
        text = UUID.sub(lambda hit: self.alias("uuid", hit[0], lambda n: f"00000000-0000-4000-8000-{n:012x}"), text)
        text = LONG_HEX.sub(lambda hit: self.long_id(hit[0]), text)
        text = MAC.sub(lambda hit: self.alias("mac", hit[0], lambda n: f"02:00:00:00:{n >> 8:02x}:{n & 255:02x}"), text)
        text = MAC_NAME.sub(lambda hit: self.alias("enx", hit[0], lambda n: f"enx02000000{n:04x}"), text)
        text = self.owned(text)
        return self.own_name(text) if len(self.host) >= NAME_AT_LEAST else text

    def child(self, folder: str, name: str) -> str:
        """A name in a folder, replaced as it is within a path."""
        return self.words(f"{folder}/{name}").rpartition("/")[2]

    def long_id(self, digits: str) -> str:
        """A container's or job's id of 32 to 64 hex digits; all zeros are no id (an IPv6 address in a route table)."""
        return self.alias("id", digits, lambda n: f"{n:0{len(digits)}x}") if digits.strip("0") else digits

    def guid(self, text: str) -> str:
        """`b83f:d203:00aa:1234`; an unset one (all zero) stays."""
        if not text.strip("0:"):
            return text
        return self.alias("guid", text, lambda n: f"0200:00ff:fe00:{n & 0xFFFF:04x}")

    def learn(self, networks: Iterable[tuple[int, int]]) -> None:
        """Give every network (address, prefix length) a block, larger first, so that nested ones stay nested."""
        for address, length in sorted(networks, key=lambda pair: (pair[1], pair[0])):
            network = address >> (32 - length) << (32 - length)
            if (network, length) not in self.networks and not self.kept(address):
                self.networks[network, length] = self.block(network, length)

    def block(self, network: int, length: int) -> tuple[int, int]:
        """A free block: half of that of a network around this one, else the next of the ranges."""
        for (outer, outer_length), (start, bits) in self.networks.items():
            if outer_length < length and network >> (32 - outer_length) == outer >> (32 - outer_length) and bits < 31:
                return start + (1 << (31 - bits)), bits + 1
        index, self.next_block = self.next_block, self.next_block + 1
        per_range = 256 >> BLOCK_BITS
        start = RANGES[index // per_range] if index < 3 * per_range else OVERFLOW + ((index // per_range) << 8)
        return start + (index % per_range << BLOCK_BITS), max(length, 32 - BLOCK_BITS)

    @staticmethod
    def kept(address: int) -> bool:
        """Addresses that mean the same everywhere."""
        return any(address >> (32 - length) == network >> (32 - length) for network, length in KEPT_NETWORKS)

    def ipv4(self, address: int) -> int:
        """The replacement of an address: in the block of the smallest known network around it."""
        if self.kept(address):
            return address
        if address not in self.hosts:
            around = [key for key in self.networks if address >> (32 - key[1]) == key[0] >> (32 - key[1])]
            if not around:
                self.learn([(address, 32)])
                around = [(address, 32)]
            start, bits = self.networks[max(around, key=lambda key: key[1])]
            first = 0 if bits >= 31 else 1
            self.hosts[address] = start + (self.used.get(start, first) & ((1 << (32 - bits)) - 1))
            self.used[start] = self.used.get(start, first) + 1
        return self.hosts[address]

    def prefix4(self, text: str) -> str:
        """`10.1.2.3/16` -> `192.0.2.1/28`."""
        plain, _, bits = text.partition("/")
        address, length = number4(plain), int(bits)
        network = address >> (32 - length) << (32 - length)
        found = self.networks.get((network, length))
        if found is not None and address == network and length < 31:
            return f"{text4(found[0])}/{found[1]}"  # the network itself, as a platform file names it
        return f"{text4(self.ipv4(address))}/{found[1] if found else length}"

    def ipv6(self, address: int) -> int:
        """Mapped IPv4 by its IPv4 part, link-local by its interface id, others into a /64 for each network."""
        if address >> 32 == MAPPED >> 32:
            return MAPPED | self.ipv4(address & 0xFFFFFFFF)
        if address < 2 or address >> 120 == 0xFF:
            return address  # ::, ::1 and multicast
        low = int(self.guid(_groups(address & (1 << 64) - 1, 4)).replace(":", ""), 16)
        if address >> 118 == LINK_LOCAL >> 118:
            return LINK_LOCAL | low
        network = int(self.alias("network", f"{address >> 64:016x}", str))
        return DOCUMENTATION | network << 64 | low


def _groups(number: int, count: int) -> str:
    return ":".join(f"{number >> 16 * at & 0xFFFF:04x}" for at in reversed(range(count)))


def _each_line(text: str, change: Callable[[list[str]], list[str]]) -> str:
    return "".join(" ".join(change(entry.split())) + "\n" for entry in text.splitlines())


def _network(text: str) -> tuple[int, int] | None:
    """(address, prefix length) of `10.1.2.3/16`."""
    plain, slash, bits = text.partition("/")
    bits = bits if slash else "32"
    parts = plain.split(".")
    length = whole(bits, 0, 32)
    if length is None or len(parts) != 4 or not all(whole(part, 0, 255) is not None for part in parts):
        return None
    return number4(plain), length


def _file(aliases: Aliases, path: str, text: str) -> str:
    """One file's text."""
    folder, _, name = path.rpartition("/")
    plain = text.strip()
    if path == IPV4_FILE:
        return _each_line(text, lambda row: [*map(aliases.words, row[:1]), *map(_prefix(aliases), row[1:])])
    if path == "/proc/net/if_inet6":
        return _each_line(text, lambda row: [_hex128(aliases, row[0]), *map(aliases.words, row[1:])] if row else row)
    if path == "/proc/sys/kernel/hostname":
        return "node-1\n"
    if folder.endswith("/gids") and GID.fullmatch(plain):
        return _groups(aliases.ipv6(int(plain.replace(":", ""), 16)), 8) + "\n" if plain.strip("0:") else text
    if name in ("sys_image_guid", "node_guid", "port_guid") and GUID.fullmatch(plain):
        return aliases.guid(plain) + "\n"
    if path == PLATFORM:
        text = platform_names(text, aliases.node, aliases.alias)
    if path == NCCL_CONF:
        text = HOST_PORT.sub(lambda hit: hit[1] + aliases.node(hit[2]), text)
    if path in ADDRESS_FILES:
        text = (
            aliases.addresses(text) if path == NCCL_CONF else IN_QUOTES.sub(lambda hit: aliases.addresses(hit[0]), text)
        )
    if path in NAMING_FILES:
        text = aliases.own_name(text) if path != PLATFORM else text
    if path.endswith("/chassis_asset_tag") and not plain.startswith(("7783-", "OracleCloud", "Amazon")):
        return "tag\n"
    return aliases.words(text)


def _prefix(aliases: Aliases) -> Callable[[str], str]:
    def replace(word: str) -> str:
        if _network(word) is None:
            return "?"
        return aliases.prefix4(word) if "/" in word else text4(aliases.ipv4(number4(word)))

    return replace


def _hex128(aliases: Aliases, digits: str) -> str:
    if len(digits) != 32 or digits.strip("0123456789abcdef"):
        return "?"
    return f"{aliases.ipv6(int(digits, 16)):032x}"


def anonymous(tree: Tree) -> Tree:
    """The tree with everything private replaced, in names of files and targets of links too."""
    host = next((text.strip() for path, text in tree.texts.items() if path == "/proc/sys/kernel/hostname"), None)
    aliases = Aliases(host)
    words = (tree.texts.get(IPV4_FILE) or "").split()
    aliases.learn(found for found in map(_network, words) if found is not None)
    made, change = Tree(), aliases.words
    for path in sorted(tree.texts):
        made.texts[change(path)] = _file(aliases, path, tree.texts[path])
    for folder in sorted(tree.children):
        made.children[change(folder)] = dict.fromkeys(aliases.child(folder, name) for name in tree.children[folder])
    made.links = {change(path): change(target) for path, target in sorted(tree.links.items())}
    made.blobs = {change(path): blob for path, blob in tree.blobs.items()}
    made.refused = {change(path): None for path in tree.refused}
    made.opens = {change(path): answer for path, answer in tree.opens.items()}
    made.spaces = {change(path): answer for path, answer in tree.spaces.items()}
    for argv, answer in sorted(tree.programs.items()):
        made.programs[argv] = Collected(answer.state, change(answer.output))
    return made
