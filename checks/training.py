"""DeepSpeed as it is when it trains: imported, with its ops, and learning."""

from checks import CannotTell, Need, check, known, say
from checks.framework import REBUILD, meaning
from checks.measured import Row, all_ranks, rows_of, told
from checks.needs import TORCH
from rig.finding import Finding
from rig.lean import Iterator
from rig.snapshot import Snapshot

COMPILED_S = 300
BUILD = "build it into the image (DS_BUILD_CPU_ADAM=1), or train without offload"


def _built(now: Snapshot) -> bool:
    """Whether ops were built into the image; where the probe told nothing of them the check says so."""
    probe = now.probes.get("deepspeed_ops")
    ops = probe.data.get("ops") if probe is not None and probe.state == "ok" else None
    return not ops or any(op.get("installed") for op in ops)


BUILT = Need("built-ops", "no op of DeepSpeed was built into the image: each is compiled at its first use", _built)


@check(at="full", needs=(TORCH,), probe="deepspeed_ops", domain="image", fix=REBUILD)
def deepspeed_can_be_imported(now: Snapshot) -> Iterator[Finding]:
    """`import deepspeed` works in the user's environment.

    It imports numpy, pydantic, hjson and every builder of its ops, one of which asks nvcc for its version. An import
    that hangs, or that a signal ends, is told by every_probe_answers.

    Symptom: `ImportError: cannot import name 'BUFSIZE' from 'numpy'`; `FileNotFoundError: .../bin/nvcc`.
    Source: the probe deepspeed_ops; deepspeedai/DeepSpeed#5671.
    """
    data = told(now, "deepspeed_ops")
    if data.get("error"):
        yield say(f"deepspeed: {meaning(str(data['error']))}", "deepspeed")
    elif not data.get("ops"):
        raise CannotTell("the probe deepspeed_ops told of no op")


@check(at="full", needs=(TORCH, BUILT), probe="deepspeed_ops", domain="image", fix=REBUILD)
def deepspeed_ops_can_be_loaded(now: Snapshot) -> Iterator[Finding]:
    """Each op that was built into the image can be loaded here.

    `ds_report` prints OKAY for what it has not loaded. An op that was compiled for another CPU or against another torch
    is found out at the first step.

    Symptom: `undefined symbol` out of an op, `Illegal instruction`.
    Source: the probe deepspeed_ops, which loads them; deepspeedai/DeepSpeed#3223.
    """
    for op in rows_of(now, "deepspeed_ops", "ops"):
        name = op["name"]
        if op.get("installed") and op.get("loads") is False:
            error = meaning(str(op.get("error") or "no reason was given"))
            yield say(f"DeepSpeed's op {name} cannot be loaded: {error}", name)
        elif op.get("installed") and op.get("loads") is None:
            yield say(f"DeepSpeed's op {name} was not loaded", name, outcome="unknown")


def _offloads(now: Snapshot) -> bool:
    """Whether the plan puts the optimizer on the CPU."""
    key = "zero_optimization.offload_optimizer.device"
    return any(one.name == key and one.value in ("cpu", "nvme") for one in now.plan.ds_config)


def _cpu_adam(now: Snapshot, probe: str) -> Row:
    ops = rows_of(now, probe, "ops")
    return known(next((op for op in ops if op["name"] == "cpu_adam"), None), "CPUAdam")  # type: ignore[no-any-return]


@check(at="full", needs=(TORCH,), probe="deepspeed_ops", domain="image", fix=BUILD)
def cpu_adam_is_there_for_offload(now: Snapshot) -> Iterator[Finding]:
    """CPUAdam, which every offload of the optimizer needs, is in the image or can be compiled here.

    Where the plan offloads and it must be compiled, the first step waits for that. What is compiled is tried at level
    deep (cpu_adam_is_compiled_in_time), what was built by deepspeed_ops_can_be_loaded.

    Symptom: `Unable to JIT load the cpu_adam op` at step one.
    Source: OpBuilder.is_compatible() by the probe deepspeed_ops; deepspeedai/DeepSpeed#3223.
    """
    op = _cpu_adam(now, "deepspeed_ops")
    if known(op.get("installed"), "whether CPUAdam is in the image"):
        return
    offloads = _offloads(now)
    if not known(op.get("compatible"), "whether CPUAdam can be compiled"):
        text = "CPUAdam is not in the image and cannot be compiled: no offload"
        yield say(text, "cpu_adam", outcome="fail" if offloads else "warn")
    elif offloads:
        text = (
            "the plan offloads the optimizer, and CPUAdam is not in the image: the first step waits for its compiling"
        )
        yield say(text, "cpu_adam", outcome="warn")


@check(at="deep", needs=(TORCH,), probe="deepspeed_build", domain="image", fix=BUILD)
def cpu_adam_is_compiled_in_time(now: Snapshot) -> Iterator[Finding]:
    """CPUAdam, where it is not in the image, is compiled in less than five minutes.

    Every offload needs it, and the first training step waits: all ranks of a node, and the other nodes with them. The
    collective behind it gives up after half an hour.

    Symptom: "it hangs at `Building extension module cpu_adam`".
    Source: deepspeedai/DeepSpeed#3223; 170 s on two busy cores, measured with the pinned versions.
    """
    op = _cpu_adam(now, "deepspeed_build")
    if op.get("loads") is False:
        yield say(f"CPUAdam cannot be compiled: {meaning(str(op.get('error')))}", "cpu_adam")
    elif op.get("installed") is not True:
        known(op.get("loads"), "whether CPUAdam can be compiled: it was not tried")
        seconds = known(op.get("seconds"), "how long CPUAdam takes to compile")
        if seconds > COMPILED_S:
            yield say(f"CPUAdam takes {seconds:g} s to compile", "cpu_adam", COMPILED_S, seconds, outcome="warn")


@check(
    at="full",
    needs=(TORCH,),
    probe="zero3_step",
    domain="image",
    fix="rig check --only training,framework --level full, and read the probe's error",
)
def zero3_step_ends_well(now: Snapshot) -> Iterator[Finding]:
    """Twenty steps of a small transformer under ZeRO-3 end on every rank.

    The whole stack at once: import, NCCL or gloo, gathering of weights, backward, optimizer. A rank that a signal ended
    has that signal as its code: 9 is mostly the kernel for want of memory, 7 a full /dev/shm, 4 an op for another CPU.
    Ranks that hang are told by every_probe_answers.

    Symptom: training does not start, on this machine or with this image.
    Source: the probe zero3_step.
    """
    data = all_ranks(now, "zero3_step", "ranks")
    words = f": {meaning(str(data['error']))}" if data.get("error") else ""
    for rank, code in enumerate(data["codes"]):
        if code != 0:
            yield say(f"rank {rank} of the ZeRO-3 probe ended with {code}{words}", f"rank {rank}", 0, code)


@check(
    at="full",
    needs=(TORCH,),
    probe="zero3_step",
    domain="host",
    fix="run it again; if it stays, give the machine back and note its GPUs' UUIDs",
)
def zero3_step_learns(now: Snapshot) -> Iterator[Finding]:
    """The loss of the small transformer is finite and falls.

    The batch is the same in each step, so a loss that does not fall means wrong sums: bad memory, peer copies that
    deliver something else, or a reduction that never happened.

    Symptom: NaN after some hundred steps, on one machine of many.
    Source: the probe zero3_step; NVIDIA/nccl-tests#117 (peer copies that deliver garbage).
    """
    losses = known(all_ranks(now, "zero3_step", "ranks").get("losses"), "the losses of the ZeRO-3 probe")
    if len(losses) < 2:
        raise CannotTell("the ZeRO-3 probe made too few steps")
    bad = next((step for step, loss in enumerate(losses) if loss is None or loss != loss or abs(loss) > 1e30), None)
    if bad is not None:
        yield say(f"the loss is not finite at step {bad + 1}", "zero3_step", "finite", str(losses[bad]))
    elif losses[-1] >= losses[0]:
        yield say(f"the loss does not fall: {losses[0]:g} -> {losses[-1]:g} in {len(losses)} steps", "zero3_step")
