"""How schedulers tell a process about its job: one reader a dialect, in the order of authority. Used by rig.job."""

from rig.finding import Finding
from rig.job import DEFAULT_PORT, UNUSABLE, Read, World
from rig.lean import Callable, Mapping
from rig.nodelist import NODE_LIMIT, Node, NodeListError, expand, hostfile_nodes, number

MPI_HOSTFILE = "/etc/mpi/hostfile"  # mounted by the Kubernetes MPI operator
DEEPSPEED_HOSTFILE = "/job/hostfile"  # DeepSpeed's default (launcher/runner.py)
SAGEMAKER_FILE = "/opt/ml/input/config/resourceconfig.json"
COUNTED_LATER = ("auto", "gpu", "cpu", "xpu")  # torchrun's --nproc_per_node, before anybody has counted
# rank, world size, local rank, local size: each MPI names them itself.
MPI_DIALECTS = (
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        "MVAPICH2",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    ("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)


class Saying:
    """What the surroundings say, and the findings that the readers leave on the way."""

    def __init__(self, environ: Mapping[str, str], hostname: str, read: Read, platform: tuple[Node, ...]) -> None:
        self.environ, self.hostname, self.read, self.platform = environ, hostname, read, platform
        self.findings: list[Finding] = []
        self.strange: set[str] = set()  # variables that were complained about

    def text(self, *names: str) -> str | None:
        return next((value for name in names if (value := self.environ.get(name, "").strip())), None)

    def number(self, *names: str) -> int | None:
        """The first of these variables that is set; None, with a line, where it holds no whole number."""
        name = next((name for name in names if self.environ.get(name, "").strip()), "")
        told = number(self.environ.get(name))
        if name and told is None and self.environ[name].strip() not in COUNTED_LATER and name not in self.strange:
            self.strange.add(name)
            text = f"{name}={self.environ[name][:40]} is no whole number, and is not looked at"
            self.findings.append(Finding("job-variable", "warn", "user", text, subject=name, fix="Set a whole number"))
        return told

    def count(self, *names: str) -> int | None:
        """A number of nodes: `4`, or the lower end of an elastic range `2:4`. What is neither ends the boot."""
        name = next((name for name in names if self.environ.get(name, "").strip()), "")
        told = number(self.environ.get(name, "").split(":", 1)[0])
        if name and not told:
            self.unusable(name, f"{self.environ[name][:40]!r} is no number of nodes", "Set a whole number from 1")
        return told

    def unusable(self, source: str, why: str, fix: str) -> None:
        if source not in self.strange:
            self.strange.add(source)
            self.findings.append(Finding(UNUSABLE, "fail", "user", f"{source}: {why}", subject=source, fix=fix))

    def nodes(self, source: str, expression: str) -> tuple[Node, ...]:
        try:
            return tuple(Node(name) for name in expand(expression))
        except NodeListError as error:
            self.unusable(source, str(error), "Write names and ranges: gpu-[01-16,20]")
            return ()


def plain_list(say: Saying) -> World | None:
    """RIG_NODES=gpu-[01-16,20]."""
    expression = say.text("RIG_NODES")
    nodes = say.nodes("RIG_NODES", expression) if expression else ()
    slots = say.number("RIG_SLOTS")
    return _of(nodes, "RIG_NODES", index=say.number("RIG_NODE_RANK", "NODE_RANK"), slots=slots) if nodes else None


def given_hostfile(say: Saying) -> World | None:
    """RIG_HOSTFILE=path: a hostfile that the user named."""
    path = say.text("RIG_HOSTFILE")
    if not path:
        return None
    text = say.read(path)
    nodes = hostfile_nodes(text or "")
    if not nodes:
        what = "cannot be read" if text is None else "names no host"
        say.unusable("RIG_HOSTFILE", f"{path} {what}", "Correct the path, or mount the file")
        return None
    return _of(nodes, "RIG_HOSTFILE", index=say.number("RIG_NODE_RANK", "NODE_RANK"))


def started_ranks(say: Saying) -> World | None:
    """RANK, LOCAL_RANK and WORLD_SIZE: torchrun, or anything like it, has already started a process a rank."""
    rank, local, size = say.number("RANK"), say.number("LOCAL_RANK"), say.number("WORLD_SIZE")
    if rank is None or local is None or not size:
        return None
    local_size = say.number("LOCAL_WORLD_SIZE")
    count = say.number("GROUP_WORLD_SIZE") or _quotient(size, local_size)
    index = say.number("GROUP_RANK")
    if index is None:
        index = 0 if count == 1 else None if not local_size else rank // local_size
    return World((), count, index, rank, local, size, local_size, None, DEFAULT_PORT, True, "torchrun")


def mpi_ranks(say: Saying) -> World | None:
    """A process that mpirun started: one rank."""
    for source, *names in MPI_DIALECTS:
        rank, size, local, local_size = (say.number(name) for name in names)
        if rank is None or not size or (source == "MPICH" and local is None):
            continue  # Slurm sets PMI_RANK too, one a node or one a rank: its own reader knows
        hosts = hostfile_nodes(say.read(say.text("OMPI_MCA_orte_default_hostfile") or MPI_HOSTFILE) or "")
        count = len(hosts) or _quotient(size, local_size)
        index = 0 if count == 1 else None if not local_size else rank // local_size
        return World(hosts, count, index, rank, local, size, local_size, None, DEFAULT_PORT, True, source)
    return None


def slurm(say: Saying) -> World | None:
    """Slurm: the nodes of the step, else of the job. A step with more tasks than nodes has started the ranks."""
    step = say.text("SLURM_STEP_ID") is not None
    expression = (say.text("SLURM_STEP_NODELIST") if step else None) or say.text("SLURM_JOB_NODELIST", "SLURM_NODELIST")
    nodes = say.nodes("SLURM_JOB_NODELIST", expression) if expression else ()
    if not nodes:
        return None
    counted = say.number("SLURM_STEP_NUM_NODES") if step else say.number("SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    if counted is not None and counted != len(nodes):
        text = f"Slurm counts {counted} nodes, its node list has {len(nodes)}: the list is believed"
        fix = "Start the program from the job's own script or step"
        say.findings.append(
            Finding("world-contradiction", "warn", "platform", text, "SLURM_NNODES", counted, len(nodes), fix)
        )
    world = _of(nodes, "Slurm", index=say.number("SLURM_NODEID"), slots=_slurm_slots(say))
    tasks = say.number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    rank, local = say.number("SLURM_PROCID"), say.number("SLURM_LOCALID")
    if not step or tasks is None or rank is None or tasks <= len(nodes):
        return world
    return world._replace(
        rank=rank, local_rank=local, world_size=tasks, local_size=_quotient(tasks, len(nodes)), started=True
    )


def _slurm_slots(say: Saying) -> int | None:
    """SLURM_GPUS_ON_NODE is a count; SLURM_GPUS_PER_NODE may carry a type: a100:8."""
    per_node = (say.text("SLURM_GPUS_PER_NODE") or "").rsplit(":", 1)[-1]
    return say.number("SLURM_GPUS_ON_NODE") or number(per_node)


def mpi_job(say: Saying) -> World | None:
    """The launcher or a worker of a Kubernetes MPIJob: a mounted hostfile names the workers."""
    path = say.text("OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE")
    if not path and not say.text("K_MPI_JOB_ROLE"):
        return None
    nodes = hostfile_nodes(say.read(path or MPI_HOSTFILE) or "")
    if not nodes and say.text("K_MPI_JOB_ROLE") == "launcher":
        say.unusable("Kubernetes MPIJob", f"{path or MPI_HOSTFILE} names no worker", "Mount the operator's hostfile")
    return _of(nodes, "Kubernetes MPIJob", index=None) if nodes else None


def pytorch_job(say: Saying) -> World | None:
    """A pod of a Kubernetes PyTorchJob (PET_*), or a node that was told NNODES and NODE_RANK."""
    count = say.count("PET_NNODES", "NNODES", "RIG_NNODES")
    index = say.number("PET_NODE_RANK", "NODE_RANK", "RIG_NODE_RANK")
    slots = say.number("PET_NPROC_PER_NODE", "NPROC_PER_NODE")
    source = "Kubernetes PyTorchJob" if say.text("PET_NNODES") else "NNODES"
    if count is None and say.text("MASTER_ADDR") and say.text("RANK") and not say.text("LOCAL_RANK"):
        size = say.number("WORLD_SIZE")  # pods, or processes where the operator knows how many a pod runs
        count, source = (size // slots if size and slots and size % slots == 0 else size), "RANK and WORLD_SIZE"
    if not count:
        return None
    index = say.number("RANK") if index is None and not say.text("LOCAL_RANK") else index
    index = say.number("JOB_COMPLETION_INDEX") if index is None else index
    address = (say.text("PET_MASTER_ADDR") or (say.text("PET_RDZV_ENDPOINT") or "").rpartition(":")[0]) or None
    port = say.number("PET_MASTER_PORT") or DEFAULT_PORT
    nodes = (Node(say.hostname, slots),) if count == 1 else ()
    return World(nodes, count, 0 if count == 1 else index, master_addr=address, master_port=port, source=source)


def indexed_job(say: Saying) -> World | None:
    """A pod of a Kubernetes Indexed Job or JobSet: `job-3`, or `job-3.service`, is one of NNODES pods."""
    index, count = say.number("JOB_COMPLETION_INDEX"), say.count("NNODES", "RIG_NNODES", "PET_NNODES")
    if index is None or not count:
        if index is not None and say.text("MASTER_ADDR"):
            text = "JOB_COMPLETION_INDEX says that this is one pod of several, but not of how many"
            say.findings.append(Finding("world-incomplete", "warn", "user", text, "NNODES", fix="Set NNODES"))
        return None
    stem, _, domain = say.hostname.partition(".")
    base, dash, last = stem.rpartition("-")
    if count > 1 and (not dash or last != str(index)):
        return World((), count, index, source="Kubernetes Indexed Job")
    suffix = f".{domain}" if domain else ""
    nodes = tuple(Node(f"{base}-{place}{suffix}") for place in range(min(count, NODE_LIMIT))) if count > 1 else ()
    return World(nodes or (Node(say.hostname),), count, index, source="Kubernetes Indexed Job")


def sagemaker(say: Saying) -> World | None:
    """SageMaker's host list, in a variable or in its resource file; Volcano's and others' plain comma lists."""
    listed, me = say.text("SM_HOSTS"), say.text("SM_CURRENT_HOST")
    if not listed and (text := say.read(SAGEMAKER_FILE)):
        listed, me = text, me or ""
    if listed:
        names, me = _json_hosts(listed, me)
        index = names.index(me) if me in names else None
        slots = say.number("SM_NUM_GPUS")
        if not names:
            say.unusable("SageMaker", "its host list is no JSON list of names", "Correct SM_HOSTS")
        return _of(tuple(Node(name) for name in names), "SageMaker", index, slots) if names else None
    expression = say.text("VC_WORKER_HOSTS")
    nodes = say.nodes("VC_WORKER_HOSTS", expression) if expression else ()
    return _of(nodes, "VC_WORKER_HOSTS", index=say.number("VC_TASK_INDEX")) if nodes else None


def _json_hosts(text: str, me: str | None) -> tuple[list[str], str | None]:
    import json

    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return [], me
    hosts = told.get("hosts") if isinstance(told, dict) else told
    if isinstance(told, dict) and not me and isinstance(told.get("current_host"), str):
        me = told["current_host"]
    return [host for host in hosts if isinstance(host, str)] if isinstance(hosts, list) else [], me


def platform_file(say: Saying) -> World | None:
    """The nodes that the marketplace's platform file names."""
    return _of(say.platform, "platform file", index=None) if say.platform else None


def default_hostfile(say: Saying) -> World | None:
    """DeepSpeed's default hostfile, where somebody mounted one."""
    nodes = hostfile_nodes(say.read(DEEPSPEED_HOSTFILE) or "")
    return _of(nodes, DEEPSPEED_HOSTFILE, index=None) if nodes else None


def _of(nodes: tuple[Node, ...], source: str, index: int | None, slots: int | None = None) -> World:
    if slots is not None:
        nodes = tuple(node if node.slots is not None else node._replace(slots=slots) for node in nodes)
    return World(nodes, len(nodes), index, source=source)


def _quotient(size: int, share: int | None) -> int:
    """Nodes by ranks a node, rounded up; 1 where the share is not known."""
    return -(-size // share) if share else 1


READERS: tuple[Callable[[Saying], World | None], ...] = (
    started_ranks,  # a fact, not a wish: whoever runs a process a rank has launched already
    mpi_ranks,
    plain_list,
    given_hostfile,
    slurm,
    mpi_job,
    pytorch_job,
    indexed_job,
    sagemaker,
    platform_file,
    default_hostfile,
)
