"""Fixtures of the family network."""

from rig.finding import Finding
from rig.host import SshFile
from rig.machine import NetDev
from rig.plan import Setting
from rig.snapshot import Snapshot
from tests.checks.snapshots import h100, no_gpu, roce, rtx4090
from tests.checks.twin import Twin, changed

LO = NetDev("lo", "loopback", True, ipv4=("127.0.0.1/8",))
DOCKER0 = NetDev("docker0", "bridge", True, ipv4=("172.17.0.1/16",))
ETH0 = NetDev("eth0", "physical", True, 25_000, 9000, ("192.0.2.9/24",), default_route=True)
VETH = NetDev("eth0", "veth", True, 10_000, 1500, ("172.17.0.2/16",), default_route=True)
KEY = "/root/.ssh/id_ed25519"


def several(now: Snapshot, *devs: NetDev, rank: int | None = 0, **environ: str) -> Snapshot:
    """A job of two nodes, with these interfaces and without RDMA, where NCCL is told nothing but `environ`."""
    ranks = tuple(line for line in now.plan.ranks if line.name not in ("slots", "node_rank"))
    ranks = (*ranks, Setting("slots", (8, 8), "environment", ""), Setting("node_rank", rank, "environment", ""))
    now = changed(now, plan__ranks=ranks, plan__nccl=(), machine__hcas=(), environ={**now.environ, **environ})
    return changed(now, machine__netdevs=(LO, *devs), plan__hostfile=(("a", 8), ("b", 8)))  # type: ignore[no-any-return]


def hosts(*lines: tuple[str, int]) -> Snapshot:
    """The four-node job of h100, with another hostfile."""
    return changed(h100(), plan__hostfile=lines)  # type: ignore[no-any-return]


def in_docker(now: Snapshot) -> Snapshot:
    return changed(now, machine__surroundings__container="docker", host__shared_network=False)  # type: ignore[no-any-return]


UNKNOWN_NODE = Finding("node-unknown", "fail", "user", "x is none of the 2 nodes")

TWINS = (
    Twin(
        "hostfile_names_are_host_names",
        changed(
            hosts(("localhost", 8), ("node-2", 8)), plan__ranks=(Setting("master_addr", "localhost", "default", ""),)
        ),
        h100(),
        says="localhost is another machine on each of 2 nodes",
        fix="slots=N",
        domain="user",
        reported=("deepspeedai/DeepSpeed#2612",),
    ),
    Twin(
        "hostfile_names_are_host_names",
        hosts(("localhost", 8), ("node-2", 8)),
        hosts(("ada@node-1", 8), ("node_2.cluster.test", 8)),
        says="localhost is another machine",
        fix="slots=N",
        domain="user",
        outcome="warn",
    ),
    Twin(  # alone, localhost is right; so are addresses
        "hostfile_names_are_host_names",
        hosts(("-oProxyCommand=x", 8), ("node-2", 8)),
        hosts(("localhost", 8)),
        says="is no host name",
        fix="slots=N",
        domain="user",
    ),
    Twin(
        "hostfile_names_are_host_names",
        hosts(("node 1", 8)),
        hosts(("192.0.2.1", 8), ("2001:db8::1", 8)),
        says="'node 1' is no host name",
        fix="slots=N",
        domain="user",
    ),
    Twin(
        "hostfile_names_each_node_once",
        hosts(("node-1", 4), ("node-2", 8), ("node-1", 4)),
        h100(),
        says="node-1 stands twice",
        fix="once",
        domain="user",
    ),
    Twin(  # two racks may use one short name
        "hostfile_names_each_node_once",
        hosts(("node-1", 8), ("Node-1.cluster.test", 8)),
        hosts(("a.rack1", 8), ("a.rack2", 8), ("192.0.2.1", 8), ("192.0.2.10", 8)),
        says="node-1 and Node-1.cluster.test are one machine",
        fix="once",
        domain="user",
    ),
    Twin(
        "hostfile_slots_equal_gpus",
        hosts(("node-1", 16), ("node-2", 16)),
        h100(),
        says="node-1 has 16 slots and 8 GPUs",
        fix="as many slots",
        domain="user",
    ),
    Twin(  # CUDA_VISIBLE_DEVICES was set on purpose
        "hostfile_slots_equal_gpus",
        hosts(("node-1", 4), ("node-2", 4)),
        changed(hosts(("node-1", 4), ("node-2", 4)), environ__CUDA_VISIBLE_DEVICES="0,1,2,3"),
        says="4 slots and 8 GPUs",
        fix="as many slots",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "hostfile_slots_are_equal",
        hosts(("node-1", 8), ("node-2", 8), ("node-3", 4)),
        h100(),
        says="nodes have 4, 8 slots",
        fix="leave the smaller node out",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "this_node_has_a_place_in_the_job",
        changed(several(h100(), ETH0, rank=None), plan__findings=(UNKNOWN_NODE,)),
        h100(),
        says="node-1 is none of the job's nodes: a, b",
        fix="RIG_NODE_RANK",
        domain="user",
    ),
    Twin(  # the launcher of an MPI job is no node
        "this_node_has_a_place_in_the_job",
        changed(several(no_gpu(), ETH0, rank=None), plan__findings=(UNKNOWN_NODE,)),
        several(no_gpu(), ETH0, rank=None),
        says="none of the job's nodes",
        fix="hostname",
        domain="user",
    ),
    Twin(
        "nccl_meets_on_a_real_interface",
        several(rtx4090(), ETH0, NCCL_SOCKET_IFNAME="lo"),
        several(rtx4090(), DOCKER0, ETH0),
        says="takes lo: other nodes cannot reach it",
        fix="NCCL_SOCKET_IFNAME",
        domain="user",
    ),
    Twin(
        "nccl_meets_on_a_real_interface",
        several(rtx4090(), DOCKER0, ETH0, NCCL_SOCKET_IFNAME="^eth,lo"),
        several(rtx4090(), DOCKER0, ETH0, NCCL_SOCKET_IFNAME="^docker,lo"),
        says="docker0, a bridge inside this host",
        fix="NCCL_SOCKET_IFNAME",
        domain="user",
    ),
    Twin(
        "nccl_meets_on_a_real_interface",
        several(rtx4090(), ETH0, NCCL_SOCKET_IFNAME="=ens5"),
        several(rtx4090(), ETH0, NCCL_SOCKET_IFNAME="=eth0"),
        says="NCCL_SOCKET_IFNAME==ens5 matches no interface",
        fix="ip route get",
        domain="user",
    ),
    Twin(
        "sockets_are_fast_enough",
        several(rtx4090(), ETH0._replace(speed_mbps=1000)),
        several(rtx4090(), ETH0),
        says="eth0 at 1 Gb/s, and there is no RDMA",
        fix="RDMA",
        domain="platform",
        outcome="warn",
    ),
    Twin(  # with RDMA a slow front-end interface only carries the bootstrap
        "sockets_are_fast_enough",
        several(no_gpu(), ETH0._replace(speed_mbps=100)),
        changed(roce(), machine__netdevs__1__speed_mbps=1000),
        says="0.1 Gb/s",
        fix="gradient_accumulation_steps",
        domain="platform",
        outcome="warn",
    ),
    Twin(
        "network_spans_the_nodes",
        in_docker(several(rtx4090(), VETH)),
        changed(in_docker(several(rtx4090(), VETH)), host__shared_network=True),
        says="a network of its own (eth0)",
        fix="--network host",
        domain="user",
        outcome="warn",
    ),
    Twin(  # an interface of a card inside the container, and pods, span nodes
        "network_spans_the_nodes",
        in_docker(several(rtx4090(), VETH)),
        changed(in_docker(several(rtx4090(), VETH)), machine__surroundings__container="kubernetes"),
        says="eth0",
        fix="--network host",
        domain="user",
        outcome="warn",
    ),
    Twin(
        "ssh_accepts_its_files",
        changed(h100(), host__ssh_files=(SshFile(KEY, "key", 0o644, 0),)),
        h100(),
        says="id_ed25519 (mode 644) can be read by others",
        fix="chmod 600",
        domain="user",
        reported=("deepspeedai/DeepSpeed#4907", "deepspeedai/DeepSpeed#6875", "deepspeedai/DeepSpeed#579"),
    ),
    Twin(  # ssh does not mind a key of somebody else, which its user may read anyhow
        "ssh_accepts_its_files",
        changed(h100(), host__ssh_files=(SshFile("/root", "home", 0o777, 0),)),
        changed(h100(), host__ssh_files=(SshFile(KEY, "key", 0o640, 1000), SshFile("/root", "home", 0o755, 0))),
        says="/root (mode 777) can be written by others",
        fix="chmod go-w",
        domain="user",
    ),
    Twin(
        "ssh_accepts_its_files",
        changed(h100(), host__ssh_files=(SshFile("/root/.ssh/authorized_keys", "authorized", 0o600, 1000),)),
        changed(h100(), host__ssh_files=()),
        says="belongs to user 1000",
        fix="authorized_keys",
        domain="user",
    ),
)
