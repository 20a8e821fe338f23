"""Inside the node: P2P, shared memory, MIG, ACS, cards that share a port, and what a guest hides."""

from rig.lean import Callable
from rig.machine import Gpu
from rig.plan import Setting
from rig.plan.gdr import acs_between
from rig.plan.nccl_facts import Candidate, Say, Scene, listed, names, say
from rig.plan.nccl_heard import listen
from rig.plan.nccl_paths import NEAR, closest_gpu
from rig.plan.nccl_vars import PORT_FUSION, dotted

SHM_A_GPU = 20 << 20  # two connectors of 9.2 MiB for each GPU, as NCCL 2.18 to 2.21 make them (nccl#342)
SHM_DEEPSPEED = 512 << 20  # ds_report warns below it: NCCL and data loaders fail (deepspeed/env_report.py)
SHM_PLENTY = 1 << 30
HEEDS_NVML = (2, 19, 1)
LYING = ("rtx 40", "rtx 50")  # GeForce whose drivers report peer access that does not work (nccl-tests#117)


def mig(scene: Scene) -> tuple[Say, ...]:
    """NCCL maps one PCI device to one rank."""
    buses = [gpu.bus_id for gpu in scene.machine.gpus if gpu.bus_id is not None]
    twice = sorted({bus for bus in buses if buses.count(bus) > 1})
    if not twice:
        return ()
    text = f"{len(buses)} MIG instances share {listed(twice)}: NCCL takes one rank for each PCI device"
    fix = "One MIG instance a card, or whole GPUs"
    return (say("MIG_MULTI_RANK", text, verdict="blocked", domain="user", got=twice, fix=fix),)


def shared_memory(scene: Scene) -> tuple[Say, ...]:
    """GPUs without P2P talk through /dev/shm, and so do NCCL's network proxies."""
    size, gpus = scene.machine.limits.shm_bytes, len(scene.machine.gpus)
    if size is None or gpus < 2 or size >= SHM_PLENTY:
        return ()
    small = size < SHM_A_GPU * gpus
    text = f"/dev/shm has {size >> 20} MiB for {gpus} GPUs"
    fix = "Start the container with --shm-size=8g (Kubernetes: a memory-backed emptyDir on /dev/shm)"
    outcome, verdict = (None, "blocked") if small else ("warn", None)
    want = SHM_A_GPU * gpus
    return (say("SHM_TOO_SMALL", text, verdict=verdict, outcome=outcome, domain="user", want=want, got=size, fix=fix),)


def p2p_is_broken(scene: Scene) -> bool:
    """Peer access over PCIe that NCCL would try and that does not work: by measurement, or by what is known of the
    product and of the driver's word. NCCL before 2.19.1 does not heed a driver that denies it."""
    gpus = scene.machine.gpus
    if len({gpu.bus_id for gpu in gpus}) < 2 or any(gpu.nvlinks for gpu in gpus):
        return False
    if scene.p2p_works is not None:
        return not scene.p2p_works and any(_recent(gpu) for gpu in gpus)
    if any(gpu.p2p and _lies(gpu) for gpu in gpus):
        return True
    denied = any(gpu.p2p is False for gpu in gpus)
    return denied and scene.version is not None and scene.version < HEEDS_NVML


def _lies(gpu: Gpu) -> bool:
    model = (gpu.model or "").lower()
    return "geforce" in model and any(word in model for word in LYING)


def _recent(gpu: Gpu) -> bool:
    """Generations whose drivers report peer access: before Ampere they deny it themselves, and NCCL finds out."""
    return gpu.capability is not None and gpu.capability >= (8, 0) and not gpu.mig


def p2p(scene: Scene) -> tuple[Say, ...]:
    if not p2p_is_broken(scene):
        return ()
    text = f"{scene.machine.gpus[0].model}: these GPUs cannot reach each other's memory over PCIe"
    return (say("P2P_BROKEN", text, domain="platform", fix="NCCL_P2P_DISABLE=1 is set; /dev/shm carries the traffic"),)


def p2p_settings(scene: Scene) -> tuple[Setting, ...]:
    if not p2p_is_broken(scene):
        return ()
    reason = "peer access over PCIe does not work on these GPUs, and the driver may claim that it does"
    return (Setting("NCCL_P2P_DISABLE", "1", "detection", reason),)


def acs(scene: Scene) -> tuple[Say, ...]:
    """Redirected peer traffic: crashes, hangs or slow paths. Only the host can clear the bits."""
    redirected = acs_between(scene.machine)
    fix = "On the host: clear ReqRedir, CmpltRedir and UpstreamFwd of ACSCtl at every boot, or ACS in the firmware"
    if redirected:
        text = f"PCI ACS redirects peer traffic through the root complex on {listed(redirected)}"
        return (say("ACS_ENABLED", text, verdict="host-fix-needed", got=list(redirected), fix=fix),)
    heard = listen(scene.symptoms)
    translated = scene.machine.kernel.iommu == "translated" and heard.failed
    if not (heard.peer_access_stalls or translated) or p2p_is_broken(scene) or _acs_known_off(scene):
        return ()
    text = "Transfers between PCI devices stall, and the ACS bits of the bridges cannot be read here"
    return (say("ACS_SUSPECTED", text, verdict="host-fix-needed", fix=fix),)


def _acs_known_off(scene: Scene) -> bool:
    states = [one.acs_redirects for one in scene.machine.pci if (one.class_code or "").startswith("0604")]
    return bool(states) and all(state is False for state in states)


def cards(scene: Scene, chosen: tuple[Candidate, ...]) -> tuple[Say, ...]:
    """Ports that NCCL may fuse (one slot, one GUID), and one port that shows twice (two slots, one GUID)."""
    by_guid: dict[str, list[Candidate]] = {}
    for one in chosen:
        if one.hca.sys_image_guid is not None:
            by_guid.setdefault(one.hca.sys_image_guid, []).append(one)
    fused: list[str] = []
    doubled: list[str] = []
    for group in by_guid.values():
        if len(group) < 2:
            continue
        (fused if len({_slot(one.hca.bus_id) for one in group}) == 1 else doubled).append(listed(names(tuple(group))))
    said = []
    if fused and (scene.version is None or scene.version >= PORT_FUSION):
        text = f"Ports of one card ({listed(fused)}): NCCL {dotted(PORT_FUSION)} and newer uses them as one device"
        said.append(say("PORT_FUSION", text, got=fused, fix="NCCL_IB_MERGE_NICS=0 where they reach different networks"))
    if doubled:
        text = f"One port shows as several devices ({listed(doubled)}): their rates do not add up"
        said.append(say("SHARED_PORT", text, got=doubled))
    return tuple(said)


def _slot(bus_id: str | None) -> str | None:
    """Bus id without the function digit."""
    return bus_id.rpartition(".")[0] if bus_id else None


def merged_slots(scene: Scene, chosen: tuple[Candidate, ...]) -> tuple[str, ...]:
    """HCAs whose PCI path NCCL would mask onto other slots: several devices on the flat root bus of a guest."""
    buses = {gpu.bus_id.rpartition(":")[0] for gpu in scene.machine.gpus if gpu.bus_id}
    flat = []
    for one in chosen:
        bus = one.hca.bus_id
        if bus is None or bus.rpartition(":")[0] not in buses or _has_bridge(scene, bus):
            continue
        if bus.rpartition(":")[2].partition(".")[0] != "00":
            flat.append(one.hca.name)
    return tuple(flat)


def _has_bridge(scene: Scene, bus_id: str) -> bool:
    return any(one.bus_id == bus_id and one.parent is not None for one in scene.machine.pci)


def merge_settings(scene: Scene, chosen: tuple[Candidate, ...]) -> tuple[Setting, ...]:
    if not merged_slots(scene, chosen):
        return ()
    reason = "on the guest's flat bus NCCL's mask for virtual functions would merge unrelated slots"
    return (Setting("NCCL_IB_MERGE_VFS", "0", "detection", reason),)


def guest(scene: Scene, chosen: tuple[Candidate, ...], topo_file: bool) -> tuple[Say, ...]:
    """What a virtual machine does not show: switches above GPU and NIC, NUMA nodes of NICs."""
    said = []
    if flat := merged_slots(scene, chosen):
        text = f"{listed(flat)} shares a flat PCI bus with the GPUs: NCCL's mask for virtual functions would merge them"
        said.append(say("VF_MERGE_MASK", text, subject=listed(flat)))
    lost = [one.hca.name for one in chosen if one.hca.numa is None]
    if lost and any(gpu.numa is not None for gpu in scene.machine.gpus):
        text = f"{listed(lost)} reports no NUMA node: its distance to the GPUs is not known"
        said.append(say("NUMA_UNKNOWN", text, outcome="unknown", subject=listed(lost)))
    if scene.machine.surroundings.virtual is None or not chosen or not scene.machine.gpus:
        return tuple(said)
    if not any(closest_gpu(scene, one.hca) in NEAR for one in chosen):
        text = (
            "The guest shows no PCI switch above GPUs and HCAs: NCCL takes every pair for far, and GPUDirect stays off"
        )
        fix = "Use the provider's topology file (nccl.topo_file in the platform file); never invent one"
        outcome = "pass" if topo_file else "warn"
        said.append(say("TOPO_VIRTUAL_NEEDS_FILE", text, outcome=outcome, domain="platform", fix=fix))
    return tuple(said)


RULES: tuple[Callable[[Scene], tuple[Say, ...]], ...] = (mig, shared_memory, p2p, acs)
