"""GPUs that talk: copies between two, an all-reduce in the node and through the network transport."""

from checks import CannotTell, check, known, say
from checks.floors import Kind, kind_of, stragglers
from checks.measured import rows_of, told
from checks.needs import GPUS, NVLINKED, NVSWITCH, RDMA
from rig.finding import Finding
from rig.lean import Any, Iterator, Mapping
from rig.machine import Gpu
from rig.snapshot import Snapshot

KEYS = {"nccl_node": "in the node", "nccl_network": "through the network transport"}


def _nvlink_pairs(now: Snapshot) -> dict[str, tuple[Mapping[str, Any], Gpu, Gpu]]:
    """Pairs of GPUs that NVLink joins directly or by a switch."""
    gpus = {gpu.bus_id: gpu for gpu in now.machine.gpus}
    found = {}
    for row in rows_of(now, "gpu_p2p", "pairs"):
        a, b = gpus.get(row["a"]), gpus.get(row["b"])
        if a and b and row.get("gb_s") and ((a.nvswitch and b.nvswitch) or b.bus_id in a.nvlink_peers):
            found[f"{row['a']} -> {row['b']}"] = (row, a, b)
    return known(found or None, "copies over NVLink")  # type: ignore[no-any-return]


def _one_kind(now: Snapshot) -> tuple[Kind | None, int | None]:
    """The kind and the links of all GPUs, where they are the same."""
    kinds = {kind_of(now.machine, gpu.bus_id) for gpu in now.machine.gpus}
    links = {gpu.nvlinks for gpu in now.machine.gpus}
    return (next(iter(kinds)) if len(kinds) == 1 else None), (next(iter(links)) if len(links) == 1 else None)


@check(
    at="full",
    needs=(GPUS,),
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
    for row in rows_of(now, "gpu_p2p", "pairs"):
        name, claims = f"{row['a']} -> {row['b']}", "though" if row.get("claimed") else "and"
        peer = "peer access" if row.get("claimed") else "no peer access"
        if row.get("right") is False:
            text = f"{name}: wrong data arrived, {claims} the driver claims {peer}"
            yield say(text, name, "equal data", "different data")
        elif row.get("error"):
            yield say(f"{name}: {row['error']}, {claims} the driver claims {peer}", name)


@check(at="full", needs=(GPUS, NVLINKED), domain="host", fix="ask the host to look at these NVLinks", probe="gpu_p2p")
def copies_over_nvlink_reach_their_floor(now: Snapshot) -> Iterator[Finding]:
    """Two GPUs that NVLink joins exchange data as fast as others of their kind and link count.

    Asked only where all links of the board are up: fewer is the business of the family nvlink, and twelve links on a
    H100 NVL are all it has.

    Symptom: all-reduce at 40 % of what it should be.
    Source: Azure/azurehpc-health-checks (235 GB/s on A100, 335 on H100), #162.
    """
    for name, (row, a, b) in _nvlink_pairs(now).items():
        kind = kind_of(now.machine, a.bus_id)
        if kind is None or kind is not kind_of(now.machine, b.bus_id) or a.nvlinks != kind.nvlinks:
            continue
        floor = kind.figure("nvlink", "floor", links=a.nvlinks)
        if floor and row["gb_s"] < floor.value:
            text = f"{name}: {row['gb_s']:g} GB/s over NVLink; {kind.name}: {floor.value:g} at least"
            yield say(text, name, floor.value, row["gb_s"], evidence=floor.source)


@check(
    at="full",
    needs=(GPUS, NVSWITCH),
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
    for name, usual in stragglers(pairs, 0.1):
        text = f"{name}: {pairs[name]:g} GB/s, the other pairs {usual:g}"
        yield say(text, name, usual, pairs[name])


def _all_reduce(now: Snapshot, probe: str) -> Iterator[Finding]:
    """Whether it ended, and with the right sum."""
    data = told(now, probe)
    codes = known(data.get("codes"), f"the exit codes of {probe}")
    failed = [str(rank) for rank, code in enumerate(codes) if code]
    if failed:
        log = data.get("log") or ()
        why = data.get("error") or (log[0] if log else f"exit codes {codes}")
        text = f"an all-reduce {KEYS[probe]} failed on rank {', '.join(failed)}: {why}"
        yield say(text, "NCCL", evidence=str(log[0]) if log else "")
    elif known(data.get("right"), f"whether the sum of {probe} is right") is False:
        yield say(f"an all-reduce {KEYS[probe]} gave a wrong sum", "NCCL", "the sum", "other numbers")


@check(
    at="full",
    needs=(GPUS,),
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
    needs=(GPUS,),
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
    data = told(now, "nccl_node")
    rate = known(data.get("busbw_gb_s"), "the bus bandwidth in the node")
    kind, links = _one_kind(now)
    if kind is None:
        return
    floor = kind.figure("busbw", "floor", data.get("gpus"), links, data.get("bytes"))
    best = kind.figure("busbw", "nvls", data.get("gpus"), links, data.get("bytes"))
    what = f"all-reduce of {data.get('gpus')} GPUs: {rate:g} GB/s; {kind.name}"
    if floor and rate < floor.value:
        yield say(f"{what}: {floor.value:g} at least", "NCCL", floor.value, rate, evidence=floor.source)
    elif best and rate < best.value:
        text = f"{what}: {best.value:g} with NVLink SHARP, which was {'' if data.get('nvls') else 'not '}set up"
        yield say(text, "NCCL", best.value, rate, outcome="warn", evidence=best.source)


@check(
    at="full",
    needs=(GPUS,),
    domain="host",
    fix="read NCCL's warning; then rig check --only rdma,gpudirect",
    probe="nccl_network",
)
def all_reduce_through_the_network_sums_up(now: Snapshot) -> Iterator[Finding]:
    """The same all-reduce is right when it goes through the network transport of this one node.

    What two nodes would use, tried without the second: peer access and shared memory are off.

    Symptom: one node trains, two hang.
    Source: microsoft/superbenchmark (GPUDirect RDMA in one node); NVIDIA/nccl#1131.
    """
    yield from _all_reduce(now, "nccl_network")


@check(
    at="full",
    needs=(RDMA, GPUS),
    domain="image",
    fix="rig check --only rdma,identity names the cause: libibverbs, /dev/infiniband, memlock, GIDs",
    probe="nccl_network",
)
def network_transport_uses_rdma(now: Snapshot) -> Iterator[Finding]:
    """NCCL talks through the RDMA devices that are there, not through sockets.

    It falls back without a word; its log says `NET/Socket`.

    Symptom: ten times slower than sold, no error.
    Source: NVIDIA/nvidia-container-toolkit#1877, NVIDIA/nccl-tests#206.
    """
    if not any(port.state == "ACTIVE" for hca in now.machine.hcas for port in hca.ports):
        raise CannotTell("no RDMA port is active")
    nets = told(now, "nccl_network").get("nets")
    if not nets:
        raise CannotTell("NCCL's log names no network transport")
    if "Socket" in nets:
        off = now.environ.get("NCCL_IB_DISABLE") == "1" or now.environ.get("NCCL_NET") == "Socket"
        fix = "unset NCCL_IB_DISABLE and NCCL_NET" if off else ""
        domain = "user" if off else ""
        yield say(
            "NCCL uses NET/Socket, though RDMA devices are there", "NCCL", "NET/IB", "NET/Socket", fix, domain=domain
        )
