"""How many ranks this node starts, who they are, and what their environment needs besides NCCL."""

from rig.finding import Finding
from rig.job import World
from rig.lean import Mapping, NamedTuple
from rig.machine import Machine
from rig.plan import Plan, Setting
from rig.ranks import DEFAULT_PORT, Place, threads, visible
from rig.settings import Settings

PLATFORM = "platform file"  # World.source of a list that the job did not ask for


class LaunchPlan(NamedTuple):
    """`ranks` are the lines of Plan.ranks (`place_of` reads them); `gpus` is how many GPUs this job uses here."""

    ranks: tuple[Setting, ...] = ()
    environment: tuple[Setting, ...] = ()
    findings: tuple[Finding, ...] = ()
    gpus: int = 0
    nodes: tuple[tuple[str, int], ...] = ()  # (name, ranks) of each node, where the names are known


def plan_launch(machine: Machine, world: World, settings: Settings, environ: Mapping[str, str]) -> LaunchPlan:
    """Ranks of this node and of the job. `environ` is the user's environment."""
    gpus = visible(len(machine.gpus), environ.get("CUDA_VISIBLE_DEVICES"))
    local, found = _local_ranks(machine, gpus, settings, environ)
    world, strangers = _believable(world, machine.surroundings.hostname or "this machine", environ)
    slots = tuple(node.slots or local.value for node in world.nodes) if len(world.nodes) == world.node_count else ()
    slots = slots or (local.value,) * world.node_count
    index = world.node_index
    if index is not None and index < len(slots):
        named = slots[index]
        if world.nodes and world.nodes[index].slots:
            found = (*found, *_too_many(named, gpus, world.source))
            local = Setting("local_ranks", named, _source(world), f"slots of this node in {world.source}")
    ranks = (local, *_job_lines(world, slots, environ), _thread_line(machine, local.value, environ))
    if not gpus and world.node_count == 1:
        reason = "ranks of one node meet on loopback; gloo would look up the host name, which may not resolve"
        ranks = (*ranks, Setting("gloo_socket_ifname", "lo", "default", reason))
    named = tuple((node.name, count) for node, count in zip(world.nodes, slots, strict=False))
    return LaunchPlan(ranks, _environment(gpus, environ), (*found, *strangers), gpus, named)


def _local_ranks(
    machine: Machine, gpus: int, settings: Settings, environ: Mapping[str, str]
) -> tuple[Setting, tuple[Finding, ...]]:
    present = len(machine.gpus)
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    if gpus and shown is not None:
        return Setting("local_ranks", gpus, "environment", f"one for each GPU of CUDA_VISIBLE_DEVICES={shown}"), ()
    if gpus:
        return Setting("local_ranks", gpus, "detection", "one for each GPU"), ()
    why = "no GPU was found" if not present else f"CUDA_VISIBLE_DEVICES={shown} hides all {present} GPUs"
    reason = f"{why}: CPUs over gloo, as many as RIG_CPU_RANKS"
    found: tuple[Finding, ...] = ()
    if present and shown:
        text = f"CUDA_VISIBLE_DEVICES={shown} shows none of {present} GPUs"
        found = (Finding("gpus-hidden", "warn", "user", text, "CUDA_VISIBLE_DEVICES", fix="Unset it to use them"),)
    return Setting("local_ranks", settings.cpu_ranks, "default", reason), found


def _believable(world: World, here: str, environ: Mapping[str, str]) -> tuple[World, tuple[Finding, ...]]:
    """A platform file may list machines of other jobs: where this node is not among them, it trains alone. The launcher
    of a Kubernetes MPIJob is no node, and that is right."""
    known = world.node_index is not None or world.started
    if known or environ.get("K_MPI_JOB_ROLE") == "launcher":
        return world, ()
    if world.source == PLATFORM:
        text = f"the platform file lists nodes, but not {here}: it trains alone"
        found = Finding(
            "node-unknown", "warn", "platform", text, fix="Set RIG_NODES and RIG_NODE_RANK for several nodes"
        )
        return World(master_addr="127.0.0.1"), (found,)
    names = [node.name for node in world.nodes]
    text = f"{here} is none of the {world.node_count} nodes of {world.source}"
    if len(names) == 1:
        text = f"{here} is not {names[0]}, the only node of {world.source}"
    if not world.nodes:
        text = f"the job has {world.node_count} nodes ({world.source}), and nothing says which of them {here} is"
    fix = "Set RIG_NODE_RANK on each node, or name this one as `hostname` prints it"
    if len(names) == 1 and names[0].isdigit():
        fix = f"RIG_NODES lists names; for a number of nodes set RIG_NNODES={names[0]}"
    return world, (Finding("node-unknown", "fail", "user", text, world.source, fix=fix),)


def _too_many(named: int, gpus: int, source: str) -> tuple[Finding, ...]:
    if not gpus or named <= gpus:
        return ()
    text = f"{source} has {named} slots for this node, which has {gpus} GPUs"
    return (Finding("slots-beyond-gpus", "fail", "user", text, "slots", gpus, named, "Correct the number of slots"),)


def _source(world: World) -> str:
    if world.source == PLATFORM:
        return PLATFORM
    return "default" if world.source == "single node" else "environment"


def _job_lines(world: World, slots: tuple[int, ...], environ: Mapping[str, str]) -> tuple[Setting, ...]:
    source, reason = _source(world), world.source
    if environ.get("MASTER_PORT"):
        port = Setting("master_port", world.master_port, "environment", "MASTER_PORT")
    elif world.node_count > 1:
        port = Setting("master_port", world.master_port, source, f"all nodes must agree on it ({reason})")
    else:
        port = Setting("master_port", None, "default", "a free port is taken at the start")
    alone = "127.0.0.1" if world.node_count == 1 else None  # of several nodes each would wait at its own
    address_source = "environment" if environ.get("MASTER_ADDR") else source
    return (
        Setting("slots", slots, source, f"ranks on each node ({reason})"),
        Setting("node_rank", world.node_index, source, reason),
        Setting("world_size", sum(slots), source, "ranks of all nodes"),
        Setting("master_addr", world.master_addr or alone, address_source, f"where rank 0 listens ({reason})"),
        port,
    )


def _thread_line(machine: Machine, local: int, environ: Mapping[str, str]) -> Setting:
    told = environ.get("OMP_NUM_THREADS")
    if told:
        return Setting("omp_num_threads", told, "environment", "OMP_NUM_THREADS")
    limit = machine.limits.cpus
    cpus = limit if limit is not None and limit > 0 else machine.cpu.online
    reason = f"{cpus:g} CPUs shared by {local} ranks" if cpus else "number of CPUs unknown"
    return Setting("omp_num_threads", threads(cpus, local), "detection" if cpus else "default", reason)


def _environment(gpus: int, environ: Mapping[str, str]) -> tuple[Setting, ...]:
    if gpus or environ.get("DS_ACCELERATOR"):
        return ()
    reason = "DeepSpeed looks for CUDA where nothing is said, and there is no GPU"
    return (Setting("DS_ACCELERATOR", "cpu", "detection", reason),)


def place_of(plan: Plan, free_port: int = DEFAULT_PORT) -> Place | None:
    """Where this node stands; None where it is none of the job's nodes, or nobody knows where they meet.
    `free_port` is for a job of one node."""
    told = {line.name: line.value for line in plan.ranks}
    index, slots = told["node_rank"], told["slots"]
    if index is None or index >= len(slots) or told["master_addr"] is None:
        return None
    port = told["master_port"]
    slots = (*slots[:index], told["local_ranks"], *slots[index + 1 :])
    return Place(slots, index, told["master_addr"], free_port if port is None else port)
