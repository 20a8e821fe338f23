"""The network of a launch: where rank 0 listens, which interface, packet size, shared memory."""

from rig.judge.ruling import Edit, Ruling
from rig.judge.site import site_of
from rig.lean import Any, Iterator, Mapping
from rig.plan.nccl_local import SHM_DEEPSPEED
from rig.subnet import is_link_local

Facts = Mapping[str, Any]
VIRTUAL = ("docker", "br-", "veth", "virbr", "lo", "cni", "flannel", "cali", "tun", "tap", "podman", "kube", "nerdctl")
# Addresses that no other node can reach, beside link-local ones: loopback, Docker's default bridges.
HERE_ONLY = ("127.", "172.17.", "172.18.", "172.19.", "::1")


def here_only(address: str) -> bool:
    return address.startswith(HERE_ONLY) or is_link_local(address)


def master_address(given: Facts, world: Facts) -> Iterator[Ruling]:
    """0.12.6 takes the first word of `hostname -I`, which is often a container bridge."""
    told, known = given.get("hostname_I"), given.get("platform_ip")
    if not isinstance(told, str) or not told.split():
        return
    first = told.split()[0]
    best = known if isinstance(known, str) else next((ip for ip in told.split() if not here_only(ip)), None)
    if best is None:
        text = f"no address in '{told[:60]}' can be reached from another node"
        yield Ruling("reject", "master-addr", text, "--master_addr", "Give --master_addr")
    elif best != first:
        text = f"the launcher would take {first} as master address; other nodes reach {best}"
        yield Ruling("fix", "master-addr", text, "--master_addr", "", (Edit(("args",), ["--master_addr", best]),))


def interface(given: Facts, world: Facts) -> Iterator[Ruling]:
    """NCCL tries every interface, bridges and veths too. Names are node-local: they must not be copied to others."""
    listed = [str(item).partition(":")[0] for item in given.get("interfaces") or ()]
    if not listed:
        return
    real = [name for name in listed if not name.startswith(VIRTUAL)]
    routed = given.get("route_to_peer")
    chosen = routed if isinstance(routed, str) else real[0] if len(real) == 1 else None
    if given.get("launcher") == "openmpi":
        yield from _eth0(listed, chosen)
        return
    if chosen is None:
        if len(real) != len(listed):
            text = f"{len(listed)} interfaces, and it is not known which of them reaches the other nodes"
            yield Ruling("warn", "iface", text, "NCCL_SOCKET_IFNAME", "Set NCCL_SOCKET_IFNAME on each node")
        return
    if len(listed) == 1:
        return
    others = ", ".join(name for name in listed if name != chosen)
    text = f"{chosen} reaches the other nodes, {others[:60]} may not: set on each node, not copied from the first"
    edits = (
        Edit(("env", "NCCL_SOCKET_IFNAME"), f"={chosen}"),
        Edit(("env", "GLOO_SOCKET_IFNAME"), chosen),
        Edit(("per_node",), True),
    )
    yield Ruling("fix", "iface", text, "NCCL_SOCKET_IFNAME", "", edits)


def _eth0(listed: list[str], chosen: str | None) -> Iterator[Ruling]:
    """DeepSpeed's openmpi launcher hard-codes `btl_tcp_if_include eth0` and UCX_TLS=tcp."""
    if chosen == "eth0" or (chosen is None and "eth0" in listed):
        return
    text = f"the openmpi launcher insists on eth0; the network is on {chosen or ', '.join(listed[:4])}"
    yield Ruling("reject", "openmpi-eth0", text, "--launcher", "Use pdsh or torchrun, or call mpirun yourself")


def openmpi_filters(given: Facts, world: Facts) -> Iterator[Ruling]:
    """The openmpi launcher refuses --include and --exclude."""
    args = given.get("args")
    named = [str(word) for word in args] if isinstance(args, (list, tuple)) else []
    if given.get("launcher") == "openmpi" and {"--include", "--exclude", "-i", "-e"} & set(named):
        text = "the openmpi launcher refuses --include and --exclude, and sends over eth0 only"
        yield Ruling("reject", "openmpi-eth0", text, "--include", "Write the hostfile that you want, or use pdsh")


def mtu(given: Facts, world: Facts) -> Iterator[Ruling]:
    """Packets larger than the path takes: small messages pass, large ones hang."""
    told = given.get("mtu")
    sizes = (
        {str(place): size for place, size in told.items() if isinstance(size, int)} if isinstance(told, Mapping) else {}
    )
    if len(sizes) < 2:
        return
    inside, outside = sizes.get("container"), sizes.get("host")
    if inside is not None and outside is not None:
        if inside > outside:
            text = f"container MTU {inside} > host {outside}: large messages can hang"
            yield Ruling("warn", "mtu", text, "mtu", f"Create the container's network with MTU {outside}")
    elif len(set(sizes.values())) > 1:
        said = ", ".join(f"{place} {size}" for place, size in sizes.items())
        text = f"MTU differs: {said}: large messages can hang"
        yield Ruling("warn", "mtu", text, "mtu", f"Set {min(sizes.values())} everywhere")


def shared_memory(given: Facts, world: Facts) -> Iterator[Ruling]:
    """NCCL's own transport inside a node and data loaders need /dev/shm; Docker gives 64 MB."""
    size = given.get("dev_shm_bytes")
    if not isinstance(size, int) or isinstance(size, bool) or size >= SHM_DEEPSPEED:
        return
    text = f"/dev/shm is {size >> 20} MB; run with --shm-size=1g or --ipc=host"
    verdict = "reject" if site_of(world).gpus_per_node > 1 else "warn"
    yield Ruling(verdict, "shm", text, "/dev/shm", "docker run --shm-size=1g, or --ipc=host")


RULES = (master_address, interface, openmpi_filters, mtu, shared_memory)
