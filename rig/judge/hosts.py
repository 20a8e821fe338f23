"""A hostfile, line by line: what DeepSpeed refuses, and what it accepts and then fails on."""

from rig.judge.ruling import Judgement, Ruling, judgement
from rig.judge.site import Site, site_of
from rig.lean import Any, Mapping, NamedTuple
from rig.nodelist import NodeListError, expand, number, why_unsafe
from rig.plan.hostfile import read_hostfile

SLOTS_LIMIT = 64  # GPUs in a node; `host:22` and `host:2222` are ports
LOCAL = ("localhost", "127.0.0.1", "::1")
EQUAL_SLOTS = ("mpich", "impi")  # launchers that refuse uneven hosts


class Host(NamedTuple):
    """A host of the repaired file. `address` and `port` are set where ssh needs an entry for it."""

    name: str
    slots: int
    line: int
    address: str | None = None
    port: int | None = None


def judge_text(text: str, world: Mapping[str, Any], name: str) -> Judgement:
    """See rig.judge.judge_hostfile. Every repaired line is written as `host slots=N`."""
    site = site_of(world)
    rulings: list[Ruling] = []
    if text.startswith("\ufeff"):
        text = text.lstrip("\ufeff")
        what = "a byte order mark stands before the first host and becomes part of its name"
        rulings.append(Ruling("fix", "hostfile-bom", what, "1", "Save the file without a byte order mark"))
    hosts = _hosts(text, site, rulings)
    rulings += _whole(hosts, site, world) if not _refused(rulings) else []
    repaired = any(ruling.verdict == "fix" for ruling in rulings)
    output = "".join(f"{host.name} slots={host.slots}\n" for host in hosts) if repaired else text
    entries = tuple(
        {"Host": host.name, "HostName": host.address, **({"Port": host.port} if host.port else {})}
        for host in hosts
        if host.address
    )
    return judgement(rulings, output, subject=name)._replace(ssh_config=entries)


def _refused(rulings: list[Ruling]) -> bool:
    return any(ruling.verdict == "reject" for ruling in rulings)


def _hosts(text: str, site: Site, rulings: list[Ruling]) -> list[Host]:
    told = read_hostfile(text)
    lines = sorted([(entry.line, entry.host, entry.slots, entry.rest) for entry in told.entries])
    for entry in told.entries:
        if entry.rest[:1].strip() and entry.rest[0] != "#":
            message = f"'{entry.rest.split()[0][:20]}' sticks to the slots of {entry.host}: {entry.slots} is read"
            rulings.append(Ruling("fix", "hostfile-slots", message, str(entry.line), "Write host slots=N"))
    for bad in told.bad:
        found = _guess(bad.text, site)
        if found is None:
            message = f"'{bad.text[:60]}' is not of the form 'host slots=N'"
            rulings.append(Ruling("reject", "hostfile-slots", message, str(bad.line), "Write host slots=N"))
        else:
            host, slots = found
            message = f"'{bad.text[:60]}' is refused by DeepSpeed: '{host} slots={slots}'"
            rulings.append(Ruling("fix", "hostfile-slots", message, str(bad.line), "Write host slots=N"))
            lines.append((bad.line, host, slots, ""))
    hosts: list[Host] = []
    for line, host, slots, _ in sorted(lines):
        hosts += _expanded(line, host, slots, len(hosts), rulings)
    if not hosts and not _refused(rulings):
        rulings.append(Ruling("reject", "hostfile-slots", "the hostfile names no host", "", "Write host slots=N"))
    return hosts


def _guess(line: str, site: Site) -> tuple[str, int] | None:
    """What a line in another dialect means: host:8, host slots = 8, host Slots=8, host max_slots=8 slots=8, host."""
    words = line.split("#", 1)[0].replace("=", " = ").split()
    if not words:
        return None
    host, rest = words[0], [word.lower() for word in words[1:]]
    for at, word in enumerate(rest):
        if word == "slots":
            slots = number(rest[at + 2]) if rest[at + 1 : at + 2] == ["="] and at + 2 < len(rest) else None
            return (host, slots) if slots is not None else None
    name, colon, suffix = host.rpartition(":")
    if not rest and colon and name.count(":") == 0 and (count := number(suffix)) is not None and count <= SLOTS_LIMIT:
        return name, count
    if rest and (len(rest) > 1 or number(rest[0]) is None):
        return None
    return host, number(rest[0]) or 0 if rest else site.gpus_per_node


def _expanded(line: int, host: str, slots: int, place: int, rulings: list[Ruling]) -> list[Host]:
    """One entry as hosts: bracket expressions and commas spread out, a port moved to an ssh alias."""
    at = str(line)
    if slots == 0:
        message = f"{host} has slots=0: no rank runs there, and MASTER_ADDR may name it"
        rulings.append(Ruling("reject", "hostfile-slots", message, at, "Remove the line, or give it slots"))
        return []
    if ("[" in host and not host.startswith("[")) or "," in host:
        return _ranged(line, host, slots, place, rulings)
    address, port = _port(host)
    if address is not None:
        alias = f"dsnode-{place}"
        message = f"{host}: pdsh reads the part before ':' as a module; '{alias}' with an entry in ssh_config"
        rulings.append(Ruling("fix", "hostfile-port", message, at, "Give the port in ssh_config"))
        return [Host(alias, slots, line, address, port)]
    why = why_unsafe(host)
    if why:
        message = f"host name '{host[:60]}' {why}"
        rulings.append(Ruling("reject", "hostfile-name", message, at, "Correct the name"))
        return []
    return [Host(host, slots, line)]


def _ranged(line: int, host: str, slots: int, place: int, rulings: list[Ruling]) -> list[Host]:
    try:
        names = expand(host)
    except NodeListError as error:
        message = f"{host[:60]}: {error}"
        rulings.append(Ruling("reject", "hostfile-range", message, str(line), "Write one host a line"))
        return []
    unsafe = next((f"'{name[:60]}' {why}" for name in names if (why := why_unsafe(name))), "")
    if unsafe or not names:
        message = f"{host[:60]}: {unsafe or 'names no host'}"
        rulings.append(Ruling("reject", "hostfile-range", message, str(line), "Write one host a line"))
        return []
    message = f"{host[:60]} is one name to DeepSpeed and several to pdsh: written as {len(names)} hosts"
    rulings.append(Ruling("fix", "hostfile-range", message, str(line), "Write one host a line"))
    hosts: list[Host] = []
    for name in names:
        hosts += _expanded(line, name, slots, place + len(hosts), rulings)
    return hosts


def _port(host: str) -> tuple[str | None, int | None]:
    """Address and port of `host:port` or `[address]:port`; an IPv6 address alone needs an alias too."""
    if host.startswith("["):
        address, _, rest = host[1:].partition("]")
        return (address, number(rest.lstrip(":"))) if address else (None, None)
    if host.count(":") == 1:
        address, _, port = host.partition(":")
        return (address, number(port)) if address and number(port) else (None, None)
    return (host, None) if host.count(":") > 1 else (None, None)


def _whole(hosts: list[Host], site: Site, world: Mapping[str, Any]) -> list[Ruling]:
    """What only the whole list shows."""
    return [
        *_twice(hosts),
        *_missing(hosts, site, world),
        *_too_many_slots(hosts, site, world),
        *_elsewhere(hosts, site),
        *_uneven(hosts, site),
    ]


def _twice(hosts: list[Host]) -> list[Ruling]:
    total: dict[str, int] = {}
    for host in hosts:
        total[host.name] = total.get(host.name, 0) + host.slots
    seen: set[str] = set()
    found: dict[str, Ruling] = {}
    for host in hosts:
        if host.name in seen:
            message = f"{host.name} listed twice; merge to slots={total[host.name]}?"
            found[host.name] = Ruling("reject", "hostfile-duplicate", message, str(host.line), "Keep one line a host")
        seen.add(host.name)
    return list(found.values())


def _missing(hosts: list[Host], site: Site, world: Mapping[str, Any]) -> list[Ruling]:
    names = {host.name for host in hosts}
    if "nodes" not in world or len(names) >= site.nodes:
        return []
    message = (
        f"{site.nodes} nodes were asked for, the hostfile has {len(names)}: DeepSpeed would use those and say nothing"
    )
    return [
        Ruling("reject", "nodes-missing", message, "", f"Add {site.nodes - len(names)} hosts, or ask for fewer nodes")
    ]


def _too_many_slots(hosts: list[Host], site: Site, world: Mapping[str, Any]) -> list[Ruling]:
    if "gpus_per_node" not in world or world.get("others_may_differ") is True:
        return []
    return [
        Ruling(
            "reject",
            "hostfile-slots",
            f"{host.name} slots={host.slots}, but a node has {site.gpus_per_node} GPUs",
            str(host.line),
            f"Write slots={site.gpus_per_node}",
        )
        for host in hosts
        if host.slots > site.gpus_per_node
    ][:5]


def _elsewhere(hosts: list[Host], site: Site) -> list[Ruling]:
    """One host is a local launch to DeepSpeed, whatever its name."""
    if len(hosts) != 1 or site.local_host is None:
        return []
    name, mine = hosts[0].address or hosts[0].name, (site.local_host, *site.local_names)
    if name in LOCAL or any(name == own or name.split(".")[0] == own.split(".")[0] for own in mine):
        return []
    message = f"only host {name} is not this machine ({site.local_host}): add --force_multi or run there"
    return [Ruling("reject", "hostfile-not-local", message, str(hosts[0].line), "Add --force_multi, or run it there")]


def _uneven(hosts: list[Host], site: Site) -> list[Ruling]:
    """LOCAL_RANK is RANK modulo the host's slots: rotated where the ranks before are no multiple of them."""
    if len({host.slots for host in hosts}) < 2:
        return []
    told, first = [], 0
    for host in hosts:
        if first % host.slots:
            ranks = ",".join(str((first + place) % host.slots) for place in range(host.slots))
            told.append(f"ranks on {host.name} get LOCAL_RANK {ranks}")
        first += host.slots
    refuses = site.launcher in EQUAL_SLOTS
    message = "; ".join(told[:3]) or "hosts have different numbers of slots"
    end = f": {site.launcher} wants equal slots" if refuses else ", shares of the network differ"
    return [Ruling("reject" if refuses else "warn", "hostfile-uneven", message + end, "", "Give all hosts equal slots")]
