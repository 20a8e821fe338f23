"""What the plan cannot change but must say: a link that is too slow for ZeRO-3, a model that does not fit."""

from math import ceil

from rig.finding import Finding
from rig.lean import NamedTuple
from rig.plan.ds_inputs import DsInputs
from rig.plan.ds_link import cost, usable
from rig.plan.ds_memory import fits
from rig.plan.ds_size import Pace
from rig.plan.ds_versions import HPZ, written

EXPOSED = 0.11  # share of a micro step that communication may stick out: 10 % of the whole
GAS_LIMIT = 1024
USUAL_TOKENS = 16384  # more than most micro steps have; where tokens are unknown, a link that needs more is named


class Times(NamedTuple):
    """Seconds a micro step: moving weights and gradients over the link, and computing. None where unknown."""

    communication_s: float | None
    compute_s: float | None


def volume(stage: int, gas: int) -> float:
    """Bytes that a stage moves in a micro step, as a multiple of the weights.

    ZeRO-3 gathers every weight twice and reduces every gradient once. ZeRO-1 and 2 all-reduce gradients (2x: they keep
    a slice of it) and gather the weights once an optimizer step; stage 1 reduces only then, stage 2 every micro step.
    Counted on 0.12.6 (runtime/zero/stage_1_and_2.py).
    """
    return {1: 3 / max(1, gas), 2: 2 + 1 / max(1, gas)}.get(stage, 3.0)


def times(inputs: DsInputs, now: Pace, stage: int = 3) -> Times:
    """Seconds that a micro step moves and computes (8 FLOP a parameter and token with recompute, 6 without)."""
    params = inputs.model.params
    moved = volume(stage, inputs.gas) * inputs.dtype_bytes * params * now.cost.beta if params else None
    flop = (8 if inputs.recompute else 6) * params * inputs.tokens if params and inputs.tokens else None
    flops = usable(inputs.flops)
    return Times(moved, flop / flops if flop and flops else None)


def critical_tokens(inputs: DsInputs, now: Pace, stage: int = 3) -> int | None:
    """Tokens a GPU needs in a micro step before it is bound by compute. ZeRO-3: F (R-1)/(R B), x 0.75 with recompute.

    Independent of the model: both sides grow with the parameters. (Exact for 2-byte weights; e/2 times it otherwise.)
    """
    flops = usable(inputs.flops)
    return (
        None
        if flops is None
        else round(
            flops
            * now.cost.beta
            * (0.75 if inputs.recompute else 1.0)
            * inputs.dtype_bytes
            / 2
            * volume(stage, inputs.gas)
            / 3
        )
    )


def advice(inputs: DsInputs, stage: int, now: Pace, offload: bool) -> tuple[tuple[Finding, ...], dict[str, int]]:
    """The findings, and what they suggest: `stage`, `gradient_accumulation_steps`."""
    found: list[Finding] = []
    suggest: dict[str, int] = {}
    limit = critical_tokens(inputs, now, stage)
    slow = limit is not None and (inputs.tokens < limit if inputs.tokens else limit > USUAL_TOKENS)
    if inputs.ranks > 1 and limit and slow:
        suggest = _instead(inputs, now)
        found.append(_comm_bound(inputs, stage, now, limit, suggest))
    if offload:
        text = "ZeRO-3 does not fit the GPUs: optimizer states go to the host, each step is slower"
        fix = "More GPUs, a smaller model or LoRA avoid the offload"
        found.append(Finding("offload", "warn", "user", text, "zero_optimization.offload_optimizer", fix=fix))
    if inputs.bf16 is None and inputs.accelerator == "cuda" and not inputs.hf_trainer:
        text = "The GPUs' compute capability is not known: fp32 is planned"
        found.append(Finding("precision", "warn", "host", text, "bf16", fix="Set bf16 or fp16 in your config"))
    return tuple(found), suggest


def _instead(inputs: DsInputs, now: Pace) -> dict[str, int]:
    """ZeRO-1 where it fits: it sends gradients once an optimizer step, so accumulation hides them."""
    took = times(inputs, now)
    e, model = inputs.dtype_bytes, inputs.model
    if not fits(1, model, inputs.ranks, e, inputs.gpu_memory_bytes, inputs.tokens):
        return {}
    if not model.params or not took.compute_s:
        return {"stage": 1}
    steps = ceil(3 * e * model.params * now.cost.beta / (EXPOSED * took.compute_s))
    return {"stage": 1, "gradient_accumulation_steps": min(GAS_LIMIT, max(inputs.gas, steps))}


def _comm_bound(inputs: DsInputs, stage: int, now: Pace, limit: int, suggest: dict[str, int]) -> Finding:
    nodes = inputs.links.nodes
    link = f"{now.cost.bandwidth / 1e9:.3g} GB/s ({now.cost.origin})"
    have = f"you have {inputs.tokens}" if inputs.tokens else "more than most have"
    needs = f"it needs {_thousand(limit)} tokens per GPU and micro step on this link, {link}; {have}"
    moves = f"it moves {volume(stage, inputs.gas):.3g}x the weights per micro step"
    if nodes > 1:
        slower = _slower_than_one(inputs, now, stage)
        end = f"{nodes} nodes will be slower than one" if slower else f"the network bounds all {nodes} nodes"
        text = f"Cross-node ZeRO-{stage} is bound by the network, {moves}: {needs}: {end}"
    else:
        text = f"ZeRO-{stage} is bound by the link between the GPUs, {moves}: {needs}"
    return Finding(
        "comm-bound",
        "warn",
        "platform",
        text,
        subject="zero_optimization.stage",
        want=limit,
        got=inputs.tokens,
        fix=_remedy(inputs, suggest),
    )


def _slower_than_one(inputs: DsInputs, now: Pace, stage: int) -> bool:
    """Whether one node alone would train more tokens a second: N nodes take longer than N micro steps of one."""
    alone = now._replace(cost=cost(inputs.links._replace(nodes=1, measured_bytes=None, measured_alpha_s=None)))
    together, single = times(inputs, now, stage), times(inputs, alone, stage)
    if together.communication_s is None or together.compute_s is None or single.communication_s is None:
        return True
    return together.communication_s > inputs.links.nodes * max(together.compute_s, single.communication_s)


def _remedy(inputs: DsInputs, suggest: dict[str, int]) -> str:
    gas = suggest.get("gradient_accumulation_steps")
    if suggest:
        more = f" and {gas} gradient accumulation steps (the global batch grows with them)" if gas else ""
        return f"Stage 1{more}, more tokens per micro step, or fewer nodes"
    hpz = ""
    if inputs.links.nodes > 1:
        unsafe = inputs.version < HPZ.fixed
        state = f"but is unsafe on {written(inputs.version)} ({HPZ.source})" if unsafe else "and is opt-in"
        hpz = f"; hpZ, shards inside a node, is the textbook answer {state}"
    return f"A faster network, more tokens per micro step, fewer nodes or LoRA{hpz}"


def _thousand(count: int) -> str:
    return f"{count / 1000:.0f}k" if count >= 10_000 else str(count)
