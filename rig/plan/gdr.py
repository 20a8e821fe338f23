"""GPUDirect RDMA: the gates, GPU by GPU, and what this NCCL version makes of them.

Gate 1: the GPU and the platform can. Gate 2: a peer-memory file that this version tests (a), or dma-buf (b). Gate 3:
the distance from GPU to HCA, PXB at most unless a level says otherwise. Source: transport/net_ib.cc (ncclIbGdrSupport,
ncclIbDmaBufSupport) and graph/paths.cc (ncclTopoCheckGdr) at tags v2.18.1-1 to v2.27.3-1.
"""

from rig.lean import NamedTuple
from rig.machine import Gpu, Kernel, Machine
from rig.plan import Setting
from rig.plan.hca import is_efa
from rig.plan.nccl_facts import Candidate, GpuGdr, Say, Scene, Version, listed, say
from rig.plan.nccl_heard import listen
from rig.plan.nccl_paths import NEAR, declared, nearest, rank
from rig.plan.nccl_vars import PEERMEM_MODULE_FILE, dotted

CONSUMER = ("geforce", "titan")
SHARED_MEMORY = ("gb10", "orin", "xavier", "thor", "tegra")  # no BAR1 to expose: GPU memory is the system's
GRACE = ("gh200", "gb200", "gb300", "grace")
OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")  # digits 0 to 4
LEVELS = ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS")
DEFAULT_LEVEL = "PXB"
C2C_VARIABLE, C2C_DEFAULT = (2, 26, 2), (2, 27, 3)
# EC2 families without GPUDirect RDMA, whatever their GPUs can (aws-ofi-nccl#547: the P series from p4d on has it).
AWS_WITHOUT = ("g3", "g4", "g5", "g6", "p2", "p3")


class GdrPlan(NamedTuple):
    """The ladder, whether GDR works for any GPU (None: not known), settings and remarks."""

    ladder: tuple[GpuGdr, ...] = ()
    on: bool | None = None
    settings: tuple[Setting, ...] = ()
    said: tuple[Say, ...] = ()


def gpu_supports(machine: Machine, gpu: Gpu) -> bool | None:
    """Gate 1 (CUDA's GPUDirectRDMASupported), from the model's name."""
    model = (gpu.model or "").lower()
    if not model or model == "unknown":
        return None
    return platform_supports(machine) and not any(word in model for word in (*CONSUMER, *SHARED_MEMORY))


def platform_supports(machine: Machine) -> bool:
    """False where the provider's hardware is known not to support it, or GPU memory is the system's."""
    place = machine.surroundings
    return not (place.cloud == "aws" and (place.instance or "").lower().startswith(AWS_WITHOUT))


def is_c2c(gpu: Gpu) -> bool:
    """A GPU with a coherent link to its CPU."""
    if gpu.c2c is not None:
        return gpu.c2c
    return any(word in (gpu.model or "").lower() for word in GRACE)


def peermem_files(kernel: Kernel) -> tuple[str, ...] | None:
    """Registered clients; () where the directory is missing; None where nobody looked."""
    if kernel.memory_peers is not None:
        return kernel.memory_peers
    return () if kernel.modules is not None else None


def peermem_gate(kernel: Kernel, version: Version | None) -> bool | None:
    """Gate 2a: whether a file that this NCCL version tests is there."""
    clients = peermem_files(kernel)
    if clients is None and kernel.nvidia_peermem is None:
        return None
    older, newer = ("nv_mem", "nvidia-peermem"), ("nv_mem", "nv_mem_nc")
    files = older if version is None or version < (2, 22, 3) else newer
    if any(name in files for name in clients or ()):
        return True
    if version is not None and version >= PEERMEM_MODULE_FILE:
        return kernel.nvidia_peermem
    return False if clients is not None or kernel.nvidia_peermem is False else None


def dmabuf_gate(scene: Scene) -> bool | None:
    """Gate 2b: GPU driver, HCA driver and kernel all export dma-buf, and it is not switched off."""
    kernel = scene.machine.kernel
    if scene.user_value("NCCL_DMABUF_ENABLE") == "0":
        return False
    gpu = kernel.dmabuf_gpu if kernel.dmabuf_gpu is not None else kernel.open_modules
    facts = (gpu, kernel.dmabuf_nic, kernel.p2pdma)
    if False in facts:
        return False
    return True if gpu and kernel.dmabuf_nic else None


def parse_level(value: str) -> str | None:
    """A level as NCCL reads it: an exact upper-case name up to SYS, or an old digit. None: NCCL ignores it silently."""
    if value in LEVELS:
        return value
    if value.isascii() and value.isdigit():
        return OLD_LEVELS[min(int(value[:6]), 4)]
    return None


def limit_of(scene: Scene) -> tuple[str, str]:
    """(greatest distance at which GDR is used, who says so)."""
    asked = scene.user_value("NCCL_NET_GDR_LEVEL")
    if asked is not None and (level := parse_level(asked)) is not None:
        return level, "environment"
    for name, value in scene.platform.env if scene.platform else ():
        if name == "NCCL_NET_GDR_LEVEL" and (level := parse_level(value)) is not None:
            return level, "platform file"
    return DEFAULT_LEVEL, "default"


def plan_gdr(scene: Scene, chosen: tuple[Candidate, ...], topo_file: bool) -> GdrPlan:
    """The ladder for every GPU, C2C's setting, and what stands in the way. `topo_file`: NCCL is given a topology
    file."""
    if not chosen:
        return GdrPlan()
    peermem, dmabuf = peermem_gate(scene.machine.kernel, scene.version), dmabuf_gate(scene)
    gate2 = False if listen(scene.symptoms).gdr_disabled else _either(peermem, dmabuf)
    limit, source = limit_of(scene)
    settings = c2c_settings(scene) if source == "default" else ()
    redirected = acs_between(scene.machine)
    if redirected and source == "default" and _all_on_pci(scene, chosen):
        reason = "ACS sends the HCA's writes to GPU memory through the root complex; GDR stays off until it is cleared"
        settings, limit = (Setting("NCCL_NET_GDR_LEVEL", "LOC", "detection", reason),), "LOC"
    ladder = []
    for gpu in scene.machine.gpus:
        first, distance = gpu_supports(scene.machine, gpu), distance_of(scene, gpu, chosen, topo_file)
        near = _within(scene, gpu, distance, limit)
        all_of_it = None if None in (first, gate2, near) else True
        accepted = False if False in (first, gate2, near) else all_of_it
        ladder.append(GpuGdr(gpu.index, first, peermem, dmabuf, distance, near, accepted))
    on = _any_on(ladder, gate2, limit)
    return GdrPlan(
        tuple(ladder), on, settings, (*blockers(scene, ladder, limit), *peermem_remarks(scene, peermem, dmabuf))
    )


def distance_of(scene: Scene, gpu: Gpu, chosen: tuple[Candidate, ...], topo_file: bool) -> str | None:
    """What NCCL will see. A topology file replaces the guest's flat view by the host's: known only where it is
    declared."""
    seen = nearest(scene, gpu, chosen)
    if topo_file and seen not in NEAR:
        if any(declared(scene, gpu, one.hca) for one in chosen):
            return "PIX"
        if 2 * len(chosen) >= len(scene.machine.gpus):
            return None
    return seen


def _within(scene: Scene, gpu: Gpu, distance: str | None, limit: str) -> bool | None:
    if limit == "LOC":
        return False
    if is_c2c(gpu) and (scene.version is None or c2c_settings(scene) or scene.version >= C2C_DEFAULT):
        return True if distance in (None, "LOC", "PIX", "PXB", "PHB", "SYS") else None
    return None if distance is None else rank(distance) <= rank(limit)


def _either(a: bool | None, b: bool | None) -> bool | None:
    """Gate 2. A peer-memory file that is known to be missing counts as closed while nothing is known of dma-buf."""
    if a or b:
        return True
    return False if a is False else None


def _any_on(ladder: list[GpuGdr], gate2: bool | None, limit: str) -> bool | None:
    if gate2 is False or limit == "LOC":
        return False
    states = [one.accepted for one in ladder]
    if True in states:
        return True
    return False if states and None not in states else None


def c2c_settings(scene: Scene) -> tuple[Setting, ...]:
    """A coherent CPU link makes PHB as good as a switch; NCCL knows that by itself from 2.27.3 on."""
    if not any(map(is_c2c, scene.machine.gpus)) or scene.version is None or scene.version >= C2C_DEFAULT:
        return ()
    reason = "the NIC sits on the CPU and NVLink-C2C joins CPU and GPU"
    if scene.version >= C2C_VARIABLE:
        return (Setting("NCCL_NET_GDR_C2C", "1", "detection", reason),)
    return (Setting("NCCL_NET_GDR_LEVEL", "SYS", "detection", reason),)


def acs_between(machine: Machine) -> tuple[str, ...]:
    """Bridges with ACS redirection, where the host's fabric is seen (in a guest it is the hypervisor's business)."""
    if machine.surroundings.virtual is not None:
        return ()
    return tuple(one.bus_id for one in machine.pci if one.acs_redirects)


def _all_on_pci(scene: Scene, chosen: tuple[Candidate, ...]) -> bool:
    return bool(scene.machine.gpus) and any(one.hca.function != "vf" for one in chosen)


def blockers(scene: Scene, ladder: list[GpuGdr], limit: str) -> tuple[Say, ...]:
    """What keeps GDR off for all GPUs, gate by gate."""
    said = []
    gpus = scene.machine.gpus
    if not platform_supports(scene.machine) or any(_shares_memory(gpu) for gpu in gpus):
        text = "GPUDirect RDMA is not supported on this platform; data goes through host memory"
        said.append(say("GDR_NOT_SUPPORTED_PLATFORM", text, domain="platform", got=scene.machine.surroundings.instance))
    elif ladder and all(one.gpu_supports is False for one in ladder):
        text = f"{gpus[0].model} does not support GPUDirect RDMA; data goes through host memory"
        said.append(say("GDR_NOT_SUPPORTED_GPU", text, domain="platform", got=gpus[0].model))
    far = [one for one in ladder if one.within_limit is False]
    if far and limit != "LOC":
        kinds = listed(dict.fromkeys(one.distance for one in far))
        who = "Every GPU is" if len(far) == len(ladder) else f"GPU {listed(one.gpu for one in far)} is"
        text = f"{who} farther from the HCAs ({kinds}) than GPUDirect RDMA is used at ({limit})"
        said.append(say("GDR_TOO_FAR", text, want=limit, got=kinds))
    if any(map(is_c2c, gpus)):
        said.append(say("GDR_C2C", "The HCAs are on the CPU side of NVLink-C2C, which is as good as a PCI switch"))
    return tuple(said)


def _shares_memory(gpu: Gpu) -> bool:
    return any(word in (gpu.model or "").lower() for word in SHARED_MEMORY)


def peermem_remarks(scene: Scene, peermem: bool | None, dmabuf: bool | None) -> tuple[Say, ...]:
    """Why gate 2 is closed, told by what is there and what this NCCL looks at."""
    kernel = scene.machine.kernel
    if peermem is not False or dmabuf or scene.machine.surroundings.gpus_on_bus == 0:
        return ()
    text = "Neither peer memory nor dma-buf is there for NCCL: GPUDirect RDMA is off"
    fix = "On the host: open GPU kernel modules, or modprobe nvidia_peermem"
    said = [say("GDR_OFF", text, outcome="warn", fix=fix)]
    newer = f"Use open GPU kernel modules (dma-buf), or NCCL {dotted(PEERMEM_MODULE_FILE)} or newer"
    if kernel.nvidia_peermem:
        text = "nvidia_peermem is loaded, but no client is registered under /sys/kernel/mm/memory_peers"
        said.append(say("PEERMEM_NOT_REGISTERED", text, outcome="warn", fix=newer))
        if scene.version is not None:
            text = f"NCCL {dotted(scene.version)} does not look where this kernel shows nvidia_peermem: GDR is off"
            said.append(say("PEERMEM_PATH_UNKNOWN_TO_NCCL", text, verdict="degraded", domain="image", fix=newer))
    elif kernel.nvidia_peermem is False:
        text = "nvidia_peermem is not loaded: the HCA's driver may lack the peer-memory interface"
        said.append(say("PEERMEM_NOT_LOADABLE", text, outcome="warn", fix="On the host: modprobe nvidia_peermem"))
    if kernel.p2pdma is False:
        text = "The kernel lacks CONFIG_PCI_P2PDMA, so dma-buf cannot serve GPUDirect RDMA"
        said.append(say("DMABUF_NO_P2PDMA", text, outcome="warn", fix="Host: a kernel with CONFIG_PCI_P2PDMA=y"))
    return tuple(said)


def efa_without_gdr(machine: Machine) -> tuple[Say, ...]:
    """The same platform line for machines whose only RDMA devices are EFA."""
    if platform_supports(machine) or not any(map(is_efa, machine.hcas)):
        return ()
    text = f"{machine.surroundings.instance} does not support GPUDirect RDMA; data goes through host memory"
    return (say("GDR_NOT_SUPPORTED_PLATFORM", text, domain="platform", got=machine.surroundings.instance),)
