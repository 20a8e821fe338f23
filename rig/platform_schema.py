"""JSON text -> Platform, with every problem named by its key. By hand: the boot path has no schema library.

docs/network_topology.schema.json says the same for editors and other programs; a test holds the two together.
"""

from rig.lean import Any, Callable, NamedTuple
from rig.nodelist import SAFE
from rig.platform import (
    SCHEMA_VERSION,
    Fabric,
    Platform,
    PlatformGpu,
    PlatformNic,
    PlatformNode,
    Problem,
    Rail,
)
from rig.text import is_bus_id

TEXT_LONGEST = 256
LIST_LONGEST = 4096
NODES_LONGEST = 65536
ROLES = ("compute", "storage", "frontend", "management")
LINK_LAYERS = ("infiniband", "ethernet", "efa")
FABRICS = ("infiniband", "rocev2", "efa", "tcp")
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

# What a provider may set for all its customers. Node-local values (NCCL_IB_HCA, NCCL_IB_GID_INDEX, NCCL_SOCKET_IFNAME) have
# keys of their own; anything that loads code or writes files is out.
ENV_ALLOWED = frozenset(
    """FI_EFA_FORK_SAFE FI_EFA_USE_DEVICE_RDMA FI_EFA_USE_HUGE_PAGE FI_PROVIDER NCCL_ALGO NCCL_BUFFSIZE
    NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_CUMEM_ENABLE NCCL_DMABUF_ENABLE NCCL_GDRCOPY_ENABLE NCCL_GDR_FLUSH_DISABLE
    NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_AR_THRESHOLD NCCL_IB_DISABLE NCCL_IB_ECE_ENABLE
    NCCL_IB_FIFO_TC NCCL_IB_MERGE_NICS NCCL_IB_MERGE_VFS NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_PKEY
    NCCL_IB_QPS_PER_CONNECTION NCCL_IB_RETRY_CNT NCCL_IB_ROCE_VERSION_NUM NCCL_IB_SL NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_TC
    NCCL_IB_TIMEOUT NCCL_IGNORE_CPU_AFFINITY NCCL_LOCAL_REGISTER NCCL_MAX_CTAS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS
    NCCL_MIN_NCHANNELS NCCL_MNNVL NCCL_MNNVL_ENABLE NCCL_NCHANNELS_PER_NET_PEER NCCL_NET NCCL_NET_GDR_C2C
    NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_NET_MERGE_LEVEL NCCL_NSOCKS_PERTHREAD NCCL_NVLS_ENABLE NCCL_P2P_DISABLE
    NCCL_P2P_LEVEL NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE NCCL_P2P_PXN_LEVEL NCCL_PROTO
    NCCL_PXN_DISABLE NCCL_SHM_DISABLE NCCL_SOCKET_FAMILY NCCL_SOCKET_NTHREADS""".split()
)

Check = Callable[[Any], "str | None"]  # what is wrong with a value; None: nothing


class Key(NamedTuple):
    """One key of an object: how its value is checked, and where it goes."""

    check: Check
    required: bool = False


def text_up_to(longest: int, letters: frozenset[str] | None = None) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return "must be text"
        if not value or len(value) > longest:
            return f"must have 1 to {longest} characters"
        if not value.isascii() or not value.isprintable():
            return "must be printable ASCII"
        if letters is not None and not set(value) <= letters:
            return "may hold letters, digits and . _ - only"
        return None

    return check


def one_of(words: tuple[str, ...]) -> Check:
    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in words else f"must be one of {', '.join(words)}"

    return check


def integer(low: int, high: int) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            return f"must be a whole number from {low} to {high}"
        return None

    return check


def number(low: float, high: float) -> Check:
    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            return f"must be a number from {low:g} to {high:g}"
        return None

    return check


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def bus(value: Any) -> str | None:
    good = isinstance(value, str) and is_bus_id(value)
    return None if good else "must be a bus id like 0000:1a:00.0, in lower case"


def cidr(value: Any) -> str | None:
    """A subnet. Written out, so that NCCL_IB_ADDR_RANGE can carry it."""
    from ipaddress import ip_network

    if not isinstance(value, str) or "/" not in value or len(value) > 64:
        return "must be a subnet like 198.51.100.0/24"
    try:
        ip_network(value)
    except ValueError:
        return "must be a subnet like 198.51.100.0/24, with the host bits zero"
    return None


def absolute(value: Any) -> str | None:
    wrong = text_up_to(TEXT_LONGEST)(value)
    if wrong is not None:
        return wrong
    plain = value.startswith("/") and ".." not in value.split("/")
    return None if plain else "must be an absolute path without .."


def hexadecimal(value: Any) -> str | None:
    digits = value[2:] if isinstance(value, str) and value.startswith("0x") else ""
    good = 0 < len(digits) <= 4 and not digits.strip("0123456789abcdefABCDEF")
    return None if good else "must be a partition key like 0x8001"


def list_of(check: Check, most: int = LIST_LONGEST) -> Check:
    def all_of(value: Any) -> str | None:
        if not isinstance(value, list) or len(value) > most:
            return f"must be a list of at most {most}"
        return next((f"[{at}] {wrong}" for at, one in enumerate(value) if (wrong := check(one)) is not None), None)

    return all_of


any_text = text_up_to(TEXT_LONGEST)
GPU = {
    "bus_id": Key(bus, True),
    "index": Key(integer(0, 255)),
    "numa": Key(integer(0, 1023)),
    "nvlink_domain": Key(any_text),
}
NIC = {
    "name": Key(text_up_to(63, NAME)),
    "bus_id": Key(bus),
    "port": Key(integer(1, 255)),
    "role": Key(one_of(ROLES)),
    "rail": Key(integer(0, 1023)),
    "link_layer": Key(one_of(LINK_LAYERS)),
    "speed_gbps": Key(number(0, 100000)),
    "netdev": Key(text_up_to(15, NAME)),
    "subnet": Key(cidr),
    "gpu_affinity": Key(list_of(bus, 256)),
}
RAIL = {"id": Key(integer(0, 1023), True), "isolated": Key(boolean), "leaf": Key(any_text)}
FABRIC = {
    "type": Key(one_of(FABRICS)),
    "switch_path": Key(list_of(any_text, 16)),
    "accelerator_domain": Key(any_text),
    "oversubscription": Key(number(0, 1000)),
    "latency_us": Key(number(0, 1e9)),
    "traffic_class": Key(integer(0, 255)),
    "service_level": Key(integer(0, 15)),
    "mtu": Key(integer(256, 65536)),
    "pkey": Key(hexadecimal),
}
PLATFORM = {
    "provider": Key(any_text),
    "instance_type": Key(any_text),
    "generated_at": Key(any_text),
    "generator": Key(any_text),
}
NODE = {"hostname_match": Key(any_text), "machine_id": Key(any_text), "rack": Key(any_text)}
CLUSTER_NODE = {
    "name": Key(text_up_to(253, SAFE), True),
    "slots": Key(integer(1, 1024)),
    "rack": Key(any_text),
}
TOP = ("schema_version", "platform", "node", "gpus", "nics", "rails", "fabric", "nccl", "cluster")


def parse_platform(text: str) -> tuple[Platform | None, tuple[Problem, ...]]:
    """The platform, and every problem. None where a problem is fatal. Never raises."""
    import json

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        value = json.loads(text, parse_constant=refuse, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else f"is no valid JSON: {error}"
        return None, (Problem("", reason[:200], "Repair the file; rig platform example prints a valid one"),)
    if not isinstance(value, dict):
        return None, (Problem("", "must be an object", "rig platform example prints a valid file"),)
    version = value.get("schema_version")
    if isinstance(version, bool) or version != SCHEMA_VERSION or not isinstance(version, int):
        text = f"must be {SCHEMA_VERSION}"
        return None, (Problem("schema_version", text, f'Write "schema_version": {SCHEMA_VERSION}'),)
    return _Reader().platform(value)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} stands twice in one object")
    return made


class _Reader:
    """Walks the value and collects problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def wrong(self, key: str, text: str, fix: str = "Correct the value; docs/platform-file.md lists the keys") -> None:
        self.problems.append(Problem(key, text, fix))

    def platform(self, value: dict[str, Any]) -> tuple[Platform | None, tuple[Problem, ...]]:
        self.unknown("", value, TOP)
        about = self.object("platform", value.get("platform", {}), PLATFORM)
        node = self.object("node", value.get("node", {}), NODE)
        gpus = tuple(PlatformGpu(**one) for one in self.objects("gpus", value, GPU))
        nics = tuple(_nic(one) for one in self.objects("nics", value, NIC))
        rails = tuple(Rail(**one) for one in self.objects("rails", value, RAIL))
        fabric = self.object("fabric", value.get("fabric", {}), FABRIC)
        fabric["switch_path"] = tuple(fabric.get("switch_path", ()))
        fabric["latency_us"] = fabric.get("latency_us") or None  # 0 means that nobody measured it
        files, env = self.nccl(value.get("nccl", {}))
        nodes = self.cluster(value.get("cluster", {}))
        self.doubles(gpus, nics, rails, nodes)
        if any(one.fatal for one in self.problems):
            return None, tuple(self.problems)
        made = Platform(
            **about, **node, **files, gpus=gpus, nics=nics, rails=rails, fabric=Fabric(**fabric), env=env, nodes=nodes
        )
        return made, tuple(self.problems)

    def unknown(self, path: str, value: dict[str, Any], known: Any) -> None:
        for name in value:
            if name not in known and not name.startswith("$"):
                from difflib import get_close_matches

                near = get_close_matches(name[:64], list(known), 1)
                fix = f"Did you mean {near[0]}?" if near else "Leave it out"
                self.problems.append(
                    Problem(f"{path}{name[:64]}", "is not a known key, and is not looked at", fix, False)
                )

    def object(self, path: str, value: Any, keys: dict[str, Key]) -> dict[str, Any]:
        """The good values of an object; problems are noted. null counts as absent."""
        if not isinstance(value, dict):
            self.wrong(path, "must be an object")
            return {}
        self.unknown(f"{path}.", value, keys)
        found = {}
        for name, key in keys.items():
            given = value.get(name)
            if given is None:
                if key.required:
                    self.wrong(f"{path}.{name}", "is required", f"Add {name}")
                continue
            wrong = key.check(given)
            if wrong is not None:
                self.wrong(f"{path}.{name}", wrong)
            else:
                found[name] = given
        return found

    def objects(
        self, name: str, value: dict[str, Any], keys: dict[str, Key], most: int = LIST_LONGEST
    ) -> list[dict[str, Any]]:
        """A list of objects; those with a problem are left out (the file is then ignored anyway)."""
        path, given = name.rpartition(".")[2], value.get(name.rpartition(".")[2], [])
        if not isinstance(given, list) or len(given) > most:
            self.wrong(name, f"must be a list of at most {most}")
            return []
        required = [path for path, key in keys.items() if key.required]
        made = [self.object(f"{name}[{at}]", one, keys) for at, one in enumerate(given)]
        if name == "nics":
            for at, one in enumerate(made):
                if not one.get("name") and not one.get("bus_id"):
                    self.wrong(f"nics[{at}]", "needs name or bus_id", "Add one of them")
        return [one for one in made if all(path in one for path in required)]

    def nccl(self, value: Any) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
        keys = {"topo_file": Key(absolute), "graph_file": Key(absolute), "env": Key(lambda given: None)}
        found = self.object("nccl", value, keys)
        env, good = found.pop("env", {}), []
        if not isinstance(env, dict):
            self.wrong("nccl.env", "must be an object of names and texts")
            return found, ()
        for name, given in env.items():
            if name not in ENV_ALLOWED:
                text = "may not be set here, and is not looked at"
                fix = "Node-local values have keys of their own (nics[]); others belong to the user"
                self.problems.append(Problem(f"nccl.env.{name[:64]}", text, fix, False))
            elif (wrong := text_up_to(TEXT_LONGEST)(given)) is not None:
                self.wrong(f"nccl.env.{name}", wrong)
            else:
                good.append((name, given))
        return found, tuple(good)

    def cluster(self, value: Any) -> tuple[PlatformNode, ...]:
        if not isinstance(value, dict):
            self.wrong("cluster", "must be an object")
            return ()
        self.unknown("cluster.", value, ("nodes",))
        return tuple(PlatformNode(**one) for one in self.objects("cluster.nodes", value, CLUSTER_NODE, NODES_LONGEST))

    def doubles(
        self,
        gpus: tuple[PlatformGpu, ...],
        nics: tuple[PlatformNic, ...],
        rails: tuple[Rail, ...],
        nodes: tuple[PlatformNode, ...],
    ) -> None:
        """Keys that must be unique."""
        ports = [(one.bus_id, one.port) for one in nics if one.bus_id]
        for where, what, keys in (
            ("gpus", "bus_id", [one.bus_id for one in gpus]),
            ("nics", "bus_id", ports),
            ("nics", "name", [(one.name, one.port) for one in nics if one.name]),
            ("rails", "id", [one.id for one in rails]),
            ("cluster.nodes", "name", [one.name for one in nodes]),
        ):
            seen: set[Any] = set()
            for key in keys:
                if key in seen:
                    self.wrong(where, f"{what} {_shown(key)} stands twice", "Keep one of them")
                    break
                seen.add(key)


def _shown(key: Any) -> str:
    return str(key[0] if isinstance(key, tuple) else key)


def _nic(one: dict[str, Any]) -> PlatformNic:
    return PlatformNic(**{**one, "gpu_affinity": tuple(one.get("gpu_affinity", ()))})
