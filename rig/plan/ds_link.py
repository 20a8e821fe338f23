"""What a collective costs on this link: t = alpha + S * beta for S bytes over N nodes x g GPUs.

A ring crosses each node's border once a channel, so all NICs of a node share the load: the node's bandwidth counts, not
that of one GPU's NIC. Latencies are NCCL 2.18's own model for rings, Simple protocol (src/graph/tuning.cc): the
all-gather and reduce-scatter of ZeRO know no other algorithm there.
"""

from rig.lean import NamedTuple

# Share of the nominal rate that reaches the payload. Assumptions until measured (docs/decisions).
RDMA_EFFICIENCY = 0.8
TCP_EFFICIENCY = 0.85  # up to TCP_FAST_GBPS
TCP_FAST_EFFICIENCY = 0.7  # above: NCCL's socket threads become the limit
TCP_FAST_GBPS = 25.0
ASSUMED_GBPS = 25.0  # a link of which nothing is known
ASSUMED_INTRA = 10e9  # GPUs without NVLink, through host memory

BASE_S = 8.4e-6
HOP_NVLINK_S, HOP_PCIE_S, HOP_NODE_S = 3.4e-6, 5.7e-6, 14e-6
RDMA_LATENCY_S, TCP_LATENCY_S = 3e-6, 30e-6
HOST_S = 30e-6  # DeepSpeed's own cost for one collective
GLOO_HOP_S = 3e-3  # gloo on two cores: 1.1 ms measured for 2 ranks, 8.9 ms for 4


class Links(NamedTuple):
    """The links of a job. Rates in Gbit/s for NICs (nominal, each), bytes/s inside a node; None is unknown.

    `measured_bytes` and `measured_alpha_s` come from a sweep of collectives back to back and replace the nominal ones.
    """

    nodes: int = 1
    gpus_per_node: int = 1
    nic_gbps: float | None = None
    nics: int = 1
    transport: str = "tcp"  # "rdma" or "tcp"
    intra_bytes: float | None = None
    nvlink: bool = False
    gloo: bool = False
    latency_s: float | None = None
    measured_bytes: float | None = None
    measured_alpha_s: float | None = None


class Cost(NamedTuple):
    """`alpha_s` a message, `beta` seconds a byte of the full tensor (all-gather, reduce-scatter), `bandwidth` bytes/s
    of the narrowest part, `half_bytes` the message that reaches half of it. `origin`: where the bandwidth is from."""

    alpha_s: float
    beta: float
    bandwidth: float
    half_bytes: float
    origin: str


def cost(links: Links) -> Cost:
    """Alpha, beta and half-bandwidth size of one ring all-gather or reduce-scatter of DeepSpeed."""
    ranks = max(1, links.nodes * links.gpus_per_node)
    bandwidth, origin = _bandwidth(links)
    alpha = usable(links.measured_alpha_s) or _alpha(links)
    share = (ranks - 1) / ranks
    return Cost(alpha, share / bandwidth, bandwidth, alpha * bandwidth, origin)


def usable(figure: float | None) -> float | None:
    """A measured or given figure, None unless it is between 1e-18 and 1e18: garbage must not reach a setting."""
    return figure if figure is not None and 1e-18 < figure < 1e18 else None


def node_bandwidth(links: Links) -> tuple[float, str]:
    """Bytes/s in and out of one node over all its NICs by their nominal rate, and where the figure is from."""
    rate = usable(links.nic_gbps) or ASSUMED_GBPS
    known = "nominal" if usable(links.nic_gbps) else "assumed"
    if links.transport == "rdma":
        share = RDMA_EFFICIENCY
    else:
        share = TCP_EFFICIENCY if rate <= TCP_FAST_GBPS else TCP_FAST_EFFICIENCY
    total = rate * max(1, links.nics) * share / 8 * 1e9
    return total, f"{known} {rate:g} Gbps x {max(1, links.nics)} {links.transport}, {share:.0%} of it"


def _bandwidth(links: Links) -> tuple[float, str]:
    if (measured := usable(links.measured_bytes)) is not None:
        return measured, "measured"
    inside = usable(links.intra_bytes) or ASSUMED_INTRA
    if links.nodes <= 1:
        return inside, "inside the node"
    across, origin = node_bandwidth(links)
    return (across, origin) if across <= inside else (inside, "inside the node, narrower than the NICs")


def _alpha(links: Links) -> float:
    nodes, ranks = max(1, links.nodes), max(1, links.nodes * links.gpus_per_node)
    if links.gloo:
        return GLOO_HOP_S * max(1, ranks - 1)
    latency = usable(links.latency_s)
    if latency is None:
        latency = RDMA_LATENCY_S if links.transport == "rdma" else TCP_LATENCY_S
    hop = HOP_NVLINK_S if links.nvlink else HOP_PCIE_S
    return BASE_S + (ranks - nodes) * hop + (nodes - 1) * (HOP_NODE_S + 2 * latency) + HOST_S
