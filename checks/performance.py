"""What the GPUs reach: compared with one another first, then with what their kind reaches elsewhere (floors.toml)."""

from checks import CannotTell, Need, check, known, say
from checks.floors import PEERS, alike, floor_of, floored, pcie, rdma_floor_share, stragglers
from checks.measured import Row, gpu_rows, port_rows, rates_of
from checks.needs import GPU, GPUS, LINKS, PERFTEST, RAILS, TORCH
from checks.rails import gravity, rails
from rig.finding import Finding
from rig.lean import Iterable, Iterator, Mapping
from rig.snapshot import Snapshot

TOGETHER_SHARE = 0.15  # slower beside the others than alone: more than chips of one power limit differ
WORST_SHARE = 0.5  # of a PCIe link
RETURN = "ask the host to look at this GPU, or return the machine"
KINDS = ("bf16", "fp16")


def _slow_ones(
    now: Snapshot, rows: Iterable[Row], key: str, share: float, unit: str, what: str, *, not_all: bool = False
) -> Iterator[Finding]:
    """Those that are slow among their like. `not_all`: a kind may have none of these rates."""
    by_id = {row["bus_id"]: row for row in rows}
    groups = [[by_id[one] for one in group] for group in alike(now.machine, by_id) if len(group) > 1]
    if not groups:
        raise CannotTell("no two GPUs of one kind were measured")
    for group in groups:
        if not_all and all(row.get(key) is None for row in group):
            continue
        rates = rates_of(group, key)
        for bus_id, usual in stragglers(rates, share):
            rate = rates[bus_id]
            text = f"GPU {bus_id}: {what} {rate:g} {unit}, the others {usual:g}: {1 - rate / usual:.0%} less"
            yield say(text, bus_id, usual, rate)


def _below_floor(now: Snapshot, rows: Iterable[Row], what: str, **keys: str) -> Iterator[Finding]:
    """GPUs below the floor of their kind; `keys`: what the table calls it -> what the probe does."""
    for row in rows:
        bus_id = row["bus_id"]
        floors = [(key, found) for of, key in keys.items() if (found := floor_of(now.machine, bus_id, of))]
        if not floors:  # beside others whose kind is known
            yield say(f"GPU {bus_id}: its kind has no floor in checks/floors.toml", bus_id, outcome="unknown")
        for key, (kind, floor) in floors:
            rate = row.get(key)
            if rate is None:
                yield say(f"GPU {bus_id}: {key} is not known", bus_id, outcome="unknown")
            elif rate < floor.value:
                kinds = f"{floor.of} {what}" if floor.of in KINDS else what
                text = f"GPU {bus_id}: {kinds} {rate:g} {floor.unit}; {kind.name}: {floor.value:g} at least"
                yield say(text, bus_id, floor.value, rate, evidence=floor.source)


@check(at="full", needs=(GPUS, PEERS, TORCH), domain="host", severity="warn", fix=RETURN, probe="gpu_memory")
def gpu_memory_is_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No GPU's memory is more than 5 % slower than that of the others.

    A degrading stack of HBM shows under load only, long before an error is counted. Compared inside the node, so it
    holds for kinds that no table knows.

    Symptom: one rank is always last; the optimizer step is slow.
    Source: NVIDIA/NVSentinel#1748; microsoft/superbenchmark (5 %).
    """
    yield from _slow_ones(now, gpu_rows(now, "gpu_memory"), "copy_gb_s", 0.05, "GB/s", "memory copies")


@check(at="full", needs=(GPU, TORCH, *floored("memory", "hbm")), domain="host", fix=RETURN, probe="gpu_memory")
def gpu_memory_reaches_its_floor(now: Snapshot) -> Iterator[Finding]:
    """The memory of each GPU is as fast as its kind's is elsewhere.

    The floor is three quarters of what was measured, not of the datasheet. A kind without a row is compared with its
    peers, and skipped here by name.

    Symptom: the whole machine trains slower than one like it.
    Source: NVIDIA/DCGM 4.6.0, diag tables by PCI id; checks/floors.toml.
    """
    yield from _below_floor(now, gpu_rows(now, "gpu_memory"), "memory copies", hbm="copy_gb_s")


@check(at="full", needs=(GPUS, PEERS, TORCH), domain="host", severity="warn", fix=RETURN, probe="gpu_copy")
def copies_to_the_gpus_are_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No GPU's copies from and to the host are more than 5 % slower than those of the others.

    Each GPU is asked alone, so a slow one has a narrow or slow link, or sits behind another socket.

    Symptom: one rank waits for its batches; offloading is slow on one GPU.
    Source: microsoft/superbenchmark (5 %).
    """
    rows = gpu_rows(now, "gpu_copy")
    yield from _slow_ones(now, rows, "h2d_gb_s", 0.05, "GB/s", "copies from the host")
    yield from _slow_ones(now, rows, "d2h_gb_s", 0.05, "GB/s", "copies to the host")


@check(at="full", needs=(GPU, LINKS, TORCH), domain="host", fix=RETURN, probe="gpu_copy")
def copies_to_the_gpus_fill_the_link(now: Snapshot) -> Iterator[Finding]:
    """Copies of pinned memory use what the PCIe link has, as it was under load.

    Below half of the link's rate it is a failure, below its floor a warning. The floors hold for 16 lanes, fewer are
    scaled; whether generation and width are what they should be is asked by the family pcie.

    Symptom: 12 GB/s instead of 55.
    Source: Azure/azurehpc-health-checks (48 GB/s on Gen5, 21 on Gen4, 9 on Gen3).
    """
    for row in gpu_rows(now, "gpu_copy"):
        link = pcie(row.get("pcie_gen_load") or 0)
        width = row.get("pcie_width_load")
        if link is None or not width:
            text = f"GPU {row['bus_id']}: its PCIe link under load is not known"
            yield say(text, row["bus_id"], outcome="unknown")
            continue
        for key, way in (("h2d_gb_s", "from"), ("d2h_gb_s", "to")):
            rate, floor, most = known(row.get(key), key), link.floor_gb_s * width / 16, link.lane_gb_s * width
            if rate < floor:
                name = f"Gen{row['pcie_gen_load']} x{width}"
                text = f"GPU {row['bus_id']}: copies {way} the host {rate:g} GB/s over {name}, which has {most:.0f}"
                yield say(text, row["bus_id"], floor, rate, outcome="fail" if rate < WORST_SHARE * most else "warn")


@check(at="full", needs=(GPUS, PEERS, TORCH), domain="host", severity="warn", fix=RETURN, probe="gpu_matmul")
def gpus_multiply_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No GPU multiplies matrices more than 10 % and one standard deviation slower than the others.

    All ranks wait for the slowest, so one such GPU costs all of them its share. Compared alone and all at once: a power
    supply or a fan shows in the second only.

    Symptom: "how do I find the slow node?"
    Source: NVIDIA/Megatron-LM PR#4662; deepspeedai/DeepSpeed#1617.
    """
    rows, both = gpu_rows(now, "gpu_matmul"), gpu_rows(now, "gpu_matmul", "together")
    for kind in KINDS:
        yield from _slow_ones(now, rows, f"{kind}_tflops", 0.1, "TFLOP/s", f"{kind} products", not_all=kind == "bf16")
    yield from _slow_ones(now, both, "tflops", 0.1, "TFLOP/s", "products with all GPUs at work")


@check(at="full", needs=(GPU, TORCH, *floored("matmul", *KINDS)), domain="host", fix=RETURN, probe="gpu_matmul")
def gpus_multiply_as_fast_as_their_kind(now: Snapshot) -> Iterator[Finding]:
    """Each GPU reaches 0.7 of the best matrix product that was measured on its kind.

    The datasheet's figure is reached by nobody. bf16 is not asked of GPUs before Ampere. A kind without a row is
    compared with its peers, and skipped here by name.

    Symptom: all ranks are slow: clocks locked low, a power limit, a hot room.
    Source: stas00/ml-engineering (MAMF); checks/floors.toml.
    """
    yield from _below_floor(now, gpu_rows(now, "gpu_matmul"), "products", **{kind: f"{kind}_tflops" for kind in KINDS})


@check(
    at="full",
    needs=(GPUS, TORCH),
    domain="host",
    severity="warn",
    fix="ask the host about power and cooling of the whole machine",
    probe="gpu_matmul",
)
def gpus_are_as_fast_together_as_alone(now: Snapshot) -> Iterator[Finding]:
    """All GPUs at once are not much slower than each by itself, with numbers of the same type.

    Each has a power limit of its own, so being together costs nothing where supply and cooling suffice.

    Symptom: a benchmark of one GPU is fine, training on eight is 20 % slow.
    Source: own rule, 15 %; nvmlClocksEventReasons names the cause (family clocks).
    """
    alone = {row["bus_id"]: row for row in gpu_rows(now, "gpu_matmul")}
    for row in gpu_rows(now, "gpu_matmul", "together"):
        bus_id, rate = row["bus_id"], known(row.get("tflops"), "the rate of all together")
        kind = known(row.get("kind"), "what all multiplied together")
        before = known(alone[bus_id].get(f"{kind}_tflops"), f"the rate of {bus_id} alone")
        if rate < before * (1 - TOGETHER_SHARE):
            text = f"GPU {bus_id}: {rate:g} TFLOP/s ({kind}) beside the others, {before:g} alone"
            yield say(text, bus_id, before, rate)


@check(
    at="full",
    needs=(GPU, TORCH),
    domain="host",
    fix="return the machine: this GPU computes wrong numbers",
    probe="gpu_matmul",
)
def gpus_compute_the_same_numbers(now: Snapshot) -> Iterator[Finding]:
    """The same product has the same bits, each time and on every GPU of one model.

    Silent corruption raises no error and counts nowhere: it is a loss that jumps on one rank. Different models may
    choose different kernels, so they are not compared.

    Symptom: the loss spikes, always on the same rank.
    Source: imbue-ai/cluster-health; oracle-quickstart/oci-hpc (SDC check).
    """
    rows = gpu_rows(now, "gpu_matmul")
    for row in rows:
        if row.get("stable") is None or not row.get("digest"):
            yield say(f"GPU {row['bus_id']}: what it computes is not known", row["bus_id"], outcome="unknown")
        elif row["stable"] is False:
            yield say(f"GPU {row['bus_id']}: the same product gave two results", row["bus_id"])
    for model in sorted({str(row.get("model")) for row in rows}):
        told = [row for row in rows if str(row.get("model")) == model and row.get("digest")]
        yield from _odd_bits({row["bus_id"]: row["digest"] for row in told})


def _odd_bits(digests: Mapping[str, str]) -> Iterator[Finding]:
    """GPUs of one model whose result is not that of most; of two nobody can say which is wrong."""
    found = list(digests.values())
    usual = max(found, key=found.count, default="")
    odd = [bus_id for bus_id, digest in digests.items() if digest != usual]
    if odd and 2 * len(odd) >= len(digests):
        names = ", ".join(digests)
        yield say(
            f"GPUs {names}: the same product has other bits on each, so one of them is wrong", names, 1, len(set(found))
        )
        return
    for bus_id in odd:
        text = f"GPU {bus_id}: the same product has other bits than on the other GPUs"
        yield say(text, bus_id, usual, digests[bus_id])


def _rails(now: Snapshot) -> dict[str, Row]:
    """What the rails did with themselves; ports of other networks, and those that this process cannot open, are not
    judged."""
    rows = {f"{row['hca']}:{row['port']}": row for row in port_rows(now, "rdma_loopback")}
    return {one.port.name: rows[one.port.name] for one in rails(now)}


def _two_of_a_rate(now: Snapshot) -> bool:
    rates = [one.port.rate_gbps for one in rails(now)]
    return len(set(rates)) < len(rates)


TWO_RAILS = Need("two-rails", "no two rails of one rate here", _two_of_a_rate)


@check(
    at="full",
    needs=(PERFTEST, RAILS),
    domain="host",
    fix="ask the host about this adapter's PCIe slot",
    probe="rdma_loopback",
)
def rdma_ports_move_data_at_their_rate(now: Snapshot) -> Iterator[Finding]:
    """Each RDMA port that carries the job's traffic writes to itself at nine tenths of its rate.

    That tries registration, queue pairs and the PCIe link of the adapter, without a second machine. A port that moves
    nothing is a failure where RDMA is counted on: it was sold, or the job has several nodes.

    Symptom: one rail is slow; `Couldn't allocate MR`, `Failed to modify QP`.
    Source: Azure/azurehpc-health-checks (180 of 200, 360 of 400 Gb/s).
    """
    share = rdma_floor_share()
    for name, row in _rails(now).items():
        rate, got = row.get("rate_gbps"), row.get("gbps")
        if got is None:
            yield say(f"{name} moves no data: {row.get('error')}", name, rate, None, outcome=gravity(now))
        elif not rate:
            yield say(f"{name}: its rate is not known", name, outcome="unknown")
        elif got < share * rate:
            text = f"{name}: {got:g} Gb/s with itself, the port has {rate:g}"
            yield say(text, name, share * rate, got, outcome="warn")


@check(
    at="full",
    needs=(PERFTEST, RAILS, TWO_RAILS),
    domain="host",
    severity="warn",
    fix="ask the host about this adapter: slot, cable, firmware",
    probe="rdma_loopback",
)
def rails_are_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No RDMA port is more than 10 % slower with itself than the others of its rate.

    A collective over eight rails goes at the pace of the slowest.

    Symptom: all nodes wait for one, and changing the node helps.
    Source: own rule; Azure/azurehpc-health-checks compares each rail with a constant.
    """
    rows = _rails(now)
    moving = {name: row for name, row in rows.items() if row.get("gbps") is not None}  # the others are told already
    if len(moving) < 2:
        raise CannotTell("fewer than two rails moved data")
    for rate in sorted({row.get("rate_gbps") or 0.0 for row in moving.values()}):
        speeds = {name: row["gbps"] for name, row in moving.items() if (row.get("rate_gbps") or 0.0) == rate}
        for name, usual in stragglers(speeds, 0.1):
            yield say(f"{name}: {speeds[name]:g} Gb/s with itself, the others {usual:g}", name, usual, speeds[name])
