"""RDMA devices: whether they are all here, and whether this container may use them."""

from checks import CannotTell, check, known, say, silent
from checks.needs import BUS, RAILS, RDMA, RDMA_EXPECTED, SOLD_HCAS, SOLD_RATE, several_nodes
from checks.rails import fabric, gravity, rails
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import PciDevice
from rig.plan.hca import has_provider, is_efa, provider_of, reachable
from rig.plan.nccl_facts import listed
from rig.snapshot import Snapshot

DEVICES = "docker run --device=/dev/infiniband --ulimit memlock=-1"
EFA_SAYS = 100  # Gb/s
PACKAGES = "Install libibverbs1 and ibverbs-providers in the image"


@check(at="boot", needs=(SOLD_HCAS,), domain="host", fix=f"Return the node, or show its HCAs: {DEVICES} --network=host")
def hcas_are_as_many_as_sold(now: Snapshot) -> Iterator[Finding]:
    """All HCAs that belong to this machine are here.

    Counted are devices of the job's fabric. A virtual function beside its own physical function, a storage or front-end
    card and the members of a bond are not, since none of them adds a rail. How many there must be is known from outside
    only: some boxes with eight H100 have one HCA by design.

    Symptom: 7 of 8 rails; other nodes wait for a partner for ever.
    Source: /sys/class/infiniband; leptonai/gpud PR#200, NVIDIA/nccl#2428.
    """
    want, found = now.expected.hcas or 0, fabric(now)
    if len(found) < want:
        others = [hca.name for hca in now.machine.hcas if hca not in found]
        more = f" (not counted: {listed(others)})" if others else ""
        bare = len(_cards_without_devices(now))
        hidden = f"; {bare} InfiniBand cards on the bus have no RDMA device (no driver, or another namespace's)"
        text = f"{len(found)} HCAs of the fabric are here, {want} were sold{more}{hidden if bare else ''}"
        yield say(text, "HCAs", want, len(found), evidence="/sys/class/infiniband")


@check(
    at="boot",
    needs=(RDMA,),
    domain="user",
    fix=DEVICES,
    covers=("RDMA_DEVICE_NODE_MISSING", "EFA_NOT_IN_CONTAINER"),
)
def rdma_devices_can_be_opened(now: Snapshot) -> Iterator[Finding]:
    """The container has a verbs node that opens for each HCA that the kernel shows.

    sysfs shows the host's devices in every container; using one takes its node. Only uverbs nodes count: issm is the
    subnet manager's, absent by design on some platforms, and rdma_cm is not what NCCL connects with. A pod that has a
    device for each of its GPUs needs no more.

    Symptom: `NET/IB : No device found`, and sockets without an error.
    Source: drivers/infiniband/core/uverbs_main.c; NVIDIA/NVSentinel#1716, #1663.
    """
    devices, enough = fabric(now), now.expected.hcas or len(now.machine.gpus) or 1
    closed = [hca.name for hca in devices if not reachable(hca)]
    if closed and len(devices) - len(closed) < enough:
        text = f"{listed(closed)}: in sysfs, but its node in /dev/infiniband is missing or denied: NCCL uses TCP"
        short = len(closed) == len(devices) or now.expected.hcas
        yield say(text, listed(closed), "a node that opens", None, outcome=gravity(now) if short else "warn")


@check(
    at="boot",
    needs=(RDMA,),
    domain="host",
    fix="Check cable and switch port (DOWN), or that a subnet manager runs (INIT)",
    covers=("PORT_DOWN", "PORT_INIT", "VF_GUID_UNSET"),
)
def rdma_ports_are_up(now: Snapshot) -> Iterator[Finding]:
    """No rail is missing because its port is not ACTIVE.

    A port that is down matters only where rails are missing: unused ports of storage cards are down on healthy
    machines. Enough are as many as were sold; without such word, one for each GPU.

    Symptom: `ibv_modify_qp failed`, NCCL timeouts, or one rail less.
    Source: /sys/class/infiniband/D/ports/N/{state,phys_state}; NVIDIA/NVSentinel#642.
    """
    lost = [port for hca in fabric(now) if not is_efa(hca) for port in hca.ports if port.state not in (None, "ACTIVE")]
    enough, up = now.expected.hcas or len(now.machine.gpus) or 1, len(rails(now))
    if not lost or up >= enough:
        return
    short = now.expected.hcas or (up == 0 and several_nodes(now))
    for port in lost:
        text = f"{port.name} is {port.state} ({port.phys_state or 'unknown'}): {up} of {enough} rails are up"
        yield say(text, port.name, "ACTIVE", port.state, outcome="fail" if short else "warn")


@check(at="boot", needs=(RDMA,), domain="image", fix=PACKAGES, covers=("LIBIBVERBS_MISSING",))
def verbs_library_is_in_the_image(now: Snapshot) -> Iterator[Finding]:
    """libibverbs is in the image.

    NCCL loads it at run time and goes on with sockets where it is missing. Checks of the host cannot see that: the
    library belongs to the container. Where the whole image was searched image_brings_libibverbs says it.

    Symptom: ten times slower between nodes, no error.
    Source: NCCL misc/ibvsymbols.cc; NVIDIA/nvidia-container-toolkit#1877.
    """
    if not known(now.machine.libraries.libibverbs, "whether libibverbs is in the image") and not _searched(now):
        text = "libibverbs is not in the image: NCCL falls back to TCP without a word"
        yield say(text, "libibverbs", "libibverbs.so.1", None, outcome=gravity(now))


def _searched(now: Snapshot) -> bool:
    """Whether image_brings_libibverbs has found that there is none."""
    image = now.image
    return (
        image is not None
        and "libraries" in (image.read or ())
        and "libibverbs" not in {one.name for one in image.libraries}
    )


@check(at="boot", needs=(RDMA,), domain="image", fix=PACKAGES, covers=("IBVERBS_PROVIDER_MISSING",))
def verbs_providers_match_the_devices(now: Snapshot) -> Iterator[Finding]:
    """Each HCA has its provider library in the image.

    libibverbs drives no card by itself: it loads libmlx5, libefa, libirdma by the names in /etc/libibverbs.d. Providers
    of other makes are harmless. That all are missing, or mlx5, image_brings_rdma_providers says where it looked.

    Symptom: `no userspace device-specific driver found for uverbs0`; `NET/IB : No device found`.
    Source: rdma-core; NVIDIA/nccl#1044.
    """
    libraries = now.machine.libraries
    if libraries.libibverbs is False:
        return  # that is another check's
    present = known(libraries.ib_providers, "the providers of libibverbs")
    beside = now.image.verbs_files if now.image is not None else None
    told = {"mlx5"} - set(beside) if beside is not None else set()
    lost = [hca for hca in fabric(now) if not has_provider(now.machine, hca) and provider_of(hca) not in told]
    if lost and beside != ():
        wants = sorted({provider_of(hca) or "its own" for hca in lost})
        text = (
            f"No {listed(wants)} provider in the image for {listed(hca.name for hca in lost)}: NCCL falls back to TCP"
        )
        yield say(text, listed(hca.name for hca in lost), wants, list(present), outcome=gravity(now))


@check(
    at="boot",
    needs=(SOLD_RATE, RDMA_EXPECTED),
    domain="host",
    fix="Reseat cable and optics; ask for the switch port's speed",
)
def rails_run_at_the_sold_rate(now: Snapshot) -> Iterator[Finding]:
    """Each rail runs at the rate that was sold.

    EFA's older drivers call every device 100 Gb/s, so less than what was sold is not known there.

    Symptom: the whole job at the pace of the slowest rail; a quarter of the sold bandwidth.
    Source: /sys/class/infiniband/D/ports/N/rate; efa_query_port() in drivers/infiniband/hw/efa/efa_verbs.c.
    """
    sold = now.expected.rate or 0
    if not now.machine.hcas and not now.expected.hcas:  # else hcas_are_as_many_as_sold says it
        yield say(f"no RDMA device is here, {sold} Gb/s were sold", "HCAs", sold, 0, DEVICES)
        return
    efa = [port for hca in fabric(now) if is_efa(hca) for port in hca.ports if port.state == "ACTIVE"]
    found = [one.port for one in rails(now)] or efa
    if not found:
        raise CannotTell("no rail is up")
    lost = []
    for port in found:
        rate = port.rate_gbps
        if rate is None or (port in efa and rate == EFA_SAYS < sold):
            lost.append(port.name)
        elif rate < sold:
            text = f"{port.name} runs at {rate:g} Gb/s, {sold} were sold"
            yield say(text, port.name, sold, rate, evidence=port.rate_text or "")
    if lost:
        yield say(f"{listed(lost)}: the rate is not known", listed(lost), outcome="unknown")


@check(
    at="quick",
    needs=(RAILS,),
    domain="host",
    severity="warn",
    fix="Reseat cable and optics of the slower one",
    covers=("RATE_MISMATCH",),
)
def rails_run_at_one_rate(now: Snapshot) -> Iterator[Finding]:
    """Rails on cards of one kind run at one rate.

    Compared are ports of the same card model: a slower storage card beside the rails is no fault.

    Symptom: one rank waits in every collective.
    Source: /sys/class/infiniband/D/ports/N/rate.
    """
    best: dict[tuple[str | None, str | None], float] = {}
    yield from silent([(one.port.name, one.port.rate_gbps) for one in rails(now)], "its rate")
    found = [one for one in rails(now) if one.port.rate_gbps is not None]
    for one in found:
        kind = (one.hca.device, one.hca.model)
        best[kind] = max(best.get(kind, 0.0), one.port.rate_gbps or 0.0)
    for one in found:
        most, rate = best[one.hca.device, one.hca.model], one.port.rate_gbps or 0.0
        if rate < most:
            yield say(f"{one.port.name} runs at {rate:g} Gb/s, its siblings at {most:g}", one.port.name, most, rate)


@check(
    at="quick",
    needs=(RAILS,),
    domain="host",
    severity="warn",
    fix="On the host: mlxconfig -d DEVICE set LINK_TYPE_P1=1 (InfiniBand), then reset the card",
)
def rails_have_one_link_layer(now: Snapshot) -> Iterator[Finding]:
    """No rail of an InfiniBand fabric has come up as Ethernet.

    Cards that can be both keep the mode in their firmware. Told only where InfiniBand rails are fewer than the GPUs and
    a card of the same model without the default route is Ethernet.

    Symptom: one rail less on one node; collectives that hang.
    Source: /sys/class/infiniband/D/ports/N/link_layer.
    """
    found = rails(now)
    if found[0].port.link_layer != "InfiniBand" or len(found) >= len(now.machine.gpus):
        return
    kinds = {(one.hca.device, one.hca.model) for one in found}
    routes = {dev.name for dev in now.machine.netdevs if dev.default_route}
    for hca in now.machine.hcas:
        for port in hca.ports:
            if port.link_layer == "Ethernet" and (hca.device, hca.model) in kinds and not routes & set(port.netdevs):
                text = f"{port.name} is Ethernet, while {len(found)} cards of its kind are InfiniBand"
                yield say(text, port.name, "InfiniBand", "Ethernet")


@check(
    at="quick",
    needs=(BUS,),
    domain="host",
    fix="On the host: modprobe mlx5_ib; in a container: docker run --network=host (or rdma system set netns shared)",
)
def infiniband_cards_have_devices(now: Snapshot) -> Iterator[Finding]:
    """Each InfiniBand card on the PCI bus is an RDMA device too.

    Where it is not, its driver is missing, or RDMA devices belong to network namespaces and this one has none. Where
    fewer devices are here than were sold, hcas_are_as_many_as_sold says it.

    Symptom: `ibv_devinfo` lists nothing although `lspci` shows the cards.
    Source: PCI class 0207; rdma-system(8).
    """
    if not now.machine.pci:
        known(now.machine.surroundings.gpus_on_bus, "the PCI bus")
    lost = _cards_without_devices(now)
    if lost and len(fabric(now)) >= (now.expected.hcas or 0):
        text = f"InfiniBand cards without an RDMA device: {listed(lost)}"
        yield say(text, listed(lost), outcome=gravity(now))


def _cards_without_devices(now: Snapshot) -> list[str]:
    seen = {hca.bus_id for hca in now.machine.hcas} | {hca.pf_bus_id for hca in now.machine.hcas}
    return [one.bus_id for one in now.machine.pci if _is_infiniband(one) and one.bus_id not in seen]


def _is_infiniband(device: PciDevice) -> bool:
    return (device.class_code or "").startswith("0207")
