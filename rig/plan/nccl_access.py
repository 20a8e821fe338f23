"""Whether this container may use the RDMA devices that the kernel shows: nodes, libraries, limits, port states."""

from rig.lean import Callable
from rig.machine import UNLIMITED, Hca, Port
from rig.plan.hca import (
    USABLE_LAYERS,
    active_ports,
    has_provider,
    is_efa,
    provider_of,
    reachable,
    usable_ports,
)
from rig.plan.nccl_facts import Say, Scene, listed, say

MEMLOCK_ENOUGH = 1 << 36  # 64 GiB: more than any job pins
MEMLOCK_LEAST = 1 << 30  # below, not even NCCL's own buffers of eight GPUs can be pinned
IPC_LOCK = "CAP_IPC_LOCK"
EFA_INSTANCES = ("p4d", "p4de", "p5", "p5e", "p5en", "p6", "trn1", "trn2", "dl1")


def transports(scene: Scene) -> tuple[Hca, ...]:
    """Devices that could carry traffic: a port on a known link layer, or EFA."""
    return tuple(
        hca for hca in scene.machine.hcas if is_efa(hca) or any(port.link_layer in USABLE_LAYERS for port in hca.ports)
    )


def device_nodes(scene: Scene) -> tuple[Say, ...]:
    """Devices in sysfs without a node that opens."""
    closed = [hca.name for hca in transports(scene) if not reachable(hca)]
    if not closed:
        return ()
    text = f"{listed(closed)} is in sysfs, but its /dev/infiniband/uverbs node is missing or denied"
    fix = "Start the container with --device=/dev/infiniband --ulimit memlock=-1"
    own = len(usable_ports(scene.machine))  # a pod sees the host's other devices too, and needs none of them
    verdict = None if scene.nodes == 1 or own >= max(1, len(scene.machine.gpus)) else "degraded"
    return (say("RDMA_DEVICE_NODE_MISSING", text, verdict=verdict, domain="user", subject=listed(closed), fix=fix),)


def libraries(scene: Scene) -> tuple[Say, ...]:
    """libibverbs and the provider of each device are in the image."""
    devices, found = transports(scene), scene.machine.libraries
    if not devices:
        return ()
    fix = "Install libibverbs1 and ibverbs-providers in the image"
    if found.libibverbs is False:
        text = "libibverbs is not in the image: NCCL leaves InfiniBand and RoCE unused"
        return (say("LIBIBVERBS_MISSING", text, verdict="degraded", domain="image", fix=fix),)
    lost = [hca for hca in devices if not has_provider(scene.machine, hca)]
    if not lost:
        return ()
    wanted = sorted({provider_of(hca) or "its" for hca in lost})
    text = f"libibverbs has no {listed(wanted)} provider for {listed(hca.name for hca in lost)}"
    return (say("IBVERBS_PROVIDER_MISSING", text, verdict="degraded", domain="image", want=wanted, fix=fix),)


def memlock(scene: Scene) -> tuple[Say, ...]:
    """RDMA pins memory, and the limit counts unless the process has CAP_IPC_LOCK (ib_umem_get in the kernel)."""
    limit = scene.machine.limits.memlock_bytes
    if limit is None or limit == UNLIMITED or limit >= MEMLOCK_ENOUGH or not transports(scene):
        return ()
    if IPC_LOCK in (scene.machine.surroundings.capabilities or ()) or not _pins(scene):
        return ()
    text = f"RLIMIT_MEMLOCK is {limit >> 10} KiB: RDMA buffers cannot be pinned"
    fix = "Start the container with --ulimit memlock=-1 (Kubernetes: add the capability IPC_LOCK)"
    verdict, outcome = ("blocked", None) if limit < MEMLOCK_LEAST else (None, "warn")
    found = say("MEMLOCK_TOO_SMALL", text, verdict=verdict, outcome=outcome, domain="user", got=limit, fix=fix)
    return (found._replace(finding=found.finding._replace(want=UNLIMITED)),)


def _pins(scene: Scene) -> bool:
    """Whether NCCL would get as far as pinning memory."""
    return bool(usable_ports(scene.machine)) or any(is_efa(hca) and reachable(hca) for hca in scene.machine.hcas)


def ports(scene: Scene) -> tuple[Say, ...]:
    """Ports that are not ACTIVE. It matters where they belong to the fabric in use and rails are missing."""
    layers = {one.port.link_layer for one in active_ports(scene.machine)}
    fabric = "InfiniBand" if "InfiniBand" in layers else None
    said: list[Say] = []
    for hca in scene.machine.hcas:
        for port in hca.ports:
            if port.state is None or port.state == "ACTIVE" or is_efa(hca):
                continue
            matters = (fabric is None or port.link_layer == fabric) and _rails_missing(scene)
            said.extend(_not_active(scene, hca, port, matters))
    return tuple(said)


def _rails_missing(scene: Scene) -> bool:
    usable, gpus = len(usable_ports(scene.machine)), len(scene.machine.gpus)
    return usable == 0 or gpus == 0 or usable < gpus


def _not_active(scene: Scene, hca: Hca, port: Port, matters: bool) -> tuple[Say, ...]:
    verdict = "degraded" if matters else None
    if port.state not in ("INIT", "ARMED"):
        have, expected = len(usable_ports(scene.machine)), len(scene.machine.gpus)
        rails = f" ({have} ports usable, {expected} GPUs)" if expected else ""
        text = f"{port.name} is {port.state}{rails}"
        fix = "Check the cable and the switch port"
        return (say("PORT_DOWN", text, verdict=verdict, subject=port.name, got=port.state, fix=fix),)
    text = f"{port.name} is {port.state}: no subnet manager has configured it"
    fix = "Check that a subnet manager runs on this fabric"
    init = say("PORT_INIT", text, verdict=verdict, subject=port.name, got=port.state, fix=fix)
    if hca.function != "vf" or port.link_layer == "Ethernet":
        return (init,)
    text = f"{port.name} is a virtual function without a GUID (LID {port.lid if port.lid is not None else 'unset'})"
    fix = "Give the VF a node and port GUID; the subnet manager needs virtualization on (opensm: virt_enabled 2)"
    verdict = "blocked" if not usable_ports(scene.machine) else verdict
    return (init, say("VF_GUID_UNSET", text, verdict=verdict, subject=port.name, fix=fix))


def odd_devices(scene: Scene) -> tuple[Say, ...]:
    """Entries of /sys/class/infiniband that are no RDMA card: no PCI parent, or no ports."""
    odd = [
        hca.name
        for hca in scene.machine.hcas
        if (not hca.ports and hca.bus_id is None and not is_efa(hca))
        or (hca.driver or "").startswith(("rdma_rxe", "rxe", "siw"))
    ]
    if not odd:
        return ()
    text = f"{listed(odd)} is not a PCI device with ports, and is left out"
    return (say("NON_PCI_RDMA_DEVICE", text, subject=listed(odd)),)


def none_at_all(scene: Scene) -> tuple[Say, ...]:
    """No RDMA device: a normal state."""
    if transports(scene):
        return ()
    text = "No RDMA device: NCCL uses sockets between nodes"
    return (say("NO_RDMA_DEVICE", text, domain="platform"),)


def efa(scene: Scene) -> tuple[Say, ...]:
    """EFA devices need the OFI plugin; an instance that has them may hide them from the container."""
    devices = [hca for hca in scene.machine.hcas if is_efa(hca)]
    said = []
    if devices:
        words, plugin = listed(hca.name for hca in devices), ofi_plugin(scene)
        text = f"{words} is EFA: NCCL needs the OFI plugin (libnccl-net.so) and libfabric for it"
        fix = "" if plugin else "Install aws-ofi-nccl and libfabric with the efa provider in the image"
        verdict = None if plugin or scene.nodes == 1 else "degraded"
        said.append(say("EFA_NEEDS_PLUGIN", text, verdict=verdict, domain="image", subject=words, fix=fix))
    place = scene.machine.surroundings
    family = (place.instance or "").lower().partition(".")[0]
    expected = place.cloud == "aws" and family.startswith(EFA_INSTANCES)
    if (devices and not any(map(reachable, devices))) or (expected and not devices):
        text = f"{place.instance or 'This machine'} has EFA, and no device node of it is here"
        fix = "Map the devices: --device=/dev/infiniband/uverbs0 ... (Kubernetes: vpc.amazonaws.com/efa)"
        verdict = None if scene.nodes == 1 else "degraded"
        said.append(say("EFA_NOT_IN_CONTAINER", text, verdict=verdict, domain="user", fix=fix))
    return tuple(said)


def ofi_plugin(scene: Scene) -> bool:
    """Any network plugin counts: the OFI one is usually called just libnccl-net.so."""
    return bool(scene.machine.libraries.net_plugins)


def vendor_plugin(scene: Scene) -> tuple[Say, ...]:
    """Data interfaces of a provider whose fast path is a plugin of its own (GCP's TCPX, TCPXO, gIB)."""
    place = scene.machine.surroundings
    if place.cloud != "gcp" or transports(scene):
        return ()
    data = [dev.name for dev in scene.machine.netdevs if dev.kind != "loopback" and not dev.default_route and dev.ipv4]
    if len(data) < 3 or _has_gcp_plugin(scene):
        return ()
    text = f"{listed(data)}: data interfaces that only the provider's NCCL plugin drives at full rate"
    fix = "Install the provider's GPUDirect plugin (TCPX, TCPXO or gIB) and its settings in the image"
    return (say("VENDOR_PLUGIN_NEEDED", text, verdict="degraded", domain="image", fix=fix),)


def _has_gcp_plugin(scene: Scene) -> bool:
    """FastSocket is a plugin too, but not the fast path: only the folders and variables of the others count."""
    words = ("tcpx", "fastrak", "gib", "gpudirect")
    found = (*scene.machine.libraries.net_plugins, *(name for name in scene.user if name != "NCCL_DEBUG"))
    return any(word in name.lower() for name in found for word in words)


RULES: tuple[Callable[[Scene], tuple[Say, ...]], ...] = (
    none_at_all,
    odd_devices,
    device_nodes,
    libraries,
    memlock,
    ports,
    efa,
    vendor_plugin,
)
