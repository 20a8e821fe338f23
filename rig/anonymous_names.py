"""The names in a platform file that belong to a data centre, replaced; what rules ask for stays."""

from rig.lean import Any, Callable

Node = Callable[[str], str]
Alias = Callable[[str, str, Callable[[int], str]], str]
# Keys whose text is somebody's own word, by the kind of what they name: equal words stay equal within a kind.
OWN_WORDS = {
    "rack": "rack",
    "leaf": "switch",
    "switch_path": "switch",
    "accelerator_domain": "domain",
    "nvlink_domain": "domain",
    "generator": "generator",
    "machine_id": "machine",
}


def platform_names(text: str, node: Node, alias: Alias) -> str:
    """The file with its machines, racks, switches and domains renamed; a text that is no JSON object becomes `{`, which
    is no better and tells nothing."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "{\n"
    if not isinstance(value, dict):
        return "{\n"
    about, cluster = value.get("node"), value.get("cluster")
    if isinstance(about, dict) and isinstance(pattern := about.get("hostname_match"), str):
        about["hostname_match"] = _pattern(pattern, node)
    for one in cluster.get("nodes") or () if isinstance(cluster, dict) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            one["name"] = node(one["name"])
    return json.dumps(_renamed(value, alias), indent=1) + "\n"


def _pattern(pattern: str, node: Node) -> str:
    return "*" if "*" in pattern else node(pattern)


def _renamed(value: Any, alias: Alias, kind: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _renamed(inner, alias, OWN_WORDS.get(name, "")) for name, inner in value.items()}
    if isinstance(value, list):
        return [_renamed(inner, alias, kind) for inner in value]
    return alias(kind, value, lambda n: f"{kind}-{n}") if kind and isinstance(value, str) else value
