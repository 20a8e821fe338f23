"""What the GPUs reach: compared with one another first, then with what their kind reaches elsewhere (floors.toml)."""

from checks import CannotTell, check, known, say
from checks.floors import alike, kind_of, pcie, rdma_floor_share, stragglers
from checks.measured import rates_of, rows_of, told
from checks.needs import GPU, GPUS, PERFTEST, TORCH
from rig.finding import Finding
from rig.lean import Any, Iterator
from rig.snapshot import Snapshot

TOGETHER_SHARE = 0.15  # slower beside the others than alone: more than chips of one power limit differ
WORST_SHARE = 0.5  # of a PCIe link
COMPILED_S = 300
RETURN = "ask the host to look at this GPU, or return the machine"


def _slow_ones(now: Snapshot, rows: Any, key: str, share: float, unit: str, what: str) -> Iterator[Finding]:
    rates = rates_of(rows, key)
    if not rates:
        return
    for group in alike(now.machine, rates):
        for bus_id, usual in stragglers({one: rates[one] for one in group}, share):
            rate = rates[bus_id]
            text = f"GPU {bus_id}: {what} {rate:g} {unit}, the others {usual:g}: {1 - rate / usual:.0%} less"
            yield say(text, bus_id, usual, rate)


def _below_floor(now: Snapshot, rows: Any, key: str, of: str, what: str) -> Iterator[Finding]:
    for bus_id, rate in rates_of(rows, key).items():
        kind = kind_of(now.machine, bus_id)
        floor = kind.figure(of, "floor") if kind else None
        if kind and floor and rate < floor.value:
            text = f"GPU {bus_id}: {what} {rate:g} {floor.unit}; {kind.name}: {floor.value:g} at least"
            yield say(text, bus_id, floor.value, rate, evidence=floor.source)


@check(at="quick", domain="host", fix=RETURN + "; what hangs in the driver ends with a reboot only")
def every_probe_answers(now: Snapshot) -> Iterator[Finding]:
    """Every program that measures comes to its end.

    One that hangs shows what a training would do: wait without a word. Each names the GPU or the pair before it asks,
    so the finding names it too. "Unresponsive" is all that is known: a blocked call is not always the driver's fault.

    Symptom: nvidia-smi, or the first CUDA call of a training, never returns.
    Source: NVIDIA/NVSentinel#1576, leptonai/gpud PR#117, NVIDIA/gpu-monitoring-tools#46.
    """
    if not now.probes:
        raise CannotTell("no probe ran")
    for name, probe in sorted(now.probes.items()):
        if probe.state == "unresponsive":
            asking = probe.data.get("asking")
            text = f"{name} is unresponsive" + (f": it was at {asking} and never came back" if asking else "")
            yield say(text, str(asking or name), evidence=probe.error)


@check(at="full", needs=(GPUS,), domain="host", severity="warn", fix=RETURN, probe="gpu_memory")
def gpu_memory_is_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No GPU's memory is more than 5 % slower than that of the others.

    A degrading stack of HBM shows under load only, long before an error is counted. Compared inside the node, so it
    holds for kinds that no table knows.

    Symptom: one rank is always last; the optimizer step is slow.
    Source: NVIDIA/NVSentinel#1748; microsoft/superbenchmark (5 %).
    """
    yield from _slow_ones(now, rows_of(now, "gpu_memory", "gpus"), "copy_gb_s", 0.05, "GB/s", "memory copies")


@check(at="full", needs=(GPU,), domain="host", fix=RETURN, probe="gpu_memory")
def gpu_memory_reaches_its_floor(now: Snapshot) -> Iterator[Finding]:
    """The memory of each GPU is as fast as its kind's is elsewhere.

    The floor is three quarters of what was measured, not of the datasheet. A kind without a row passes by its peers.

    Symptom: the whole machine trains slower than one like it.
    Source: NVIDIA/DCGM 4.6.0, diag tables by PCI id; checks/floors.toml.
    """
    yield from _below_floor(now, rows_of(now, "gpu_memory", "gpus"), "copy_gb_s", "hbm", "memory copies")


@check(at="full", needs=(GPUS,), domain="host", severity="warn", fix=RETURN, probe="gpu_copy")
def copies_to_the_gpus_are_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No GPU's copies from and to the host are more than 5 % slower than those of the others.

    Each GPU is asked alone, so a slow one has a narrow or slow link, or sits behind another socket.

    Symptom: one rank waits for its batches; offloading is slow on one GPU.
    Source: microsoft/superbenchmark (5 %).
    """
    rows = rows_of(now, "gpu_copy", "gpus")
    yield from _slow_ones(now, rows, "h2d_gb_s", 0.05, "GB/s", "copies from the host")
    yield from _slow_ones(now, rows, "d2h_gb_s", 0.05, "GB/s", "copies to the host")


@check(at="full", needs=(GPU,), domain="host", severity="warn", fix=RETURN, probe="gpu_copy")
def copies_to_the_gpus_fill_the_link(now: Snapshot) -> Iterator[Finding]:
    """Copies of pinned memory use what the PCIe link has, as it was under load.

    Below half of the link's rate it is a failure. The floors hold for 16 lanes, fewer are scaled; whether generation
    and width are what they should be is asked by the family pcie. Where sysfs hides the link nothing can be said.

    Symptom: 12 GB/s instead of 55.
    Source: Azure/azurehpc-health-checks (48 GB/s on Gen5, 21 on Gen4, 9 on Gen3).
    """
    for row in rows_of(now, "gpu_copy", "gpus"):
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
                yield say(text, row["bus_id"], floor, rate, outcome="fail" if rate < WORST_SHARE * most else "")


@check(at="full", needs=(GPUS,), domain="host", severity="warn", fix=RETURN, probe="gpu_matmul")
def gpus_multiply_equally_fast(now: Snapshot) -> Iterator[Finding]:
    """No GPU multiplies matrices more than 10 % and one standard deviation slower than the others.

    All ranks wait for the slowest, so one such GPU costs all of them its share. Compared alone and all at once: a power
    supply or a fan shows in the second only.

    Symptom: "how do I find the slow node?"
    Source: NVIDIA/Megatron-LM PR#4662; deepspeedai/DeepSpeed#1617.
    """
    data = told(now, "gpu_matmul")
    rows = rows_of(now, "gpu_matmul", "gpus")
    for kind in ("bf16", "fp16"):
        yield from _slow_ones(now, rows, f"{kind}_tflops", 0.1, "TFLOP/s", f"{kind} products")
    yield from _slow_ones(now, data.get("together"), "tflops", 0.1, "TFLOP/s", "products with all GPUs at work")


@check(at="full", needs=(GPU,), domain="host", fix=RETURN, probe="gpu_matmul")
def gpus_multiply_as_fast_as_their_kind(now: Snapshot) -> Iterator[Finding]:
    """Each GPU reaches 0.7 of the best matrix product that was measured on its kind.

    The datasheet's figure is reached by nobody. bf16 is not asked of GPUs before Ampere.

    Symptom: all ranks are slow: clocks locked low, a power limit, a hot room.
    Source: stas00/ml-engineering (MAMF); checks/floors.toml.
    """
    rows = rows_of(now, "gpu_matmul", "gpus")
    for kind in ("bf16", "fp16"):
        yield from _below_floor(now, rows, f"{kind}_tflops", kind, f"{kind} products")


@check(
    at="full",
    needs=(GPUS,),
    domain="host",
    severity="warn",
    fix="ask the host about power and cooling of the whole machine",
    probe="gpu_matmul",
)
def gpus_are_as_fast_together_as_alone(now: Snapshot) -> Iterator[Finding]:
    """All GPUs at once are not much slower than each by itself.

    Each has a power limit of its own, so being together costs nothing where supply and cooling suffice.

    Symptom: a benchmark of one GPU is fine, training on eight is 20 % slow.
    Source: own rule, 15 %; nvmlClocksEventReasons names the cause (family clocks).
    """
    rows = rows_of(now, "gpu_matmul", "gpus")
    alone = {row["bus_id"]: row.get("bf16_tflops") or row.get("fp16_tflops") for row in rows}
    both = rates_of(told(now, "gpu_matmul").get("together"), "tflops")
    if not both:
        raise CannotTell("no run of all GPUs together")
    for bus_id, rate in both.items():
        before = known(alone.get(bus_id), f"the rate of {bus_id} alone")
        if rate < before * (1 - TOGETHER_SHARE):
            text = f"GPU {bus_id}: {rate:g} TFLOP/s beside the others, {before:g} alone"
            yield say(text, bus_id, before, rate)


@check(
    at="full",
    needs=(GPU,),
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
    rows = rows_of(now, "gpu_matmul", "gpus")
    for row in rows:
        if known(row.get("stable"), f"whether {row['bus_id']} repeats itself") is False:
            yield say(f"GPU {row['bus_id']}: the same product gave two results", row["bus_id"])
    for model in sorted({str(row.get("model")) for row in rows}):
        digests = [row["digest"] for row in rows if str(row.get("model")) == model and row.get("digest")]
        usual = max(digests, key=digests.count, default=None)
        if len(set(digests)) > 1 and usual is not None:
            for row in rows:
                if str(row.get("model")) == model and row.get("digest") not in (None, usual):
                    text = f"GPU {row['bus_id']}: the same product has other bits than on the other GPUs"
                    yield say(text, row["bus_id"], usual, row["digest"])


@check(
    at="full",
    needs=(PERFTEST,),
    domain="host",
    severity="warn",
    fix="ask the host about this adapter's PCIe slot",
    probe="rdma_loopback",
)
def rdma_ports_move_data_at_their_rate(now: Snapshot) -> Iterator[Finding]:
    """Each active RDMA port writes to itself at nine tenths of its rate.

    That tries registration, queue pairs and the PCIe link of the adapter, without a second machine. A port that moves
    nothing is a failure.

    Symptom: one rail is slow; `Couldn't allocate MR`, `Failed to modify QP`.
    Source: Azure/azurehpc-health-checks (180 of 200, 360 of 400 Gb/s).
    """
    share = rdma_floor_share()
    for row in rows_of(now, "rdma_loopback", "ports"):
        name, rate, got = f"{row['hca']}:{row['port']}", row.get("rate_gbps"), row.get("gbps")
        if got is None:
            yield say(f"{name} moves no data: {row.get('error')}", name, rate, None, outcome="fail")
        elif rate and got < share * rate:
            yield say(f"{name}: {got:g} Gb/s with itself, the port has {rate:g}", name, share * rate, got)


@check(
    at="full",
    needs=(PERFTEST,),
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
    rows = [row for row in rows_of(now, "rdma_loopback", "ports") if row.get("gbps")]
    for rate in sorted({row["rate_gbps"] for row in rows if row.get("rate_gbps")}):
        speeds = {f"{row['hca']}:{row['port']}": row["gbps"] for row in rows if row.get("rate_gbps") == rate}
        for name, usual in stragglers(speeds, 0.1):
            yield say(f"{name}: {speeds[name]:g} Gb/s with itself, the others {usual:g}", name, usual, speeds[name])


@check(
    at="deep",
    needs=(TORCH,),
    domain="image",
    severity="warn",
    fix="build it into the image (DS_BUILD_CPU_ADAM=1), or train without offload",
    probe="deepspeed_build",
)
def cpu_adam_is_compiled_in_time(now: Snapshot) -> Iterator[Finding]:
    """CPUAdam, where it is not in the image, is compiled in less than five minutes.

    Every offload needs it, and the first training step waits: all ranks of a node, and the other nodes with them. The
    collective behind it gives up after half an hour.

    Symptom: "it hangs at `Building extension module cpu_adam`".
    Source: deepspeedai/DeepSpeed#3223; 170 s on two busy cores, measured with the pinned versions.
    """
    ops = rows_of(now, "deepspeed_build", "ops")
    for op in ops:
        if op["name"] == "cpu_adam" and op.get("loads") is False:
            yield say(f"CPUAdam cannot be compiled: {op.get('error')}", "cpu_adam", outcome="fail")
        elif op["name"] == "cpu_adam" and (op.get("seconds") or 0) > COMPILED_S:
            yield say(f"CPUAdam takes {op['seconds']:g} s to compile", "cpu_adam", COMPILED_S, op["seconds"])
