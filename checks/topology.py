"""How GPUs and HCAs reach each other and their CPUs: ACS, IOMMU, NUMA, peer access, the window to GPU memory."""

from checks import Need, check, known, say
from checks.needs import BARE_METAL, BUS, DIRECT, GPUS, HOST
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import Gpu, PciDevice
from rig.plan.gdr import CONSUMER, gpu_supports
from rig.plan.nccl_facts import listed
from rig.snapshot import Snapshot

GIB = 1 << 30
LARGE_WINDOW = 24 * GIB  # boards with more memory than that have a BAR to match where they are made for GPUDirect
IGNORED = "PLATFORM_FILE_IGNORED"  # the id of rig.platform


def _bridges(now: Snapshot) -> list[PciDevice]:
    """Those whose ACS could be read."""
    bridges = [one for one in now.machine.pci if (one.class_code or "").startswith("0604")]
    return [one for one in bridges if one.acs_redirects is not None]


ACS = Need("acs", "no ACS can be read here: PCI config space takes CAP_SYS_ADMIN", lambda now: bool(_bridges(now)))


@check(
    at="quick",
    needs=(BUS, BARE_METAL, ACS),
    domain="host",
    severity="warn",
    fix="On the host: clear ReqRedir, CmpltRedir and UpstreamFwd of ACSCtl (setpci), or switch ACS off in the firmware",
    covers=("ACS_ENABLED", "ACS_SUSPECTED"),
)
def bridges_do_not_redirect_peer_traffic(now: Snapshot) -> Iterator[Finding]:
    """No bridge above a GPU or an HCA sends peer traffic up to the CPU.

    With ACS redirection a copy between two devices below one switch goes through the root complex: slow, or for ever.
    Bridges decide that, not the devices. In a guest it is the hypervisor's business, and needed there.

    Symptom: peer copies and GPUDirect slow or hanging, `cuda-memcheck` clean.
    Source: ACSCtl in PCI config space; NVIDIA/nccl#667, #606, #257, #631, #2079.
    """
    on = [one.bus_id for one in _bridges(now) if one.acs_redirects]
    if on:
        yield say(f"ACS redirects peer traffic through the CPU on {listed(on)}", listed(on), False, True)


@check(
    at="quick",
    needs=(BUS, BARE_METAL),
    domain="host",
    severity="warn",
    fix="On the host: boot with iommu=pt, or with the IOMMU off",
)
def iommu_does_not_translate(now: Snapshot) -> Iterator[Finding]:
    """The IOMMU is off or passes addresses through.

    Translation makes peer copies slow, wrong, or hang. A guest needs it on its host.

    Symptom: `nccl-tests` hangs or reports wrong values with two GPUs, right with one.
    Source: /sys/kernel/iommu_groups/N/type; NCCL's troubleshooting page.
    """
    if known(now.machine.kernel.iommu, "the IOMMU's mode") == "translated":
        yield say("The IOMMU translates device addresses: peer copies are slow or wrong", "iommu", "passthrough", "on")


@check(
    at="quick",
    needs=(BUS, BARE_METAL),
    domain="host",
    severity="warn",
    fix="Ask the host to set the NUMA affinity of PCI slots in the firmware",
)
def devices_know_their_numa_node(now: Snapshot) -> Iterator[Finding]:
    """On a machine of several NUMA nodes each GPU and HCA tells its own.

    Without it nothing can bind a rank to the near CPU and memory, and NCCL takes every pair for near. Usual in guests.

    Symptom: uneven copies from host memory, higher latency on some ranks.
    Source: sysfs numa_node (-1).
    """
    if len(known(now.machine.numa or None, "the NUMA nodes")) < 2:
        return
    lost = [f"GPU {gpu.index}" for gpu in now.machine.gpus if gpu.numa is None]
    lost += [hca.name for hca in now.machine.hcas if hca.numa is None and hca.bus_id is not None]
    if lost:
        yield say(f"No NUMA node is known for {listed(lost)}", listed(lost), "a node", -1)


@check(
    at="quick",
    needs=(GPUS,),
    domain="host",
    fix="Ask the host: reset the GPUs, restart the fabric manager; look at `nvidia-smi topo -p2p rw`",
)
def nvlinked_gpus_grant_peer_access(now: Snapshot) -> Iterator[Finding]:
    """GPUs that NVLink joins may read and write each other's memory.

    Judged by kind: boards that only share a PCIe bus may or may not have peer access, GeForce cards and MIG instances
    have none by design.

    Symptom: NCCL inside one node through shared memory, at a tenth of the rate.
    Source: nvmlDeviceGetP2PStatus, read and write.
    """
    gpus = [gpu for gpu in now.machine.gpus if not gpu.mig and not consumer(gpu)]
    if now.machine.nvml != "ok" and all(gpu.nvlinks is None for gpu in gpus):
        known(None if gpus else (), "the GPUs' NVLinks")
    joined = {gpu.bus_id: gpu for gpu in gpus if gpu.nvlinks and gpu.nvlink_peers}
    for gpu in joined.values():
        peers = known(gpu.p2p_peers, f"the peer access of GPU {gpu.index}")
        lost = [joined[bus].index for bus in gpu.nvlink_peers if bus in joined and bus not in peers]
        if lost:
            text = f"GPU {gpu.index} has NVLink to GPU {listed(lost)}, and no peer access"
            yield say(text, gpu.bus_id or "", "peer access", None)


def consumer(gpu: Gpu) -> bool:
    return any(word in (gpu.model or "").lower() for word in CONSUMER)


@check(
    at="quick",
    needs=(DIRECT, HOST),
    domain="host",
    severity="warn",
    fix="Ask the host for `Above 4G Decoding` and a large BAR in the firmware (RTX boards: displaymodeselector)",
)
def bar_holds_the_gpus_memory(now: Snapshot) -> Iterator[Finding]:
    """The window through which an HCA reaches a GPU's memory holds all of it.

    Asked of boards with more than 24 GiB only: smaller ones, as T4, have 256 MiB by design. GPUs that share memory with
    their CPU have no window.

    Symptom: `ibv_reg_mr` of GPU memory fails on large buffers.
    Source: sysfs `resource`, nvmlDeviceGetBAR1MemoryInfo; NVIDIA's GPUDirect RDMA page.
    """
    links = {link.bus_id: link.bar_bytes for link in now.host.links} if now.host else {}
    health = {gpu.bus_id: gpu.bar1_bytes for gpu in now.host.gpus} if now.host else {}
    for gpu in now.machine.gpus:
        if gpu.c2c or gpu_supports(now.machine, gpu) is False:
            continue
        memory = known(gpu.memory_bytes, f"the memory of GPU {gpu.index}")
        if memory <= LARGE_WINDOW:
            continue
        window = known(health.get(gpu.bus_id or "") or links.get(gpu.bus_id or ""), f"the BAR of GPU {gpu.index}")
        if window < memory:
            text = f"GPU {gpu.index}: a BAR of {window / GIB:.3g} GiB for {memory / GIB:.0f} GiB of memory"
            yield say(text, gpu.bus_id or "", memory, window)


@check(at="quick", domain="platform", severity="warn", fix="rig platform validate", covers=(IGNORED,))
def platform_file_can_be_used(now: Snapshot) -> Iterator[Finding]:
    """What the owner of the machine wrote about its network is read, where it is there at all.

    A file with one fault is ignored as a whole: rails, subnets and the provider's settings are then guessed.

    Symptom: one line at the start, then NCCL on other interfaces than the provider meant.
    Source: /etc/rdma/network_topology.json; docs/platform-file.md.
    """
    for one in now.plan.findings:
        if one.id == IGNORED:
            yield say(one.text, one.subject, fix=one.fix, evidence=one.evidence)
