"""Who takes part: the nodes of the job, which of them this is, and where rank 0 listens.

Schedulers say it in variables and files, each in its own way (rig.schedulers). Several may speak at once: the first in
the order of authority is believed, the others are compared with it, and what does not fit is a finding.
"""

from rig.finding import Finding
from rig.lean import Any, Callable, Mapping, NamedTuple, Sequence
from rig.nodelist import NODE_LIMIT, SLOTS_LIMIT, why_unsafe
from rig.nodelist import Node as Node
from rig.ranks import DEFAULT_PORT as DEFAULT_PORT

UNUSABLE = "node-list"  # id of a failure after which nobody knows who takes part: the boot ends

Read = Callable[[str], "str | None"]


class World(NamedTuple):
    """The machines and ranks of a job. What nobody said is None.

    `nodes` are in launch order; empty where only their number is known (`node_count`). `node_index` is this machine's
    place among them, None when it takes part as a launcher only, or could not be found. `rank`, `local_rank`,
    `world_size` and `local_size` are set where an outside launcher has already started one process a rank (`started`):
    then nothing else may be launched. `source` names who was believed.
    """

    nodes: tuple[Node, ...] = ()
    node_count: int = 1
    node_index: int | None = 0
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_size: int | None = None
    master_addr: str | None = None
    master_port: int = DEFAULT_PORT
    started: bool = False
    source: str = "single node"


def read_world(
    environ: Mapping[str, str], *, hostname: str, read: Read, platform_nodes: Sequence[Node] = ()
) -> tuple[World, tuple[Finding, ...]]:
    """The world that this process belongs to, and what does not fit. Never raises.

    `read` gives the text of a file or None (hostfiles that schedulers mount). `platform_nodes` come from the platform
    file. Linear in the number of nodes.
    """
    from rig.schedulers import READERS, Saying

    say = Saying(environ, hostname, read, tuple(platform_nodes))
    heard = tuple(world for reader in READERS if (world := reader(say)) is not None and _possible(world, say.findings))
    if not heard:
        return _settled(World(nodes=(Node(hostname),)), say.environ), tuple(say.findings)
    world = _settled(_located(_named(heard[0], heard[1:]), hostname), environ)
    findings = (*say.findings, *_disagreements(world, heard[1:]), *_flaws(world, environ))
    return world, findings


def unusable(findings: Sequence[Finding]) -> Finding | None:
    """What makes training on wrong: a source that the job names and that cannot be read. Alone is another job."""
    return next((one for one in findings if one.id == UNUSABLE and one.outcome == "fail"), None)


def _possible(world: World, findings: list[Finding]) -> bool:
    """Whether there can be so many nodes and ranks; where not, it is said, and nothing is made for each of them."""
    slots = max((*(node.slots or 1 for node in world.nodes), world.local_size or 1))
    if world.node_count <= NODE_LIMIT and slots <= SLOTS_LIMIT:
        return True
    text = f"{world.source} has {world.node_count} nodes with up to {slots} ranks each"
    fix = f"At most {NODE_LIMIT} nodes of {SLOTS_LIMIT} ranks"
    findings.append(_finding(UNUSABLE, "fail", text, world.source, NODE_LIMIT, world.node_count, fix))
    return False


def _settled(world: World, environ: Mapping[str, str]) -> World:
    """Master address and port: MASTER_ADDR and MASTER_PORT where they are set, else the first node."""
    from rig.nodelist import number

    port = number(environ.get("MASTER_PORT"))
    address = environ.get("MASTER_ADDR") or world.master_addr
    if not address and world.nodes:
        address = world.nodes[0].address or world.nodes[0].name
    if world.node_count == 1 and not environ.get("MASTER_ADDR"):
        address = "127.0.0.1"
    return world._replace(master_addr=address, master_port=port if port and port < 65536 else world.master_port)


def _named(world: World, others: Sequence[World]) -> World:
    """The names of the nodes from another source that has as many, where the believed one has only their number."""
    if world.nodes or world.node_count == 1:
        return world
    nodes = next((other.nodes for other in others if len(other.nodes) == world.node_count), ())
    return world._replace(nodes=nodes)


def _located(world: World, hostname: str) -> World:
    """Finds this host among the nodes by its name, with or without domain, where the scheduler gave no number."""
    if world.node_index is not None or not world.nodes:
        return world
    short = hostname.split(".", 1)[0]
    loose = None
    for index, node in enumerate(world.nodes):
        if hostname in (node.name, node.address):
            return world._replace(node_index=index)
        if loose is None and short and node.name.split(".", 1)[0] == short and not _is_address(node.name):
            loose = index
    if loose is None and world.node_count == 1 and world.nodes[0].name in ("localhost", "127.0.0.1"):
        loose = 0
    return world._replace(node_index=loose)


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()


def _disagreements(world: World, others: Sequence[World]) -> tuple[Finding, ...]:
    found = []
    if world.started and world.local_size is None:
        return ()  # ranks without a local size: how many nodes they are on is a guess
    for other in others:
        if other.node_count != world.node_count:
            got, want = f"{other.node_count} nodes", f"{world.node_count}"
        elif None not in (other.world_size, world.world_size) and other.world_size != world.world_size:
            got, want = f"{other.world_size} ranks", f"{world.world_size}"
        elif None not in (other.node_index, world.node_index) and other.node_index != world.node_index:
            got, want = f"this node as number {other.node_index}", f"number {world.node_index}"
        else:
            continue
        text = f"{other.source} has {got}, {world.source} has {want}: {world.source} is believed"
        fix = f"Set what {world.source} says for this job, or unset it"
        found.append(_finding("world-contradiction", "warn", text, world.source, want, got, fix))
    return tuple(found)


def _flaws(world: World, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    found = [*_bad_names(world), *_bad_ranks(world)]
    if world.node_index is not None and world.node_index >= world.node_count:
        text = f"node number {world.node_index} does not exist among {world.node_count} nodes ({world.source})"
        found.append(
            _finding("world-contradiction", "fail", text, world.source, None, world.node_index, "Count from 0")
        )
    if world.node_count > 1 and not world.master_addr:
        text = f"{world.source} has {world.node_count} nodes and nobody says where rank 0 listens"
        found.append(_finding("world-incomplete", "fail", text, world.source, None, None, "Set MASTER_ADDR"))
    port = environ.get("MASTER_PORT")
    if port and str(world.master_port) != port.strip():
        text = f"MASTER_PORT={port[:20]} is not a port: {world.master_port} is used"
        found.append(_finding("world-contradiction", "warn", text, "MASTER_PORT", "1-65535", port[:20], "Set a port"))
    return tuple(found)


def _bad_names(world: World) -> tuple[Finding, ...]:
    found: list[Finding] = []
    seen: set[str] = set()
    for node in world.nodes:
        why = "stands there twice" if node.name in seen else why_unsafe(node.name)
        seen.add(node.name)
        if why and len(found) < 5:  # one bad list, not ten thousand lines
            text = f"node name '{node.name[:60]}' {why} ({world.source})"
            found.append(_finding("node-name", "fail", text, world.source, None, node.name[:60], "Correct the name"))
    return tuple(found)


def _bad_ranks(world: World) -> tuple[Finding, ...]:
    found = []
    for name, value, limit in (
        ("rank", world.rank, world.world_size),
        ("local rank", world.local_rank, world.local_size),
        ("local size", world.local_size, None if world.world_size is None else world.world_size + 1),
    ):
        if value is not None and limit is not None and value >= limit:
            text = f"{name} {value} does not fit into {limit} ({world.source})"
            fix = "Set the rank variables as one set, or unset them all"
            found.append(_finding("world-contradiction", "fail", text, world.source, f"< {limit}", value, fix))
    return tuple(found)


def _finding(name: str, outcome: str, text: str, subject: str, want: Any, got: Any, fix: str) -> Finding:
    return Finding(name, outcome, "user", text, subject=subject, want=want, got=got, fix=fix)
