"""PCIe links of GPUs and HCAs: width, speed under load, errors, and slots that are too small."""

from checks import CannotTell, Need, check, known, say, silent
from checks.health import told as driver_tells
from checks.measured import gpu_rows
from checks.needs import BARE_METAL, BUS, GPU, GPUS, HOST, KERNEL_LOG, LINKS, NVML, RDMA, TORCH
from rig.finding import Finding
from rig.host import PciLink
from rig.lean import Iterable, Iterator
from rig.machine import Hca
from rig.plan.nccl_facts import listed
from rig.snapshot import Snapshot

RESEAT = "Ask the host to reseat the card or its riser, and to look at the slot's bifurcation in the firmware"
LANES_ENOUGH = 8  # by design on T4 and L40S boards in many servers (NVIDIA/DCGM: width >= 8)
CODING = {2.5: 0.8, 5.0: 0.8}  # 8b/10b; 128b/130b from 8 GT/s on
REPLAYS_MANY = 10_000  # own thresholds: lifetime counts, a healthy link shows a few after each reset
CORRECTABLE_MANY = 10_000
NONFATAL_MANY = 100
LIMITS = Need(
    "pcie-limits", "the driver does not tell what the links can", lambda now: driver_tells(now, "pcie_gen_max")
)
LOADED = (GPU, NVML, LINKS, LIMITS, TORCH)


def gpu_links(now: Snapshot) -> list[tuple[str, PciLink]]:
    """(`GPU 3`, its link), for GPUs whose link was read; CannotTell where none was."""
    links = {link.bus_id: link for link in now.host.links} if now.host else {}
    found = [(f"GPU {gpu.index}", links[gpu.bus_id]) for gpu in now.machine.gpus if gpu.bus_id in links]
    return found or known(None, "the PCIe links of the GPUs")


def hca_links(now: Snapshot) -> list[tuple[Hca, PciLink]]:
    """HCAs with their links; virtual functions have none of their own."""
    links = {link.bus_id: link for link in now.host.links} if now.host else {}
    own = [hca for hca in now.machine.hcas if hca.bus_id is not None and hca.function != "vf"]
    found = [(hca, links[hca.bus_id]) for hca in own if hca.bus_id in links]
    if own and not found:
        raise CannotTell("the PCIe links of the HCAs: not known")
    return found


def lanes_possible(now: Snapshot, link: PciLink) -> int | None:
    """Lanes that both ends have; a guest's port above is made up."""
    above = None if now.machine.surroundings.virtual is not None else link.upstream_max_width
    return link.max_width if above is None or link.max_width is None else min(link.max_width, above)


def speed_possible(now: Snapshot, link: PciLink) -> float | None:
    above = None if now.machine.surroundings.virtual is not None else link.upstream_max_gts
    return link.max_gts if above is None or link.max_gts is None else min(link.max_gts, above)


def narrow(now: Snapshot, named: Iterable[tuple[str, PciLink]]) -> Iterator[Finding]:
    """Links with fewer lanes than both ends have; unknown where a width is not known."""
    told = [(name, link, lanes_possible(now, link)) for name, link in named]
    yield from silent([(name, link.width if most else None) for name, link, most in told], "the width of its link")
    for name, link, most in told:
        if link.width is not None and most is not None and link.width < most:
            text = f"{name} runs on {link.width} of {most} PCIe lanes"
            yield say(text, link.bus_id, most, link.width, evidence="current_link_width")


@check(at="quick", needs=(GPU, LINKS), domain="host", fix=RESEAT)
def gpu_links_have_all_their_lanes(now: Snapshot) -> Iterator[Finding]:
    """Each GPU uses all lanes that card and slot have.

    Judged against both ends, so a slot of eight lanes is no fault of the link. Lanes, unlike speed, do not shrink when
    a GPU idles.

    Symptom: copies to one GPU at half the rate, one straggler.
    Source: sysfs current_link_width, max_link_width; NVIDIA/DCGM (L40S, T4: 8 lanes by design).
    """
    yield from narrow(now, gpu_links(now))


@check(at="quick", needs=(GPU, HOST, BARE_METAL), domain="platform", severity="warn", fix="Rent another machine")
def gpu_slots_are_no_risers(now: Snapshot) -> Iterator[Finding]:
    """Each GPU sits in a slot of eight lanes at least.

    Boards made for mining give a card one or four lanes. Training on several such GPUs is bound by the bus, whatever
    the cards can.

    Symptom: a 4090 that trains alone at full speed, and four of them slower than one.
    Source: sysfs max_link_width of the port above.
    """
    found = [(name, link) for name, link in gpu_links(now) if link.upstream_max_width is not None]
    for name, link in known(found or None, "the width of the slots"):
        if link.upstream_max_width < LANES_ENOUGH:
            text = f"{name} sits in a slot of {link.upstream_max_width} PCIe lanes"
            yield say(text, link.bus_id, LANES_ENOUGH, link.upstream_max_width)


@check(
    at="quick", needs=(GPUS, HOST), domain="platform", severity="warn", fix="Rent another machine, or use the wide ones"
)
def gpus_have_links_of_one_width(now: Snapshot) -> Iterator[Finding]:
    """All GPUs of a machine have the same number of lanes.

    Symptom: one rank slower in every step that moves data over PCIe.
    Source: sysfs current_link_width.
    """
    found = gpu_links(now)
    yield from silent([(name, link.width) for name, link in found], "the width of its link")
    most = max(link.width or 0 for _, link in found)
    slow = [f"{name} {link.width}" for name, link in found if link.width not in (most, None)]
    if slow:
        yield say(
            f"GPUs with fewer PCIe lanes than their {most}-lane siblings: {listed(slow)}", listed(slow), most, slow
        )


@check(at="quick", needs=(RDMA, LINKS), domain="host", fix=RESEAT)
def hca_links_have_all_their_lanes(now: Snapshot) -> Iterator[Finding]:
    """Each HCA uses all lanes that card and slot have.

    Symptom: one rail at half its rate although its port is up at full rate.
    Source: sysfs current_link_width.
    """
    if found := hca_links(now):
        yield from narrow(now, [(hca.name, link) for hca, link in found])


@check(at="quick", needs=(RDMA, HOST, BARE_METAL), domain="host", fix=RESEAT)
def hca_links_run_at_full_speed(now: Snapshot) -> Iterator[Finding]:
    """Each HCA runs at the PCIe generation that card and slot have.

    HCAs do not lower it when they idle, as GPUs do.

    Symptom: 100 Gb/s through a card of 200.
    Source: sysfs current_link_speed, max_link_speed.
    """
    told = [(hca, link, speed_possible(now, link)) for hca, link in hca_links(now)]
    yield from silent([(hca.name, link.gts if most else None) for hca, link, most in told], "the speed of its link")
    for hca, link, most in told:
        if link.gts is not None and most is not None and link.gts < most:
            text = f"{hca.name} runs at {link.gts:g} of {most:g} GT/s"
            yield say(text, link.bus_id, most, link.gts, evidence="current_link_speed")


@check(
    at="quick",
    needs=(RDMA, HOST, BARE_METAL),
    domain="platform",
    severity="warn",
    fix="Ask for a slot of the card's own generation and width, or plan with the slot's rate",
)
def hca_slots_carry_the_ports_rate(now: Snapshot) -> Iterator[Finding]:
    """The slot of each HCA moves as much as its ports.

    A 400 Gb/s card in a Gen4 slot has 252 Gb/s to the host, and no tool of the network says so.

    Symptom: the rate on the cable is right, the bandwidth is not.
    Source: PCI Express Base Specification (128b/130b coding); kernel line `limited by`.
    """
    told = [(hca, link, speed_possible(now, link), lanes_possible(now, link)) for hca, link in hca_links(now)]
    told = [one for one in told if one[2] is not None and one[3] is not None]
    for hca, link, speed, lanes in known(told or None, "the slots of the HCAs"):
        rate = sum(port.rate_gbps or 0.0 for port in hca.ports if port.state == "ACTIVE")
        room = speed * lanes * CODING.get(speed, 128 / 130)
        if room < rate:
            text = f"{hca.name} has {rate:g} Gb/s, its slot {room:.0f} Gb/s ({speed:g} GT/s, {lanes} lanes)"
            yield say(text, link.bus_id, rate, round(room))


@check(at="full", needs=LOADED, domain="host", fix=RESEAT, probe="gpu_copy")
def gpu_links_reach_full_speed_under_load(now: Snapshot) -> Iterator[Finding]:
    """Each GPU's link runs at its full PCIe generation while data is copied.

    Idle links go down to Gen1 to save power, so a look without load proves nothing in either direction.

    Symptom: 12 instead of 55 GB/s to one GPU.
    Source: NVIDIA/open-gpu-kernel-modules#1010, Syllo/nvtop#6, local-inference-lab/rtx6kpro#88, NVIDIA/NVSentinel#890.
    """
    yield from _under_load(now, "pcie_gen_load", "pcie_gen_max", "at PCIe generation {got} of {want} under load")


@check(at="full", needs=LOADED, domain="host", fix=RESEAT, probe="gpu_copy")
def gpu_links_keep_their_lanes_under_load(now: Snapshot) -> Iterator[Finding]:
    """No GPU's link loses lanes while data is copied.

    Symptom: a card that is fast for a minute, then at half its rate.
    Source: sysfs current_link_width during a copy; NVIDIA/NVSentinel#890.
    """
    yield from _under_load(now, "pcie_width_load", "pcie_width_max", "on {got} of {want} PCIe lanes under load")


def _under_load(now: Snapshot, measured: str, limit: str, words: str) -> Iterator[Finding]:
    most = {gpu.bus_id: getattr(gpu, limit) for gpu in now.host.gpus} if now.host else {}
    names = {gpu.bus_id: f"GPU {gpu.index}" for gpu in now.machine.gpus}
    for row in gpu_rows(now, "gpu_copy"):
        bus, got = row["bus_id"], row.get(measured)
        want = most.get(bus)
        if got is None or want is None:
            yield say(f"{names[bus]}: its PCIe link under load is not known", bus, outcome="unknown")
        elif got < want:
            yield say(f"{names[bus]} runs {words.format(got=got, want=want)}", bus, want, got)


@check(at="quick", needs=(BUS, KERNEL_LOG), domain="host", severity="warn", fix=RESEAT)
def kernel_reports_no_limited_link(now: Snapshot) -> Iterator[Finding]:
    """The kernel did not find that a GPU or HCA has less bandwidth than it could.

    At start it compares each device with every link above it, switches included, which a look at the slot misses. A GPU
    found at 2.5 GT/s was idle, and is left out.

    Symptom: `63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link`.
    Source: pcie_print_link_status() in drivers/pci/pci.c.
    """
    gpus = {gpu.bus_id for gpu in now.machine.gpus}
    for bus, text in _events(now, "pcie-limited"):
        if bus in gpus and "limited by 2.5 GT/s" in text:
            continue
        yield say(f"The kernel says: {text}", bus, evidence="kernel log")


@check(at="quick", needs=(BUS, KERNEL_LOG), domain="host", severity="warn", fix=RESEAT)
def kernel_reports_no_bus_error(now: Snapshot) -> Iterator[Finding]:
    """The kernel reported no PCIe error of a GPU, an HCA or a bridge above one.

    Symptom: `AER: Corrected error received` by the hundred, later Xid 79.
    Source: drivers/pci/pcie/aer.c.
    """
    said: dict[str, list[str]] = {}
    for bus, text in _events(now, "aer"):
        said.setdefault(bus, []).append(text)
    for bus, texts in said.items():
        yield say(f"{len(texts)} PCIe errors, the last: {texts[-1]}", bus, 0, len(texts), evidence="kernel log")


def _events(now: Snapshot, kind: str) -> list[tuple[str, str]]:
    """(bus id, text) of events of devices that matter here."""
    here = {one.bus_id for one in now.machine.pci} | {gpu.bus_id for gpu in now.machine.gpus}
    here |= {hca.bus_id for hca in now.machine.hcas}
    log = known(now.host.kernel_log if now.host else None, "the kernel's log")
    return [(event.bus_id, event.text) for event in log if event.kind == kind and event.bus_id in here]


@check(at="quick", needs=(BUS, HOST), domain="host", severity="warn", fix=RESEAT)
def links_count_few_errors(now: Snapshot) -> Iterator[Finding]:
    """The error counters of the links are not far beyond what a healthy link gathers.

    They count since the machine started and never go down, so only large numbers are told; what matters is whether
    they grow under load.

    Symptom: retries, Xid 62 or 79.
    Source: sysfs aer_dev_{correctable,nonfatal,fatal}; own thresholds.
    """
    links = known((now.host.links if now.host else ()) or None, "the PCIe links")
    limits = {"aer_fatal": 1, "aer_nonfatal": NONFATAL_MANY, "aer_correctable": CORRECTABLE_MANY}
    told = False
    for link in links:
        for name, least in limits.items():
            count = getattr(link, name)
            told = told or count is not None
            if count is not None and count >= least:
                kind = name.removeprefix("aer_")
                yield say(f"{count} {kind} PCIe errors since the machine started", link.bus_id, f"< {least}", count)
    if not told:
        raise CannotTell("the AER counters: this kernel shows none")


@check(at="quick", needs=(NVML,), domain="host", severity="warn", fix=RESEAT)
def gpu_links_replay_little(now: Snapshot) -> Iterator[Finding]:
    """No GPU had to send many PCIe packets again.

    Symptom: copies that are slower now and then.
    Source: nvmlDeviceGetPcieReplayCounter; own threshold.
    """
    gpus = now.host.gpus if now.host else ()
    yield from silent([(gpu.bus_id, gpu.pcie_replays) for gpu in gpus], "the count of PCIe replays")
    for gpu in gpus:
        if gpu.pcie_replays is not None and gpu.pcie_replays >= REPLAYS_MANY:
            text = f"{gpu.pcie_replays} PCIe packets were sent again"
            yield say(text, gpu.bus_id, f"< {REPLAYS_MANY}", gpu.pcie_replays)
