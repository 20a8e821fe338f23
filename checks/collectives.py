"""GPUs that talk: copies between two, an all-reduce in the node and through the network transport."""

from checks import CannotTell, Need, check, known, say
from checks.floors import KNOWN_KIND, Figure, Kind, kind_of, stragglers
from checks.measured import Row, all_ranks, pair_rows
from checks.needs import GPUS, NVLINKED, NVSWITCH, RAILS, TORCH
from checks.rails import gravity
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import Gpu
from rig.snapshot import Snapshot

LONG = 1 << 62  # a message that is long enough for every figure
KEYS = {"nccl_node": "in the node", "nccl_network": "through the network transport"}


def _nvlink_pairs(now: Snapshot) -> dict[str, tuple[Row, Gpu, Gpu]]:
    """Pairs of GPUs that NVLink joins directly or by a switch, and whose copies arrived."""
    gpus = {gpu.bus_id: gpu for gpu in now.machine.gpus}
    found = {}
    for row in pair_rows(now, "gpu_p2p"):
        a, b = gpus[row["a"]], gpus[row["b"]]
        if row.get("gb_s") is not None and ((a.nvswitch and b.nvswitch) or b.bus_id in a.nvlink_peers):
            found[f"{row['a']} -> {row['b']}"] = (row, a, b)
    return known(found or None, "copies over NVLink")  # type: ignore[no-any-return]


def _one_kind(now: Snapshot) -> tuple[Kind | None, int | None]:
    """The kind and the links of all GPUs, where they are the same."""
    kinds = {kind_of(now.machine, gpu.bus_id) for gpu in now.machine.gpus}
    links = {gpu.nvlinks for gpu in now.machine.gpus}
    return (next(iter(kinds)) if len(kinds) == 1 else None), (next(iter(links)) if len(links) == 1 else None)


def _nvlink_floor(now: Snapshot, a: Gpu, b: Gpu) -> tuple[Kind, Figure] | None:
    """Of two GPUs of one kind with all their links; fewer links are the business of the family nvlink."""
    kind = kind_of(now.machine, a.bus_id)
    if kind is None or kind is not kind_of(now.machine, b.bus_id) or not a.nvlinks == b.nvlinks == kind.nvlinks:
        return None
    floor = kind.figure("nvlink", "floor", links=a.nvlinks)
    return (kind, floor) if floor else None


def _busbw(now: Snapshot, is_: str) -> tuple[Kind, Figure] | None:
    """What an all-reduce of these GPUs reaches; of this number and message, once they were measured."""
    kind, links = _one_kind(now)
    probe = now.probes.get("nccl_node")
    data = probe.data if probe is not None and probe.state == "ok" else {}
    gpus, size = data.get("gpus", len(now.machine.gpus)), data.get("bytes", LONG)
    figure = kind.figure("busbw", is_, gpus, links, size) if kind else None
    return (kind, figure) if kind and figure else None


LINKS_FLOOR = Need(
    "floor-nvlink",
    "checks/floors.toml has no floor of nvlink for GPUs of this kind with as many links",
    lambda now: any(_nvlink_floor(now, one, one) for one in now.machine.gpus),
)
RING_FLOOR = Need(
    "floor-busbw",
    "checks/floors.toml has no floor of busbw for this kind and number of GPUs, these links and so short a message",
    lambda now: bool(_busbw(now, "floor") or _busbw(now, "nvls")),
)


@check(
    at="full",
    needs=(GPUS, TORCH),
    domain="platform",
    fix="export NCCL_P2P_DISABLE=1; for good: a driver, an IOMMU and an ACS setting that let peers talk",
    probe="gpu_p2p",
)
def copies_between_gpus_arrive(now: Snapshot) -> Iterator[Finding]:
    """What one GPU sends to another arrives as it was sent, for each pair.

    Boards without peer access may claim it all the same; an IOMMU or ACS in the way can turn data to garbage. Measured
    with real data, beside what the driver claims.

    Symptom: a hang in the first all-reduce, or NaN; only with two GPUs and more.
    Source: NVIDIA/nccl-tests#117, tinygrad/open-gpu-kernel-modules#17, #45; NVIDIA/nccl#606, #631.
    """
    for row in pair_rows(now, "gpu_p2p"):
        name, claims = f"{row['a']} -> {row['b']}", "though" if row.get("claimed") else "and"
        peer = "peer access" if row.get("claimed") else "no peer access"
        if row.get("right") is False:
            text = f"{name}: wrong data arrived, {claims} the driver claims {peer}"
            yield say(text, name, "equal data", "different data")
        elif row.get("error"):
            yield say(f"{name}: {row['error']}, {claims} the driver claims {peer}", name)
        elif row.get("right") is None:
            yield say(f"{name}: what arrived is not known", name, outcome="unknown")


@check(
    at="full",
    needs=(GPUS, NVLINKED, TORCH, KNOWN_KIND, LINKS_FLOOR),
    domain="host",
    fix="ask the host to look at these NVLinks",
    probe="gpu_p2p",
)
def copies_over_nvlink_reach_their_floor(now: Snapshot) -> Iterator[Finding]:
    """Two GPUs that NVLink joins exchange data as fast as others of their kind and link count.

    Asked only where all links of the board are up: fewer is the business of the family nvlink, and twelve links on a
    H100 NVL are all it has.

    Symptom: all-reduce at 40 % of what it should be.
    Source: Azure/azurehpc-health-checks (235 GB/s on A100, 335 on H100), #162.
    """
    pairs = [(name, row, _nvlink_floor(now, a, b)) for name, (row, a, b) in _nvlink_pairs(now).items()]
    judged = [(name, row, *floor) for name, row, floor in pairs if floor]
    for name, row, kind, floor in known(judged or None, "copies between GPUs of a kind with a floor"):
        if row["gb_s"] < floor.value:
            text = f"{name}: {row['gb_s']:g} GB/s over NVLink; {kind.name}: {floor.value:g} at least"
            yield say(text, name, floor.value, row["gb_s"], evidence=floor.source)


@check(
    at="full",
    needs=(GPUS, NVSWITCH, TORCH),
    domain="host",
    severity="warn",
    fix="ask the host to look at these NVLinks",
    probe="gpu_p2p",
)
def copies_through_the_nvswitch_are_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No pair of GPUs behind NVSwitches is more than 10 % slower than the others.

    The switches give each pair the whole of its links. Boards without them differ by design, so they are not compared.

    Symptom: one rank slows every all-reduce.
    Source: own rule; imbue-ai/cluster-health and Azure/azurehpc-health-checks measure pairs against constants.
    """
    pairs = {name: row["gb_s"] for name, (row, a, b) in _nvlink_pairs(now).items() if a.nvswitch and b.nvswitch}
    for name, usual in stragglers(known(pairs or None, "copies through the NVSwitch"), 0.1):
        text = f"{name}: {pairs[name]:g} GB/s, the other pairs {usual:g}"
        yield say(text, name, usual, pairs[name])


def _all_reduce(now: Snapshot, probe: str, outcome: str = "") -> Iterator[Finding]:
    """Whether it ended, and with the right sum."""
    data = all_ranks(now, probe, "gpus")
    codes = data["codes"]
    failed = [str(rank) for rank, code in enumerate(codes) if code]
    if failed:
        log = data.get("log") or ()
        why = data.get("error") or (log[0] if log else f"exit codes {codes}")
        text = f"an all-reduce {KEYS[probe]} failed on rank {', '.join(failed)}: {why}"
        yield say(text, "NCCL", evidence=str(log[0]) if log else "", outcome=outcome)
    elif known(data.get("right"), f"whether the sum of {probe} is right") is False:
        yield say(f"an all-reduce {KEYS[probe]} gave a wrong sum", "NCCL", "the sum", "other numbers", outcome=outcome)


@check(
    at="full",
    needs=(GPUS, TORCH),
    domain="host",
    fix="read NCCL's warning; with NCCL_P2P_DISABLE=1 it is peer access, with NCCL_NVLS_ENABLE=0 the fabric manager",
    probe="nccl_node",
)
def all_reduce_in_the_node_sums_up(now: Snapshot) -> Iterator[Finding]:
    """An all-reduce over all GPUs ends, and each number of it is right.

    Exit codes count, not the last line of a log: a tool that ended with an allocation error was taken for a pass.

    Symptom: training hangs or dies in the first step.
    Source: NVIDIA/DCGM#284; NVIDIA/NVSentinel#763.
    """
    yield from _all_reduce(now, "nccl_node")


@check(
    at="full",
    needs=(GPUS, TORCH, KNOWN_KIND, RING_FLOOR),
    domain="host",
    fix="ask the host: NVLink, fabric manager, PCIe topology; unset a NCCL_TOPO_FILE that is not this machine's",
    probe="nccl_node",
)
def all_reduce_in_the_node_reaches_its_floor(now: Snapshot) -> Iterator[Finding]:
    """The all-reduce is as fast as on others of the kind, with as many GPUs, as many links and as long a message.

    Boards without NVLink have 20 GB/s, which is right for them. Floors stay below what the links can carry, and are not
    asked of messages that are too short to reach them.

    Symptom: adding GPUs makes it slower.
    Source: checks/floors.toml; NVIDIA/nccl-tests#149, #212, Azure/azurehpc-health-checks#142, #162.
    """
    data = all_ranks(now, "nccl_node", "gpus")
    rate = known(data.get("busbw_gb_s"), "the bus bandwidth in the node")
    known(data.get("bytes"), "the length of the message")
    what = f"all-reduce of {data['gpus']} GPUs: {rate:g} GB/s"
    if (found := _busbw(now, "floor")) and rate < found[1].value:
        kind, floor = found
        text = f"{what}; {kind.name}: {floor.value:g} at least"
        yield say(text, "NCCL", floor.value, rate, evidence=floor.source)
    elif (found := _busbw(now, "nvls")) and rate < found[1].value:
        kind, best = found
        how = "" if data.get("nvls") else "not "
        text = f"{what}; {kind.name}: {best.value:g} with NVLink SHARP, which was {how}set up"
        yield say(text, "NCCL", best.value, rate, outcome="warn", evidence=best.source)


@check(
    at="full",
    needs=(GPUS, TORCH),
    domain="host",
    fix="read NCCL's warning; then rig check --only rdma,ports,roce,limits,gpudirect --level full",
    probe="nccl_network",
)
def all_reduce_through_the_network_sums_up(now: Snapshot) -> Iterator[Finding]:
    """The same all-reduce is right when it goes through the network transport of this one node.

    What two nodes would use, tried without the second: peer access and shared memory are off. A failure where RDMA was
    sold or the job has several nodes; one node alone does not need it.

    Symptom: one node trains, two hang.
    Source: microsoft/superbenchmark (GPUDirect RDMA in one node); NVIDIA/nccl#1131.
    """
    yield from _all_reduce(now, "nccl_network", gravity(now))


@check(
    at="full",
    needs=(GPUS, TORCH, RAILS),
    domain="image",
    fix="rig check --only rdma,roce,limits,identity names the cause: libibverbs, its provider, GIDs, memlock",
    probe="nccl_network",
)
def network_transport_uses_rdma(now: Snapshot) -> Iterator[Finding]:
    """NCCL talks through the RDMA ports that carry a job's traffic, not through sockets.

    It falls back without a word; its log says `NET/Socket`. Asked only where such a port is up and this process can
    open its device; a failure where RDMA was sold or the job has several nodes.

    Symptom: ten times slower than sold, no error.
    Source: NVIDIA/nvidia-container-toolkit#1877, NVIDIA/nccl-tests#206.
    """
    nets = all_ranks(now, "nccl_network", "gpus").get("nets")
    if not nets:
        raise CannotTell("NCCL's log names no network transport")
    if "Socket" in nets:
        off = now.environ.get("NCCL_IB_DISABLE") == "1" or now.environ.get("NCCL_NET") == "Socket"
        fix = "unset NCCL_IB_DISABLE and NCCL_NET" if off else ""
        domain, text = "user" if off else "", "NCCL uses NET/Socket, though RDMA devices are there"
        yield say(text, "NCCL", "NET/IB", "NET/Socket", fix, domain=domain, outcome=gravity(now))
