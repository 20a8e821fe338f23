"""Reaching the other nodes, as far as one node can tell: the hostfile, the interface, the namespace, ssh's files."""

from checks import check, known, say
from checks.needs import CONTAINER, HOST, HOSTFILE, NODES
from rig.finding import Finding
from rig.host import SshFile
from rig.lean import Any, Iterator
from rig.machine import NetDev
from rig.ranks import visible
from rig.snapshot import Snapshot

ALONE = ("localhost", "127.0.0.1", "::1", "localhost.localdomain")
NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@"  # USER@HOST is for ssh
BRIDGES = ("docker", "br-", "virbr", "cni", "lxc", "podman")  # beginnings of a host's own bridges
SLOW_MBPS = 10_000


def _told(now: Snapshot, name: str) -> Any:
    """A line of the plan's ranks; None where it is not there."""
    return next((line.value for line in now.plan.ranks if line.name == name), None)


def _here(now: Snapshot) -> tuple[str, int] | None:
    """This node's line of the hostfile; None where the plan does not know which it is."""
    index = _told(now, "node_rank")
    return now.plan.hostfile[index] if index is not None and index < len(now.plan.hostfile) else None


@check(at="quick", needs=(HOSTFILE,), domain="user", fix="Write each line as `NAME slots=N`, the name as ssh takes it")
def hostfile_names_are_host_names(now: Snapshot) -> Iterator[Finding]:
    """Every line of the hostfile names a machine that others can reach by that name.

    With several nodes `localhost` is another machine on each of them: a failure where they meet there, else a warning,
    because DeepSpeed's launcher can start such a list from that node. Other characters than a name's are refused by ssh
    or read as an option.

    Symptom: DeepSpeed's `Hostfile contains a bad entry`; ssh: `Could not resolve hostname`; ranks that wait for ever.
    Source: deepspeed/launcher/runner.py; deepspeedai/DeepSpeed#2612, deepspeedai/DeepSpeed#3669.
    """
    several = len(now.plan.hostfile) > 1
    for name, _ in now.plan.hostfile:
        if not name or name.strip(NAME_CHARACTERS) or name[0] == "-":
            yield say(f"{name!r} is no host name", name)
        elif several and name in ALONE:
            text = f"{name} is another machine on each of {len(now.plan.hostfile)} nodes"
            yield say(text, name, outcome="fail" if _told(now, "master_addr") in ALONE else "warn")


@check(at="quick", needs=(HOSTFILE,), domain="user", fix="Name each machine once, with all its slots")
def hostfile_names_each_node_once(now: Snapshot) -> Iterator[Finding]:
    """No machine stands twice in the hostfile, not under its short and its full name either.

    DeepSpeed refuses a repeated name; two names of one machine start twice as many ranks there as it has GPUs.

    Symptom: `host X is already defined`; `Duplicate GPU detected` from NCCL.
    Source: deepspeed/launcher/runner.py, _parse_hostfile.
    """
    names: list[str] = []
    for name, _ in now.plan.hostfile:
        other = next((one for one in names if _same(one, name)), None)
        if other is not None:
            yield say(f"{name} stands twice" if other == name else f"{other} and {name} are one machine", name)
        names.append(name)


def _same(one: str, other: str) -> bool:
    """Whether two names are equal, or one is the other without its domain. Addresses have none."""
    short, full = sorted((one.lower(), other.lower()), key=len)
    return short == full or ("." not in short and full.startswith(short + "."))


@check(
    at="quick",
    needs=(HOSTFILE,),
    domain="user",
    fix="Give each node as many slots as it has GPUs",
    covers=("slots-beyond-gpus",),
)
def hostfile_slots_equal_gpus(now: Snapshot) -> Iterator[Finding]:
    """This node's slots are its GPUs.

    More slots than GPUs end in `invalid device ordinal`; fewer leave paid GPUs idle, which may be meant: a warning.

    Symptom: `CUDA error: invalid device ordinal`; one GPU of eight without load.
    Source: deepspeed/launcher/runner.py (slots become CUDA_VISIBLE_DEVICES of each rank).
    """
    here = _here(now)
    gpus = visible(len(now.machine.gpus), now.environ.get("CUDA_VISIBLE_DEVICES"))
    if here is None or not gpus or here[1] == gpus:
        return
    text = f"{here[0]} has {here[1]} slots and {gpus} GPUs"
    yield say(text, here[0], gpus, here[1], outcome="fail" if here[1] > gpus else "warn")


@check(
    at="quick",
    needs=(HOSTFILE, NODES),
    domain="user",
    severity="warn",
    fix="Use as many GPUs on each node, or leave the smaller node out",
)
def hostfile_slots_are_equal(now: Snapshot) -> Iterator[Finding]:
    """All nodes have as many slots.

    NCCL and DeepSpeed work with unequal nodes, but each step waits for the rails of the smallest, and NCCL's rail
    order does not fit any more.

    Symptom: all-reduce between nodes at half of its rate after one node was added.
    Source: NCCL documentation, NCCL_CROSS_NIC; deepspeed/launcher/runner.py.
    """
    counts = sorted({slots for _, slots in now.plan.hostfile})
    if len(counts) > 1:
        yield say(f"nodes have {', '.join(map(str, counts))} slots", "slots", counts[-1], counts[0])


@check(
    at="quick",
    needs=(NODES,),
    domain="user",
    fix="Set RIG_NODE_RANK on each node, or name this one in the hostfile as `hostname` prints it",
    covers=("node-unknown",),
)
def this_node_has_a_place_in_the_job(now: Snapshot) -> Iterator[Finding]:
    """The job knows which of its nodes this is.

    The launcher of an MPI job is none of them, and that is right.

    Symptom: nothing starts here, and all others wait 30 minutes at the rendezvous.
    Source: the plan's node rank.
    """
    if _told(now, "node_rank") is None and any(one.id == "node-unknown" for one in now.plan.findings):
        names = ", ".join(name for name, _ in now.plan.hostfile[:8])
        here = now.machine.surroundings.hostname or "this node"
        yield say(f"{here} is none of the job's nodes{f': {names}' if names else ''}", here)


def socket_interfaces(now: Snapshot) -> tuple[list[NetDev], str]:
    """The interfaces of which NCCL takes the first to meet the other nodes, and who chose. NCCL_SOCKET_IFNAME is a
    list of prefixes, `=` before exact names, `^` before those left out; without it `ib*` come first, `docker*` and `lo`
    last. Source: NCCL documentation, NCCL_SOCKET_IFNAME; findInterfaces() in src/misc/socket.cc."""
    lines = (*now.plan.environment, *now.plan.nccl)
    own = now.environ.get("NCCL_SOCKET_IFNAME")
    planned = next((str(line.value) for line in lines if line.name == "NCCL_SOCKET_IFNAME"), None)
    able = [dev for dev in now.machine.netdevs if dev.up is not False and (dev.ipv4 or dev.ipv6)]
    value = own or planned
    if value:
        names = value.lstrip("^=").split(",")
        exact = "=" in value[:2]
        hit = [dev for dev in able if (dev.name in names if exact else dev.name.startswith(tuple(names)))]
        chosen = [dev for dev in able if dev not in hit] if value[0] == "^" else hit
        return chosen, f"NCCL_SOCKET_IFNAME={value}"
    last = [dev for dev in able if dev.kind == "loopback" or dev.name.startswith("docker")]
    first = [dev for dev in able if dev not in last]
    first.sort(key=lambda dev: not dev.name.startswith("ib"))
    return [*first, *sorted(last, key=lambda dev: dev.kind == "loopback")], "NCCL"


@check(
    at="quick",
    needs=(NODES,),
    domain="user",
    fix="Set NCCL_SOCKET_IFNAME to the interface with the route to the other nodes (ip route get NODE)",
    covers=("SOCKET_IF_LOOPBACK", "SOCKET_IF_LO_GLOBAL", "SOCKET_IF_NOT_FOUND"),
)
def nccl_meets_on_a_real_interface(now: Snapshot) -> Iterator[Finding]:
    """The interface on which NCCL meets the other nodes leads to them: neither loopback nor a bridge of this host.

    NCCL tells the others the address of the first interface that it may take; 127.0.0.1 and docker0's 172.17.0.1
    are at each of them another machine.

    Symptom: init hangs, then `Connection refused` or a timeout after 30 minutes.
    Source: NCCL documentation, NCCL_SOCKET_IFNAME; findInterfaces() in src/misc/socket.cc.
    """
    if not now.machine.netdevs:
        known(None, "the network interfaces")
    chosen, who = socket_interfaces(now)
    if not chosen:
        yield say(f"{who} matches no interface that has an address", "NCCL_SOCKET_IFNAME")
    elif chosen[0].kind == "loopback":
        yield say(f"{who} takes {chosen[0].name}: other nodes cannot reach it", chosen[0].name)
    elif chosen[0].name.startswith(BRIDGES) and not chosen[0].default_route:
        yield say(f"{who} takes {chosen[0].name}, a bridge inside this host", chosen[0].name)


@check(
    at="quick",
    needs=(NODES,),
    domain="platform",
    severity="warn",
    fix="Rent nodes with a faster network or RDMA; else raise gradient_accumulation_steps, so that nodes talk less",
)
def sockets_are_fast_enough(now: Snapshot) -> Iterator[Finding]:
    """Without RDMA, the interface between the nodes runs at 10 Gb/s or more.

    All gradients pass through it in every step: 1 Gb/s is 0.1 GB/s, for which a GPU waits seconds at each step even of
    a small model.

    Symptom: two nodes are slower than one.
    Source: /sys/class/net/INTERFACE/speed.
    """
    rdma = any(port.state == "ACTIVE" for hca in now.machine.hcas for port in hca.ports)
    chosen, _ = socket_interfaces(now)
    if rdma or not chosen or chosen[0].kind == "loopback":
        return
    rate = known(chosen[0].speed_mbps, f"the rate of {chosen[0].name}")
    if rate < SLOW_MBPS:
        text = f"nodes talk over {chosen[0].name} at {rate / 1000:g} Gb/s, and there is no RDMA"
        yield say(text, chosen[0].name, SLOW_MBPS, rate)


@check(
    at="quick",
    needs=(HOST, NODES, CONTAINER),
    domain="user",
    severity="warn",
    fix="docker run --network host (or a network that spans the nodes: macvlan, overlay)",
)
def network_spans_the_nodes(now: Snapshot) -> Iterator[Finding]:
    """A container of a job with several nodes is in a network that the others reach.

    Docker's own bridge hides it behind the host's address: others can connect to published ports only, and NCCL takes
    any port. Pods have a network of their own that spans nodes; so have containers with an interface of a card.

    Symptom: rank 0 waits, the others get `Connection refused` or `No route to host`.
    Source: /proc/sys/net of this network namespace; interfaces in /sys/class/net.
    """
    if now.machine.surroundings.container not in ("docker", "podman"):
        return
    if known(now.host and now.host.shared_network, "whose network namespace this is"):
        return
    ways = [dev for dev in now.machine.netdevs if dev.kind != "loopback" and dev.up is not False]
    if all(dev.kind in ("veth", "virtual") for dev in ways):
        names = ", ".join(dev.name for dev in ways) or "no interface"
        yield say(f"the container has a network of its own ({names})", names, "host", "bridge")


@check(
    at="quick",
    needs=(HOST, NODES),
    domain="user",
    fix="chmod 700 ~/.ssh; chmod 600 ~/.ssh/id_* ~/.ssh/authorized_keys; chmod go-w ~",
)
def ssh_accepts_its_files(now: Snapshot) -> Iterator[Finding]:
    """ssh's keys and folders have the permissions that ssh demands.

    A private key that others may read is not used; authorized_keys, .ssh and the home folder that others may write
    make sshd refuse every key. Files that are mounted from a secret are often both. Without .ssh nothing is said: the
    launcher may need none.

    Symptom: `UNPROTECTED PRIVATE KEY FILE!`, `Permission denied (publickey)` with the right key.
    Source: ssh(1), sshd(8) StrictModes; deepspeedai/DeepSpeed#4907, deepspeedai/DeepSpeed#6875.
    """
    uid = known(now.machine.surroundings.uid, "the UID")
    for file in known(now.host and now.host.ssh_files, "the files of ssh"):
        wrong = _refused(file, uid)
        if wrong:
            yield say(f"{file.path} (mode {file.mode:o}) {wrong}", file.path, got=f"{file.mode:o}")


def _refused(file: SshFile, uid: int) -> str | None:
    if file.kind == "key":
        # ssh looks at the mode of its own user's files only (sshkey_perm_ok in authfile.c)
        return "can be read by others: ssh does not use it" if file.owner == uid and file.mode & 0o077 else None
    if file.owner not in (0, uid):
        return f"belongs to user {file.owner}: sshd refuses the keys"
    return "can be written by others: sshd refuses the keys" if file.mode & 0o022 else None
