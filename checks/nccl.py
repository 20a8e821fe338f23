"""NCCL: its version, what it is told, and what it falls back to."""

from checks import CannotTell, Need, check, known, say
from checks.needs import BUS, GPU, GPUS, HOST, PINS, SOLD_HCAS
from checks.rails import effective, fabric, gravity, rails
from rig.finding import Finding
from rig.lean import Iterator
from rig.plan.gdr import CONSUMER
from rig.plan.hca import is_efa, reachable
from rig.plan.nccl_facts import Version, listed
from rig.plan.nccl_match import matches
from rig.plan.nccl_vars import dotted
from rig.snapshot import Snapshot

PIN = "NCCL_VERSION"
# Compute capability -> the first NCCL that knows it, newest first. Source: NCCL's release notes.
KNOWS: tuple[tuple[int, Version], ...] = ((10, (2, 25, 1)), (9, (2, 16, 2)), (8, (2, 7, 8)))
CORRUPTS: tuple[tuple[Version, Version], ...] = (((2, 18, 1), (2, 18, 3)),)  # from, up to but without
# Findings of the plan about a variable of the user that the facts contradict.
CONTRADICTIONS = (
    "GID_ROCE_V1", "GID_LINK_LOCAL", "HCA_FILTER_EMPTY", "HCA_FILTER_TOO_WIDE", "HCA_FILTER_NARROW", "HCA_NEEDS_EXACT",
    "SOCKET_IF_NOT_FOUND", "SOCKET_IF_LOOPBACK", "SOCKET_IF_AMBIGUOUS", "LEVEL_UNKNOWN", "GDR_LEVEL_NARROW",
    "IB_DISABLED_BY_USER", "ADDR_FAMILY_UNKNOWN", "NCCL_VARIABLE_UNREAD",
)  # fmt: skip
FORBIDDING = ("IB_DISABLED_BY_USER", "HCA_FILTER_EMPTY")  # of these the ones that keep NCCL from RDMA
LOUD = ("INFO", "TRACE", "ABORT")
EFA = Need("efa", "no EFA device here", lambda now: any(map(is_efa, now.machine.hcas)))
CONSUMER_GPUS = Need("consumer-gpus", "no consumer GPUs side by side here", lambda now: _consumer(now))


def _consumer(now: Snapshot) -> bool:
    gpus = now.machine.gpus
    return len(gpus) > 1 and all(any(word in (gpu.model or "").lower() for word in CONSUMER) for gpu in gpus)


@check(at="boot", needs=(GPU,), domain="image", fix="Use an image with a newer NCCL")
def nccl_knows_these_gpus(now: Snapshot) -> Iterator[Finding]:
    """The image's NCCL is new enough for the generation of the GPUs.

    Hopper asks for 2.16, Blackwell for 2.25. Older ones start and then fail or crawl: they hold no code for the GPU,
    and no tuning for its NVLink.

    Symptom: `no kernel image is available` in the first collective; a slow H100.
    Source: NCCL's release notes; mila-iqia/milabench#183.
    """
    version = known(now.machine.libraries.nccl_version, "the version of NCCL")
    told = [gpu for gpu in now.machine.gpus if gpu.capability is not None]
    newest = max(known(told or None, "the GPUs' compute capability"), key=lambda gpu: gpu.capability or (0, 0))
    major = (newest.capability or (0, 0))[0]
    least = next((first for generation, first in KNOWS if major >= generation), None)
    if least is not None and version < least:
        text = f"NCCL {dotted(version)} is older than {newest.model}: it needs {dotted(least)}"
        yield say(text, "NCCL", dotted(least), dotted(version))


@check(at="boot", needs=(BUS,), domain="user", severity="warn", fix="Unset the variable", covers=CONTRADICTIONS)
def nccl_variables_fit_the_machine(now: Snapshot) -> Iterator[Finding]:
    """No NCCL variable of the user contradicts what was found.

    They are left as they are: what the user says wins. Told are filters that match nothing, entries of the GID table
    that cannot be routed, levels that NCCL does not know, and variables that this version does not read. What forbids
    RDMA that was sold is nccl_can_use_the_sold_rdma's.

    Symptom: sockets in place of InfiniBand, or a hang, and no error.
    Source: NCCL misc/utils.cc, transport/net_ib.cc; NVIDIA/nccl#426, #769.
    """
    others = FORBIDDING if now.expected.hcas and _forbidden(now) else ()
    mine = [one for one in now.plan.findings if one.id in CONTRADICTIONS and one.id not in others]
    for one in mine:
        if one.domain == "user" and one.outcome in ("warn", "fail"):
            yield say(one.text, one.subject, one.want, one.got, one.fix)


@check(
    at="boot",
    needs=(SOLD_HCAS,),
    domain="user",
    fix="Unset the variable; `rig plan --explain` shows what NCCL will use then",
    covers=FORBIDDING,
)
def nccl_can_use_the_sold_rdma(now: Snapshot) -> Iterator[Finding]:
    """No variable keeps NCCL from RDMA that was sold and is there.

    NCCL takes TCP then, without an error. What is missing or down is told by the family rdma, the plugin of EFA by
    efa_has_its_plugin.

    Symptom: `NET/IB : No device found`, `Using network Socket`; a few GB/s where 50 were sold.
    Source: NCCL transport/net_ib.cc (ncclIbInitDevices); NCCL documentation, NCCL_NET and NCCL_IB_DISABLE.
    """
    reason = _forbidden(now)
    if reason:
        yield say(f"NCCL falls back to TCP between nodes: {reason}", "NCCL", "RDMA", "TCP")


def _forbidden(now: Snapshot) -> str | None:
    """What keeps NCCL from RDMA that it could use; None where nothing does."""
    if not any(map(reachable, fabric(now))):
        return None
    found, wanted, net = rails(now), effective(now, "NCCL_IB_HCA"), effective(now, "NCCL_NET") or ""
    if net.lower() == "socket":
        return f"NCCL_NET={net}"
    if found and effective(now, "NCCL_IB_DISABLE") == "1":
        return "NCCL_IB_DISABLE=1"
    if found and wanted and not any(matches(wanted, one.hca.name, one.port.number) for one in found):
        return f"NCCL_IB_HCA={wanted} matches none of {listed(one.hca.name for one in found)}"
    return None


@check(
    at="boot",
    needs=(EFA,),
    domain="image",
    fix="Install aws-ofi-nccl and libfabric with its efa provider in the image",
    covers=("EFA_NEEDS_PLUGIN",),
)
def efa_has_its_plugin(now: Snapshot) -> Iterator[Finding]:
    """Where the network is EFA, the image has the plugin that drives it.

    NCCL's own transport skips EFA devices: without the plugin all traffic is TCP.

    Symptom: `NET/Plugin: Could not find libnccl-net.so`, `Using network Socket`.
    Source: NCCL net.cc; aws/aws-ofi-nccl's README.
    """
    if not now.machine.libraries.net_plugins:
        text = "EFA without a network plugin: NCCL uses TCP"
        yield say(text, "libnccl-net.so", True, False, outcome=gravity(now))


@check(
    at="boot",
    needs=(GPUS,),
    domain="user",
    fix="One MIG instance a card, or whole GPUs",
    covers=("MIG_MULTI_RANK",),
)
def nccl_gets_one_rank_a_card(now: Snapshot) -> Iterator[Finding]:
    """No two ranks share one PCI device.

    NCCL tells ranks apart by the bus id of their GPU, so MIG instances of one card cannot take part in one job.

    Symptom: `Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 7000`.
    Source: NCCL init.cc.
    """
    buses = [gpu.bus_id for gpu in now.machine.gpus if gpu.bus_id is not None]
    twice = sorted({bus for bus in buses if buses.count(bus) > 1})
    if twice:
        yield say(f"{len(buses)} GPU instances share {listed(twice)}", listed(twice), "one a card", len(buses))


@check(
    at="boot",
    needs=(CONSUMER_GPUS,),
    domain="user",
    fix="NCCL_P2P_DISABLE=1, and unset NCCL_P2P_LEVEL",
    covers=("P2P_BROKEN",),
)
def peer_access_is_off_where_it_is_broken(now: Snapshot) -> Iterator[Finding]:
    """On consumer cards that cannot reach each other NCCL is told not to try.

    Some drivers grant peer access on such cards that does not work. The plan switches it off; a variable of the user
    that switches it on again wins, and the run hangs.

    Symptom: a hang or NaN with two RTX 4090, none with one.
    Source: NVIDIA/nccl-tests#117, tinygrad/open-gpu-kernel-modules#17, #45.
    """
    known([gpu.p2p for gpu in now.machine.gpus if gpu.p2p is not None] or None, "whether the driver grants peer access")
    broken = any(one.id == "P2P_BROKEN" for one in now.plan.findings)
    off = effective(now, "NCCL_P2P_DISABLE") == "1" or effective(now, "NCCL_P2P_LEVEL") in ("LOC", "0")
    if broken and not off:
        text = f"{now.machine.gpus[0].model}: peer access does not work, and NCCL is left to use it"
        yield say(text, "NCCL_P2P_DISABLE", "1", effective(now, "NCCL_P2P_DISABLE"))
    elif now.environ.get("NCCL_P2P_LEVEL") and not off and any(gpu.p2p is False for gpu in now.machine.gpus):
        level = now.environ["NCCL_P2P_LEVEL"]
        text = f"NCCL_P2P_LEVEL={level} asks for peer access that {now.machine.gpus[0].model} does not have"
        yield say(text, "NCCL_P2P_LEVEL", None, level, outcome="warn")


@check(at="quick", needs=(PINS,), domain="image", fix="Rebuild the image: another layer replaced NCCL")
def nccl_is_the_pinned_one(now: Snapshot) -> Iterator[Finding]:
    """The NCCL file that programs will load has the pinned version.

    The version is read from the library. torch's own word is the one that it was built with.

    Symptom: believed 2.21, ran 2.18.
    Source: pins.toml; pytorch/pytorch#122571, #119072, verl-project/verl#6621.
    """
    found, want = (
        known(now.machine.libraries.nccl_version, "the version of NCCL"),
        str(known(now.pins.get(PIN), "the pinned version of NCCL")),
    )
    if dotted(found) != want.partition("-")[0]:
        yield say(f"NCCL is {dotted(found)}, {want} is pinned", "NCCL", want, dotted(found))


@check(at="quick", needs=(GPUS,), domain="image", fix="Use NCCL 2.18.3 or newer")
def nccl_is_none_that_corrupts(now: Snapshot) -> Iterator[Finding]:
    """The NCCL in use has no known fault that corrupts data.

    2.18.1, which the torch 2.1 wheels bring, can corrupt data with Tree and LL128, and with CollNet.

    Symptom: a loss that is wrong now and then on several nodes.
    Source: NCCL's notes on 2.18.3; pytorch/pytorch#111677, #113245.
    """
    version = known(now.machine.libraries.nccl_version, "the version of NCCL")
    for first, fixed in CORRUPTS:
        if first <= version < fixed:
            text = f"NCCL {dotted(version)} can corrupt data in collectives; fixed in {dotted(fixed)}"
            yield say(text, "NCCL", f">= {dotted(fixed)}", dotted(version))


@check(
    at="quick",
    needs=(GPU, HOST),
    domain="image",
    fix="Unset NCCL_TOPO_FILE, or use the file of this instance type",
    covers=("TOPO_FILE_MISMATCH",),
)
def topology_file_is_of_this_machine(now: Snapshot) -> Iterator[Finding]:
    """The topology file that NCCL is given describes this machine.

    One of another kind makes NCCL build its rings for hardware that is not there; the machine then looks broken.

    Symptom: 15 GB/s on a healthy H200 node.
    Source: NCCL graph/topo.cc; Azure/azurehpc-health-checks#142, #143.
    """
    for one in now.plan.findings:
        if one.id == "TOPO_FILE_MISMATCH":
            yield say(one.text, one.subject, one.want, one.got, one.fix, outcome="warn", domain=one.domain)
    host, path = known(now.host, "the topology file"), now.environ.get("NCCL_TOPO_FILE")
    if path is None and effective(now, "NCCL_TOPO_FILE") is not None:
        return  # the plan's own, which it has compared
    path = path or host.topology_file
    if path is None:
        return
    if host.topology_file != path:
        raise CannotTell(f"{path} was not read")
    if host.topology_buses is None:
        yield say(f"{path} is missing, or is no topology file: NCCL warns and goes without", path, outcome="warn")
        return
    buses = [gpu.bus_id for gpu in now.machine.gpus if gpu.bus_id is not None]
    lost = [bus for bus in buses if bus not in host.topology_buses]
    if lost:
        text = f"{path} does not know {len(lost)} of {len(buses)} GPUs ({listed(lost, 2)})"
        yield say(text, path, buses, list(host.topology_buses))


@check(at="quick", needs=(GPU,), domain="user", severity="warn", fix="Unset NCCL_DEBUG, or set it to WARN")
def nccl_is_not_left_talking(now: Snapshot) -> Iterator[Finding]:
    """NCCL's debug output is not left on.

    INFO writes hundreds of lines a rank at start, TRACE slows every call.

    Symptom: logs of gigabytes, output that is not the program's own.
    Source: NCCL debug.cc.
    """
    level = (now.environ.get("NCCL_DEBUG") or "").upper()
    if level in LOUD and not now.environ.get("NCCL_DEBUG_FILE"):
        yield say(f"NCCL_DEBUG={level} is on", "NCCL_DEBUG", "WARN", level)
