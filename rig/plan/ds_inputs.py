"""What the DeepSpeed plan is made from: facts of nodes, links, GPUs and model. Everything unknown is None."""

from rig.lean import NamedTuple
from rig.machine import UNLIMITED, Gpu, Machine
from rig.plan.ds_link import Links
from rig.plan.ds_model import Model
from rig.plan.ds_rates import CPU_FLOPS, sustained_flops
from rig.plan.ds_versions import PINNED, Version

NVLINK_LINK_BYTES = 25e9  # a link of NVLink 2-4, each way (NVIDIA data sheets)
NVLINK_EFFICIENCY = 0.75  # ring bus bandwidth against the sum of links: 235 of 300 GB/s on A100 (nccl-tests)
PCIE_GEN4_P2P_BYTES = 20e9  # ring over PCIe gen 4 x16 with peer access; without it the assumed 10 GB/s of ds_link


class DsInputs(NamedTuple):
    """Inputs of plan_deepspeed.

    `links` describes the network, `gpu_memory_bytes` and `flops` one GPU (sustained FLOP/s), `dtype_bytes` the training
    dtype. `tokens` are tokens a GPU processes in one micro step, `gas` gradient accumulation steps. `stage` is the ZeRO
    stage the user asked for. `bf16`: every GPU computes in bf16 (capability 8.0 or more); `fused_adam`: the compiled op
    is in the image; `hf_trainer`: Hugging Face resolves "auto" and sets batch and precision.
    """

    links: Links = Links()
    model: Model = Model()
    gpu_memory_bytes: int | None = None
    flops: float | None = None
    dtype_bytes: int = 2
    tokens: int | None = None
    gas: int = 1
    recompute: bool = True
    stage: int | None = None
    accelerator: str = "cuda"  # or "cpu"
    bf16: bool | None = None
    fused_adam: bool | None = None
    hf_trainer: bool = False
    version: Version = PINNED

    @property
    def ranks(self) -> int:
        return max(1, self.links.nodes * self.links.gpus_per_node)


class Link(NamedTuple):
    """The training network of a node: each NIC's rate, how many, and how NCCL uses them. `measured_bytes` (bytes/s, all
    NICs of the node) and `measured_alpha_s` come from a sweep."""

    gbps: float | None = None
    nics: int = 1
    transport: str = "tcp"
    measured_bytes: float | None = None
    measured_alpha_s: float | None = None


def inputs_of(
    machine: Machine,
    *,
    nodes: int = 1,
    gpus_per_node: int | None = None,
    link: Link | None = None,
    model: Model | None = None,
    tokens: int | None = None,
    stage: int | None = None,
    fused_adam: bool | None = None,
    hf_trainer: bool = False,
    version: Version = PINNED,
) -> DsInputs:
    """The inputs for this machine as one of `nodes` equal ones.

    Without `link` the rate is that of the active ports (RDMA), else of the interface of the default route. Without GPUs
    the accelerator is "cpu": fp32 over gloo, `gpus_per_node` ranks (1 where unknown).
    """
    slots = gpus_per_node or len(machine.gpus) or 1
    found = link or link_of(machine)
    cpu = not machine.gpus
    links = Links(
        nodes=max(1, nodes),
        gpus_per_node=slots,
        nic_gbps=found.gbps,
        nics=max(1, found.nics),
        transport="tcp" if cpu else found.transport,
        intra_bytes=None if cpu else intra_bytes(machine.gpus),
        nvlink=any(gpu.nvlinks for gpu in machine.gpus),
        gloo=cpu,
        measured_bytes=found.measured_bytes,
        measured_alpha_s=found.measured_alpha_s,
    )
    sizes = [gpu.memory_bytes for gpu in machine.gpus if gpu.memory_bytes]
    rates = [rate for model in {gpu.model for gpu in machine.gpus} if (rate := sustained_flops(model)) is not None]
    return DsInputs(
        links=links,
        model=model or Model(),
        gpu_memory_bytes=_cpu_memory(machine, slots) if cpu else min(sizes, default=None),
        flops=CPU_FLOPS if cpu else min(rates, default=None),
        dtype_bytes=4 if cpu else 2,
        tokens=tokens,
        stage=stage,
        accelerator="cpu" if cpu else "cuda",
        bf16=False if cpu else bf16_everywhere(machine.gpus),
        fused_adam=False if cpu else fused_adam,
        hf_trainer=hf_trainer,
        version=version,
    )


def link_of(machine: Machine) -> Link:
    """The network that NCCL will find: active RDMA ports, the slowest rate for all; else the default route's."""
    rates = [
        port.rate_gbps
        for hca in machine.hcas
        if hca.opens is not False
        for port in hca.ports
        if port.state == "ACTIVE" and port.rate_gbps
    ]
    if rates:
        return Link(min(rates), len(rates), "rdma")
    routed = [dev for dev in machine.netdevs if dev.default_route and dev.speed_mbps and dev.speed_mbps > 0]
    physical = [dev for dev in machine.netdevs if dev.kind in ("physical", "bond") and dev.up and dev.speed_mbps]
    for dev in routed or physical[:1]:
        return Link((dev.speed_mbps or 0) / 1000, 1, "tcp")
    return Link()


def intra_bytes(gpus: tuple[Gpu, ...]) -> float | None:
    """Bytes/s of a ring inside the node; None (an assumption is used) where neither NVLink nor peer access is known."""
    if len(gpus) < 2:
        return None
    links = [gpu.nvlinks for gpu in gpus]
    if all(links):
        return min(count for count in links if count) * NVLINK_LINK_BYTES * NVLINK_EFFICIENCY
    return PCIE_GEN4_P2P_BYTES if all(gpu.p2p for gpu in gpus) else None


def bf16_everywhere(gpus: tuple[Gpu, ...]) -> bool | None:
    """Whether all GPUs compute in bf16: capability 8.0 (Ampere) or more. None where one is unknown, none older."""
    known = [gpu.capability for gpu in gpus]
    if any(capability is not None and capability < (8, 0) for capability in known):
        return False
    return None if None in known or not known else True


def _cpu_memory(machine: Machine, ranks: int) -> int | None:
    limit = machine.limits.memory_bytes
    if limit is None or limit == UNLIMITED:
        limit = sum(node.memory_bytes or 0 for node in machine.numa) or None
    return None if limit is None else limit // ranks
