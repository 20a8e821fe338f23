"""JSON text -> Platform, with every problem named by its key. By hand: the boot path has no schema library.

docs/network_topology.schema.json says the same for editors and other programs; a test holds the two together.
"""

from rig.lean import Any, NamedTuple
from rig.nodelist import NODE_LIMIT, SAFE, SLOTS_LIMIT
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
from rig.platform_values import (
    ENV_ALLOWED,
    LIST_LONGEST,
    NAME,
    TEXT_LONGEST,
    Check,
    absolute,
    boolean,
    bus,
    cidr,
    hexadecimal,
    integer,
    list_of,
    number,
    one_of,
    text_up_to,
)

NODES_LONGEST = NODE_LIMIT
COMPARED_AT_MOST = 32  # unknown keys that are compared with the known ones: 0.1 ms each, and this is read at every boot
ROLES = ("compute", "storage", "frontend", "management")
LINK_LAYERS = ("infiniband", "ethernet", "efa")
FABRICS = ("infiniband", "rocev2", "efa", "tcp")


class Key(NamedTuple):
    """One key of an object: how its value is checked, and where it goes."""

    check: Check
    required: bool = False


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
    "slots": Key(integer(1, SLOTS_LIMIT)),
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
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {name[:60]!r} stands twice in one object")
            seen.add(name)
    return made


def shown(name: str) -> str:
    """A key from the file for a line of text: short, and nothing in it that a terminal would obey."""
    return name[:64].encode("unicode_escape").decode("ascii")


def _nearest(name: str, known: Any) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name[:64], list(known), 1)), None)


class _Reader:
    """Walks the value and collects problems."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.strangers = 0  # unknown keys so far

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
                self.strangers += 1
                text = "is not a known key, and is not looked at"
                near = _nearest(name, known) if self.strangers <= COMPARED_AT_MOST else None
                fix = f"Did you mean {near}?" if near else "Leave it out"
                self.problems.append(Problem(f"{path}{shown(name)}", text, fix, False))

    def object(self, path: str, value: Any, keys: dict[str, Key]) -> dict[str, Any]:
        """The good values of an object; problems are noted."""
        if not isinstance(value, dict):
            self.wrong(path, "must be an object")
            return {}
        self.unknown(f"{path}.", value, keys)
        found = {}
        for name, key in keys.items():
            if name not in value:
                if key.required:
                    self.wrong(f"{path}.{name}", "is required", f"Add {name}")
                continue
            given = value[name]
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
        given = value.get(name.rpartition(".")[2], [])
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
                self.problems.append(Problem(f"nccl.env.{shown(name)}", text, fix, False))
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
