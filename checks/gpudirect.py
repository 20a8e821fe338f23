"""GPUDirect RDMA: whether HCAs reach GPU memory, by which way, and whether they really do."""

from checks import CannotTell, Need, check, known, say
from checks.measured import all_ranks, port_rows
from checks.needs import BARE_METAL, DIRECT, GDR_LOOP, GPUS, HOST, PERFTEST, SOLD_DIRECT, TORCH
from checks.rails import rails
from rig.finding import Finding
from rig.lean import Any, Iterator, Mapping
from rig.machine import Kernel
from rig.plan.gdr import gpu_supports, is_c2c, peermem_files, peermem_gate, platform_supports
from rig.plan.hca import is_efa
from rig.plan.nccl_facts import listed
from rig.plan.nccl_paths import NEAR, measure_paths, rank
from rig.plan.nccl_vars import PEERMEM_MODULE_FILE, dotted
from rig.snapshot import Snapshot

OPEN_IT = "On the host: open GPU kernel modules (dma-buf), or modprobe nvidia_peermem after the HCA's driver"
CLIENTS = ("nv_mem", "nv_mem_nc", "nvidia-peermem")
SLOWER = 0.8  # of what the same port does from host memory


def dma_buf(kernel: Kernel) -> bool | None:
    """Whether all three sides offer it: the GPU's driver, the HCA's, the kernel. None: not known."""
    gpu = kernel.dmabuf_gpu if kernel.dmabuf_gpu is not None else kernel.open_modules
    gates = (gpu, kernel.dmabuf_nic, kernel.p2pdma)
    return False if False in gates else True if all(gates) else None


def looped(now: Snapshot) -> bool:
    """Whether data in GPU memory went through a rail."""
    probe = now.probes.get("gdr_loopback")
    return probe is not None and probe.state == "ok" and any(row.get("gbps") for row in probe.data.get("ports") or ())


def proven(now: Snapshot) -> bool:
    """Whether GPUDirect was measured: by a loop, or by NCCL, which says so of all its channels."""
    probe = now.probes.get("nccl_network")
    return looped(now) or (probe is not None and probe.state == "ok" and probe.data.get("gdr") is True)


def way(now: Snapshot) -> bool | None:
    """Whether any way to GPU memory is open for this image's NCCL: as measured, else as files promise (EFA's driver
    brings a way that no file shows). None: not known."""
    if proven(now):
        return True
    if all(map(is_efa, now.machine.hcas)):
        return None
    gates = (peermem_gate(now.machine.kernel, now.machine.libraries.nccl_version), dma_buf(now.machine.kernel))
    return True if True in gates else None if None in gates else False


def _hidden(now: Snapshot) -> str | None:
    """Why the way cannot be seen from here at all; None where it can."""
    kernel = now.machine.kernel
    if way(now) is None and all(map(is_efa, now.machine.hcas)):
        return "EFA's driver shows nowhere whether it reaches GPU memory"
    if way(now) is None and kernel.p2pdma is None and dma_buf(kernel._replace(p2pdma=True)):
        return f"dma-buf takes CONFIG_PCI_P2PDMA, and /boot/config-{kernel.release} is not seen here"
    return None


GATES = Need(
    "gdr-gates",
    "what opens GPU memory to HCAs is not seen here (EFA, or a container without /boot); level full measures",
    lambda now: _hidden(now) is None,
)


@check(
    at="boot",
    needs=(SOLD_DIRECT,),
    domain="host",
    fix=OPEN_IT,
    covers=("GDR_OFF", "GDR_NOT_SUPPORTED_GPU", "GDR_NOT_SUPPORTED_PLATFORM", "PEERMEM_NOT_LOADABLE"),
)
def gpudirect_is_possible_where_sold(now: Snapshot) -> Iterator[Finding]:
    """A machine that was sold with GPUDirect RDMA can do it.

    Looked at are the gates in turn: an HCA, a GPU and a platform that can, a way to GPU memory. That they are open
    proves nothing yet: gpudirect_moves_data and nccl_uses_gpudirect measure, and what they saw counts first.

    Symptom: half the sold bandwidth between nodes.
    Source: NCCL transport/net_ib.cc (ncclIbGdrSupport, ncclIbDmaBufSupport).
    """
    machine = now.machine
    if not machine.hcas:
        yield say("GPUDirect RDMA was sold, and there is no RDMA device", "GPUDirect", True, False)
        return
    if not machine.gpus:
        raise CannotTell("no GPU is seen")
    if not platform_supports(machine) or all(gpu_supports(machine, gpu) is False for gpu in machine.gpus):
        who = machine.surroundings.instance if not platform_supports(machine) else machine.gpus[0].model
        text = f"GPUDirect RDMA was sold, and {who} does not support it"
        yield say(text, "GPUDirect", True, False, domain="platform", fix="Return the node: no setting can change that")
        return
    if hidden := _hidden(now):
        raise CannotTell(hidden)
    if not known(way(now), "the ways to GPU memory"):
        yield say("GPUDirect RDMA was sold, and neither peer memory nor dma-buf is there", "GPUDirect", True, False)


@check(at="quick", needs=(DIRECT, GATES), domain="host", severity="warn", fix=OPEN_IT, covers=("GDR_OFF",))
def a_way_to_gpu_memory_is_open(now: Snapshot) -> Iterator[Finding]:
    """HCAs can reach GPU memory: by dma-buf, or by peer memory at a place where this NCCL looks.

    Symptom: no `GDRDMA` in NCCL's log, half the bandwidth, CPU memory busy.
    Source: NCCL transport/net_ib.cc; NVIDIA's GPU operator page on GPUDirect RDMA, which prefers dma-buf.
    """
    if not known(way(now), "the ways to GPU memory"):
        text = "Neither peer memory nor dma-buf is there: data between nodes goes through host memory"
        yield say(text, "GPUDirect", "dma-buf or peer memory", None)


@check(
    at="quick",
    needs=(DIRECT, HOST),
    domain="host",
    severity="warn",
    fix="On the host: load the HCA's driver first, then nvidia_peermem; rebuild it after an OFED upgrade",
    covers=("PEERMEM_NOT_REGISTERED",),
)
def peer_memory_is_registered(now: Snapshot) -> Iterator[Finding]:
    """A loaded nvidia_peermem is registered with the RDMA stack.

    Loaded is not registered: built against a stack without the peer-memory interface, or loaded before it, the module
    does nothing. Registered it shows a client in memory_peers; on kernels that lack this folder it must be tied to
    ib_core at least. Of no interest where dma-buf is open.

    Symptom: `lsmod` shows nvidia_peermem, NCCL says `GPU Direct RDMA Disabled`.
    Source: /sys/kernel/mm/memory_peers, /sys/module/ib_core/holders; NVIDIA/nccl#1537, #1939, #897, #988, #475, #1343.
    """
    kernel, host = now.machine.kernel, now.host
    if not kernel.nvidia_peermem or dma_buf(kernel) or proven(now):
        return
    if any(name in CLIENTS for name in peermem_files(kernel) or ()):
        return
    known(dma_buf(kernel), "whether dma-buf serves in its place")
    users = f" (used {host.peermem_users} times)" if host and host.peermem_users is not None else ""
    if kernel.memory_peers is not None:
        yield say(f"nvidia_peermem is loaded and registered with nobody{users}", "nvidia_peermem", CLIENTS[0], None)
    elif "ib_core" not in known(host.peermem_holders if host else None, "what nvidia_peermem is tied to"):
        yield say(f"nvidia_peermem is loaded, but not tied to ib_core{users}", "nvidia_peermem", "ib_core", None)


@check(
    at="quick",
    needs=(DIRECT,),
    domain="image",
    severity="warn",
    fix=f"NCCL {dotted(PEERMEM_MODULE_FILE)} or newer in the image, or open GPU kernel modules on the host",
    covers=("PEERMEM_PATH_UNKNOWN_TO_NCCL",),
)
def nccl_looks_where_peer_memory_is(now: Snapshot) -> Iterator[Finding]:
    """This image's NCCL finds the host's peer memory.

    From 6.4 on kernels cannot show /sys/kernel/mm/memory_peers, where NCCL up to 2.22 looks; newer ones ask for the
    module itself. Image and host are both right, and do not fit. Of no interest where dma-buf is open.

    Symptom: GPUDirect gone after an update of the host's kernel.
    Source: NCCL transport/net_ib.cc at v2.21.5-1 and v2.23.4-1; ROCm/rccl#1328, NVIDIA/nccl#1676.
    """
    kernel = now.machine.kernel
    version = known(now.machine.libraries.nccl_version, "the version of NCCL")
    if kernel.nvidia_peermem and peermem_gate(kernel, version) is False and not proven(now):
        if known(dma_buf(kernel), "whether dma-buf serves in its place"):
            return
        text = f"nvidia_peermem is loaded where NCCL {dotted(version)} does not look: GPUDirect RDMA stays off"
        yield say(text, "NCCL", dotted(PEERMEM_MODULE_FILE), dotted(version))


@check(
    at="quick",
    needs=(DIRECT, GATES),
    domain="host",
    severity="warn",
    fix="A kernel with CONFIG_PCI_P2PDMA=y and an HCA driver that knows dma-buf (5.12 on), or nvidia_peermem",
    covers=("DMABUF_NO_P2PDMA",),
)
def dma_buf_is_whole(now: Snapshot) -> Iterator[Finding]:
    """Where the GPU's driver exports dma-buf, HCA driver and kernel take it.

    Three parts must agree; one alone looks as if GPUDirect were there. CUDA's own attribute tells of the GPU only.

    Symptom: `DMA-BUF is available on GPU device 0`, and no GDRDMA.
    Source: drivers/pci/Kconfig, ibv_reg_dmabuf_mr(3); ofiwg/libfabric#12409.
    """
    kernel, version = now.machine.kernel, now.machine.libraries.nccl_version
    served = peermem_gate(kernel, version) or proven(now)
    if served or not known(kernel.dmabuf_gpu, "whether the GPU's driver exports dma-buf"):
        return
    if kernel.p2pdma is False:
        yield say("dma-buf: the kernel lacks CONFIG_PCI_P2PDMA", "kernel", True, False)
    if kernel.dmabuf_nic is False:
        yield say(f"dma-buf: the HCA's driver in {kernel.release} does not take it", "HCA driver", True, False)
    known(dma_buf(kernel), "whether HCA driver and kernel take dma-buf")


@check(
    at="quick",
    needs=(DIRECT, GPUS, BARE_METAL),
    domain="platform",
    severity="warn",
    fix="Place HCAs below the GPUs' switches; until then data goes through the CPU",
    covers=("GDR_TOO_FAR",),
)
def each_gpu_has_a_near_rail(now: Snapshot) -> Iterator[Finding]:
    """Each GPU has a rail below the same PCIe switches.

    Asked only where there is a rail for each GPU: with fewer, NVLink peers share them. GPUs with a coherent link to
    their CPU reach an HCA there as well as one below a switch.

    Symptom: GDR on for some ranks, off for others (`distance 7 > 4`).
    Source: NCCL graph/paths.cc, default limit PXB.
    """
    found = rails(now)
    if len(found) < len(now.machine.gpus):
        return
    paths = measure_paths(now.machine)
    for gpu in now.machine.gpus:
        if is_c2c(gpu):
            continue
        kinds = [kind for one in found if (kind := paths.get((gpu.bus_id or "", one.hca.bus_id or ""))) is not None]
        best = min(known(kinds or None, f"the way from GPU {gpu.index} to the rails"), key=rank)
        if best not in NEAR:
            yield say(f"GPU {gpu.index} is {best} from every rail", gpu.bus_id or "", "PIX or PXB", best)


@check(at="full", needs=(DIRECT, PERFTEST, GDR_LOOP), domain="host", fix=OPEN_IT, probe="gdr_loopback")
def gpudirect_moves_data(now: Snapshot) -> Iterator[Finding]:
    """Data in GPU memory goes out through each rail and comes back.

    Modules, files and attributes are known to promise what does not work. A failure counts where GPUDirect was sold, or
    where all gates look open; otherwise it is what was to be expected.

    Symptom: `GPU available: yes`, and NCCL uses host memory.
    Source: a loopback with GPU memory; ofiwg/libfabric#12409, NVIDIA/nccl#897, #1343.
    """
    hard = now.expected.gdr or way(now)
    for one in port_rows(now, "gdr_loopback"):
        name = _port(one)
        if one.get("error"):
            yield say(f"{name}: no data from GPU memory: {one['error']}", name, outcome="fail" if hard else "warn")
        elif one.get("gbps") is None:
            yield say(f"{name}: not measured", name, outcome="unknown")


@check(
    at="full",
    needs=(DIRECT, PERFTEST, GDR_LOOP),
    domain="host",
    severity="warn",
    fix="On the host: ACS off on bridges, iommu=pt, and the HCA below the GPU's switch",
    probe="gdr_loopback",
    also=("rdma_loopback",),
)
def gpudirect_is_as_fast_as_host_memory(now: Snapshot) -> Iterator[Finding]:
    """A rail moves GPU memory about as fast as host memory.

    Measured against itself: the same port, the same loop. A gap is the way between GPU and HCA: ACS, a translating
    IOMMU, or the link between two sockets.

    Symptom: GDRDMA in NCCL's log, and still slow.
    Source: the two loopbacks; Azure's floors are 180 of 200 and 360 of 400 Gb/s.
    """
    usual = {_port(one): float(one.get("gbps") or 0) for one in port_rows(now, "rdma_loopback")}
    rates = {_port(one): one.get("gbps") for one in port_rows(now, "gdr_loopback")}
    both = {name: got for name, got in rates.items() if got and usual.get(name)}
    for name, got in known(both or None, "both rates of any rail").items():
        if got < SLOWER * usual[name]:
            text = f"{name}: {got:g} Gb/s from GPU memory, {usual[name]:g} from host memory"
            yield say(text, name, f">= {SLOWER * usual[name]:.0f}", got)


def _port(row: Mapping[str, Any]) -> str:
    return f"{row['hca']}:{row['port']}"


@check(
    at="full",
    needs=(DIRECT, GPUS, TORCH),
    domain="image",
    fix="Read `NET/IB : GPU Direct RDMA` in NCCL_DEBUG=INFO, and unset NCCL_NET_GDR_LEVEL",
    probe="nccl_network",
)
def nccl_uses_gpudirect(now: Snapshot) -> Iterator[Finding]:
    """NCCL, made to use the network within this node, uses GPUDirect RDMA where its gates are not closed.

    A failure where it was sold and no loop proved it; else a warning, because in this mode some machines leave it off
    that use it between nodes. That NCCL takes sockets, or that no gate is open, is told by other checks.

    Symptom: `via NET/IB/0` without `/GDRDMA`.
    Source: NCCL's log of an all-reduce without P2P and shared memory; NVIDIA/nccl#1560, #1676.
    """
    data = all_ranks(now, "nccl_network", "gpus")
    used, nets = known(data.get("gdr"), "whether NCCL used GPUDirect"), data.get("nets") or ("the network",)
    if used or "Socket" in nets or way(now) is False:
        return
    outcome, more = "fail" if now.expected.gdr and not looped(now) else "warn", ", although it can" if way(now) else ""
    yield say(f"NCCL over {listed(nets)} did not use GPUDirect RDMA{more}", "GDRDMA", True, False, outcome=outcome)
