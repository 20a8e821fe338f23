"""How a job is started: launchers, ssh, ranks, visible devices, and the environment that reaches the ranks."""

from rig.judge.envfile import PLAIN
from rig.judge.ruling import Edit, Ruling
from rig.judge.site import site_of
from rig.lean import Any, Iterator, Mapping
from rig.nodelist import number
from rig.plan.ds_versions import SSH_PORT, written
from rig.plan.hostfile import read_hostfile

Facts = Mapping[str, Any]
# What DeepSpeed's launcher sends to other nodes by itself (launcher/runner.py; NCCL with the CUDA accelerator).
TRAVELS = ("NCCL", "PYTHON", "MV2", "UCX", "MLFLOW", "NEBULA_EXPORT", "DLTS_JOB_ID", "DLTS_NUM_WORKER")
# What a rank needs and the launcher leaves behind. Node-local names are not among them: each node sets its own.
NEEDED = (
    "GLOO_",
    "TP_",
    "OMP_",
    "LD_LIBRARY_PATH",
    "TORCH_",
    "HF_",
    "CUDA_",
    "FI_",
    "MKL_",
    "TOKENIZERS_",
    "TRANSFORMERS_",
)
NODE_LOCAL = ("CUDA_VISIBLE_DEVICES",)
WITHOUT_LAUNCH = ("openmpi", "mvapich", "slurm")  # start the script itself: ranks come from mpi4py
RANK_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
REASONS = (
    ("resolve", "name does not resolve", "add it to DNS or /etc/hosts"),
    ("host key", "host key is not known or has changed", "put its key into known_hosts"),
    ("permission denied", "does not accept the key", "add this node's public key to authorized_keys there"),
    ("refused", "connection refused: no sshd listens on the port", "start sshd there, or give its port in ssh_config"),
    ("timed out", "no answer: a firewall, or another network", "open the port, or use the training network's address"),
    ("no route", "no route to the host", "check the network's address"),
)


def every_host(given: Facts, world: Facts) -> Iterator[Ruling]:
    """DeepSpeed tries only the first host and throws the reason away."""
    told, hostfile = given.get("ssh"), given.get("hostfile")
    if not isinstance(told, Mapping):
        return
    for host, answer in told.items():
        said = str(answer).lower()
        if said in ("ok", "0", "true"):
            continue
        why, fix = next(
            ((why, fix) for word, why, fix in REASONS if word in said), (str(answer)[:80], "try ssh by hand")
        )
        yield Ruling("reject", "ssh-check", f"{host}: {why}", host, f"{host}: {fix}")
    listed = read_hostfile(hostfile).entries if isinstance(hostfile, str) else ()
    for entry in listed:
        if entry.host not in told:
            text = f"{entry.host}: was not tried over ssh"
            yield Ruling("reject", "ssh-check", text, entry.host, f"ssh {entry.host} true")


def ssh_port(given: Facts, world: Facts) -> Iterator[Ruling]:
    """--ssh_port with pdsh raises KeyError unless PDSH_SSH_ARGS_APPEND is set."""
    args, site = _texts(given.get("args")), site_of(world)
    if "--ssh_port" not in args or str(given.get("launcher", "pdsh")) != "pdsh" or site.version >= SSH_PORT.fixed:
        return
    if "PDSH_SSH_ARGS_APPEND" in _env(given):
        return
    at = args.index("--ssh_port")
    text = (
        f"--ssh_port raises KeyError on {written(site.version)} unless PDSH_SSH_ARGS_APPEND is set ({SSH_PORT.source})"
    )
    edits = (
        Edit(("env", "PDSH_SSH_ARGS_APPEND"), "-o StrictHostKeyChecking=accept-new"),
        Edit(("args",), args[at : at + 2]),
    )
    yield Ruling("fix", "ssh-port", text, "--ssh_port", "A Port line in ssh_config is safer", edits)


def launcher_is_there(given: Facts, world: Facts) -> Iterator[Ruling]:
    """The launcher's program must be in the image."""
    launcher, which = given.get("launcher"), given.get("which")
    if not isinstance(launcher, str) or not isinstance(which, Mapping):
        return
    program = {"openmpi": "ompi_info", "mpich": "mpirun", "impi": "mpirun", "slurm": "srun"}.get(launcher, launcher)
    name = next((name for name in (launcher, program) if name in which), None)
    if name is not None and not which[name]:
        other = next((name for name, path in which.items() if path), None)
        use = f"use --launcher {other} or install it" if other else "install it"
        text = f"{name} is not in the image; {use}"
        yield Ruling("reject", "launcher-missing", text, "--launcher", use)


def once(given: Facts, world: Facts) -> Iterator[Ruling]:
    """The launcher starts all nodes: started on each, it makes m*m*n processes and EADDRINUSE."""
    started = _texts(given.get("started_on"))
    if len(set(started)) < 2 or str(given.get("launcher", "deepspeed")) in ("torchrun", "srun"):
        return
    text = "the deepspeed launcher starts all nodes itself: run it on the first host only"
    yield Ruling(
        "reject", "launch-twice", text, started[1], f"Run it on {started[0]} only, or use torchrun on every node"
    )


def nodes_are_there(given: Facts, world: Facts) -> Iterator[Ruling]:
    """--num_nodes above the list silently uses all of it."""
    args, hostfile = _texts(given.get("args")), given.get("hostfile")
    if not isinstance(hostfile, str):
        return
    wanted = number(args[args.index("--num_nodes") + 1]) if "--num_nodes" in args[:-1] else site_of(world).nodes
    listed = len({entry.host for entry in read_hostfile(hostfile).entries})
    if wanted and 0 < listed < wanted:
        text = f"{wanted} nodes were asked for, the hostfile has {listed}: DeepSpeed would use those and say nothing"
        yield Ruling(
            "reject", "nodes-missing", text, "hostfile", f"Add {wanted - listed} hosts, or ask for fewer nodes"
        )


def ranks_are_named(given: Facts, world: Facts) -> Iterator[Ruling]:
    """Without the five variables DeepSpeed tries MPI discovery, and dies on mpi4py."""
    site, launcher = site_of(world), given.get("launcher")
    if launcher in WITHOUT_LAUNCH and given.get("mpi4py") in (False, None) and "mpi4py" in given:
        text = f"the {launcher} launcher starts the script without ranks: mpi4py must tell them, and it is not there"
        yield Ruling("reject", "no-launcher", text, "--launcher", "Use pdsh or torchrun, or install mpi4py")
        return
    argv, env = _texts(given.get("argv")), _env(given)
    if not argv or not argv[0].rsplit("/", 1)[-1].startswith("python") or "env" not in given:
        return
    missing = [name for name in RANK_NAMES if name not in env]
    if not missing:
        return
    if site.ranks > 1:
        text = f"python starts one process, {site.ranks} ranks were asked for: start through the launcher"
        yield Ruling("reject", "no-launcher", text, argv[0], f"Give the script alone: {' '.join(argv[1:])}")
        return
    alone = dict(zip(RANK_NAMES, ("0", "0", "1", "127.0.0.1", "29500"), strict=True))
    text = f"{', '.join(missing)} not set: DeepSpeed would try MPI; a world of one is written"
    edits = tuple(Edit(("env", name), alone[name]) for name in missing)
    yield Ruling("fix", "no-launcher", text, argv[0], "Start through the launcher", edits)


def local_rank(given: Facts, world: Facts) -> Iterator[Ruling]:
    """--local_rank=N is put before the user's arguments; a parser that does not know it exits with 2."""
    options = given.get("train_argparse_options")
    if (
        not isinstance(options, (list, tuple))
        or "--local_rank" in options
        or "--no_local_rank" in _texts(given.get("args"))
    ):
        return
    text = "the script's parser does not know --local_rank: --no_local_rank, LOCAL_RANK is in the environment"
    yield Ruling(
        "fix", "no-local-rank", text, "--no_local_rank", "Read LOCAL_RANK", (Edit(("args",), ["--no_local_rank"]),)
    )


def visible_devices(given: Facts, world: Facts) -> Iterator[Ruling]:
    """The launcher reads CUDA_VISIBLE_DEVICES as numbers, and then counts the visible ones from 0."""
    value, site = _env(given).get("CUDA_VISIBLE_DEVICES", ""), site_of(world)
    parts = [part.strip() for part in value.split(",")] if value else []
    if not parts:
        return
    key = "CUDA_VISIBLE_DEVICES"
    if all(part.isascii() and part.isdigit() for part in parts):
        if [int(part) for part in parts] != list(range(len(parts))):
            text = f"{key}={value[:60]} has gaps: the launcher counts visible GPUs from 0 and misses a slot"
            edits = (Edit(("args",), ["--include", f"localhost:{','.join(parts)}"]), Edit(("env", key), None))
            yield Ruling("fix", "visible-include", text, key, "Use --include localhost:...", edits)
        return
    known = given.get("gpu_uuids")
    index = {str(uuid): str(place) for place, uuid in enumerate(known)} if isinstance(known, (list, tuple)) else {}
    places = [index.get(part, "") for part in parts] if index else [str(place) for place in range(len(parts))]
    if "" in places or (not index and len(parts) > site.gpus_per_node):
        text = f"{key}={value[:60]}: no GPU of this node has that name"
        yield Ruling("reject", "visible-index", text, key, "Give indices")
        return
    text = f"{key}={value[:60]}: the launcher reads numbers only: {','.join(places)}"
    yield Ruling("fix", "visible-index", text, key, "Give indices", (Edit(("env", key), ",".join(places)),))


def environment_travels(given: Facts, world: Facts) -> Iterator[Ruling]:
    """Only a few families reach other nodes; the rest goes into .deepspeed_env. Values are pasted into a shell line."""
    site, env = site_of(world), _env(given)
    if site.nodes < 2 or given.get("launcher") == "slurm":
        return
    for name, value in env.items():
        if name.startswith(TRAVELS) and any(char not in PLAIN for char in value):
            text = f"{name}: its value is pasted into the shell line of every node and breaks it"
            yield Ruling("reject", "env-file", text, name, "Use a value without blanks, quotes, ; and #")
    left = {name: value for name, value in env.items() if name.startswith(NEEDED) and name not in NODE_LOCAL}
    if left:
        lines = "".join(f"{name}={_quoted(value)}\n" for name, value in left.items())
        text = f"{', '.join(left)} would not reach the other nodes: written to .deepspeed_env"
        yield Ruling("fix", "env-file", text, ".deepspeed_env", "", (Edit(("deepspeed_env",), lines),))


def sessions_see_it(given: Facts, world: Facts) -> Iterator[Ruling]:
    """sshd does not pass a container's own environment to its sessions."""
    env = given.get("docker_env_on_worker")
    if (
        isinstance(env, Mapping)
        and env
        and str(given.get("launcher", "pdsh")) in ("pdsh", "openmpi", "mpich", "mvapich")
    ):
        text = (
            f"the worker's entrypoint persists node-local variables ({', '.join(map(str, env))}) for ssh sessions, for "
            "example in ~/.ssh/environment or a profile read by non-interactive shells"
        )
        yield Ruling("require", "session-env", text, "worker", "Start the worker through the image's entrypoint")


def slurm_environment(given: Facts, world: Facts) -> Iterator[Ruling]:
    """DeepSpeed's slurm launcher writes --export=ALL,K=V and an --include that srun does not have."""
    if given.get("launcher") != "slurm":
        return
    cut = [name for name, value in _env(given).items() if "," in value]
    if cut:
        text = f"{', '.join(cut)}: --export splits at commas: set the variable in the job script instead"
        yield Ruling("reject", "slurm-env", text, cut[0], "export it in the job script")
    if {"--include", "--exclude", "-i", "-e"} & set(_texts(given.get("args"))):
        text = "--include is passed on to srun, which has no such option"
        yield Ruling("reject", "slurm-env", text, "--include", "Choose nodes with srun --nodelist")


def _env(given: Facts) -> dict[str, str]:
    env = given.get("env")
    return {str(name): str(value) for name, value in env.items()} if isinstance(env, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []


def _quoted(value: str) -> str:
    return value if all(char in PLAIN for char in value) else "'" + value.replace("'", "'\"'\"'") + "'"


RULES = (
    every_host,
    ssh_port,
    launcher_is_there,
    once,
    nodes_are_there,
    ranks_are_named,
    local_rank,
    visible_devices,
    slurm_environment,
    environment_travels,
    sessions_see_it,
)
