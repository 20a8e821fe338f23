"""Buckets, prefetch, persistence: the sizes, in elements, that this link, memory and model ask for."""

from math import sqrt

from rig.lean import NamedTuple
from rig.plan.ds_inputs import DsInputs
from rig.plan.ds_link import Cost, cost, usable
from rig.plan.ds_memory import Room, activations, room, states

STEP = 65536  # sizes are rounded to this, so that small changes of a measurement do not change the file
FLOOR_ELEMENTS = 2 << 20  # of a reduce bucket on GPUs: 4 MiB in bf16, below it the host's own cost shows
FLOOR_ELEMENTS_CPU = STEP
TAIL = 0.02  # the last bucket is reduced in the open: at most this share of all, where the pace is unknown
FILL = 8  # on a slow link the first gather, before which nothing is computed, is at most this part of the model
EFFICIENT = 9  # times the half-bandwidth size: 90 % of the link
PERSISTENT_SHARE = 0.01  # of the model may stay whole on each GPU
LIVE_SHARE = 0.15  # of the memory for gathered weights
DEFAULT_LIMIT = 1_000_000_000  # DeepSpeed's own for live parameters and reuse distance
DEFAULT_PERSISTENCE = 100_000


class Size(NamedTuple):
    """A number of elements and the formula, inputs and limits that it came from."""

    elements: int
    reason: str


class Pace(NamedTuple):
    """Seconds a gradient byte in backward (`gamma`), a weight byte in forward (`gamma_forward`), None where tokens or
    FLOP/s are unknown; with the cost of the link, G in bytes, and the memory left for buckets."""

    cost: Cost
    gamma: float | None
    gamma_forward: float | None
    gradient_bytes: float | None
    room: Room | None


def pace(inputs: DsInputs, stage: int) -> Pace:
    """How fast gradients appear against how fast the link takes them."""
    model, e = inputs.model, inputs.dtype_bytes
    flops = usable(inputs.flops)
    per_byte = inputs.tokens / (flops * e) if inputs.tokens and inputs.tokens > 0 and flops else None
    held = states(stage, model.params, inputs.ranks, e) if model.params else 0.0
    return Pace(
        cost(inputs.links),
        (6 if inputs.recompute else 4) * per_byte if per_byte else None,
        2 * per_byte if per_byte else None,
        float(e * model.params) if model.params else None,
        room(inputs.gpu_memory_bytes, held, activations(model, inputs.tokens, e)),
    )


def reduce_bucket(inputs: DsInputs, now: Pace) -> Size:
    """Elements of reduce_bucket_size (research: step time against bucket size in both regimes).

    Faster than the link: gamma*b + alpha*G/b is least at sqrt(alpha*G/gamma). Slower: twice the size at which latency
    is hidden, and at least the half-bandwidth size. Never below Hugging Face's h^2 without a memory reason.
    """
    if inputs.accelerator == "cpu" and now.gradient_bytes:
        return _unoverlapped(inputs, now, now.gradient_bytes)
    return overlapped_bucket(inputs, now, FLOOR_ELEMENTS if inputs.accelerator == "cuda" else FLOOR_ELEMENTS_CPU)


def overlapped_bucket(inputs: DsInputs, now: Pace, floor_elements: int) -> Size:
    """The bucket where reductions overlap with the backward pass."""
    e, link = inputs.dtype_bytes, now.cost
    network, formula = _network_bytes(now)
    hf = e * inputs.model.hidden**2 if inputs.model.hidden else 0
    wanted, why = max((network, formula), (float(hf), "h^2"))
    if now.gradient_bytes:
        # Where the pace is known the formula has weighed the last bucket, which is reduced in the open, already.
        if now.gamma is None and link.beta > 0 and (tail := TAIL * now.gradient_bytes) < wanted:
            wanted, why = max(tail, float(min(hf, wanted))), f"{why}, the last bucket at most {TAIL:.0%} of all"
        if now.gradient_bytes < wanted:
            wanted, why = now.gradient_bytes, f"{why}, the whole model"
    floor = e * floor_elements
    if wanted < floor:
        wanted, why = float(floor), f"{why}, floor"
    if now.room and now.room.reduce_cap < wanted:
        wanted, why = now.room.reduce_cap, f"{why}, memory cap (4 x in flight)"
    return _size(wanted / e, f"{why} = {wanted / 1e6:.3g} MB / {e} B; {_link_text(now)}")


def _unoverlapped(inputs: DsInputs, now: Pace, gradient_bytes: float) -> Size:
    """DeepSpeed's CPU accelerator has no streams: a reduction stops backward, and only fewer messages help.

    Measured with 1.6 M parameters, 2 ranks, 500 Mbit/s: 390 ms a step with one message, 541 ms with one for each h^2.
    """
    wanted, why = gradient_bytes, "the whole model: nothing overlaps on CPU"
    if now.room and now.room.reduce_cap < wanted:
        wanted, why = now.room.reduce_cap, f"{why}, memory cap (4 x in flight)"
    elements = max(wanted / inputs.dtype_bytes, FLOOR_ELEMENTS_CPU)
    return _size(elements, f"{why} = {wanted / 1e6:.3g} MB / {inputs.dtype_bytes} B; {_link_text(now)}")


def _network_bytes(now: Pace) -> tuple[float, str]:
    link = now.cost
    if now.gamma is None or now.gradient_bytes is None:
        return EFFICIENT * link.half_bytes, f"{EFFICIENT} n_half (90 % of the link, tokens unknown)"
    if now.gamma > 1.1 * link.beta:
        hidden = 2 * link.alpha_s / (now.gamma - link.beta)
        return max((hidden, "2 alpha/(gamma-beta)"), (link.half_bytes, "n_half"))
    return sqrt(link.alpha_s * now.gradient_bytes / now.gamma), "sqrt(alpha G/gamma), bound by the link"


def prefetch_bucket(inputs: DsInputs, now: Pace) -> Size:
    """Elements of stage3_prefetch_bucket_size: at least the largest tensor of a block (less fragments the gather), at
    most two blocks; 0 where the order of modules changes, because each change throws the prefetch trace away."""
    model, e, link = inputs.model, inputs.dtype_bytes, now.cost
    if model.dynamic:
        return Size(0, "module order changes (MoE): prefetch off, deepspeedai/DeepSpeed#5006")
    block = float(e * model.block) if model.block else None
    if now.gamma_forward is None:
        wanted, why = EFFICIENT * link.half_bytes, f"{EFFICIENT} n_half (tokens unknown)"
    elif now.gamma_forward <= link.beta and block is not None:
        wanted, why = block, "one block: forward is faster than the link"
        if now.gradient_bytes and now.gradient_bytes / FILL < block:
            # Nothing is computed until the first block is there: of few blocks that is much of the step.
            wanted, why = now.gradient_bytes / FILL, f"1/{FILL} of the model: forward is faster than the link"
    elif now.gamma_forward > link.beta:
        hidden = 2 * link.alpha_s / (now.gamma_forward - link.beta)
        wanted, why = max((hidden, "2 alpha/(gamma_f-beta)"), (link.half_bytes, "n_half"))
    else:
        wanted, why = EFFICIENT * link.half_bytes, f"{EFFICIENT} n_half (block unknown)"
    if model.largest_tensor and e * model.largest_tensor > wanted:
        wanted, why = float(e * model.largest_tensor), "largest tensor of a block"
    if block is not None and wanted > 2 * block:
        wanted, why = 2 * block, f"{why}, at most two blocks"
    if now.room and now.room.prefetch_cap < wanted:
        wanted, why = now.room.prefetch_cap, f"{why}, memory cap (2 x in flight)"
    return _size(wanted / e, f"{why} = {wanted / 1e6:.3g} MB / {e} B; {_link_text(now)}")


def persistence(inputs: DsInputs) -> Size:
    """Elements of stage3_param_persistence_threshold: Hugging Face's 10 h, but never a matrix (h^2), and in sum at most
    1 % of the model.

    On CPU it is DeepSpeed's default: what stays whole is gathered in one message after the step, and no gather overlaps
    with anything. Measured with 4 ranks, 50 Mbit/s, h = 128: 2787 ms instead of 2928.
    """
    model = inputs.model
    if inputs.accelerator == "cpu":
        return Size(DEFAULT_PERSISTENCE, "DeepSpeed's default: on CPU nothing overlaps, and fewer messages are faster")
    if not model.hidden:
        return Size(DEFAULT_PERSISTENCE, "DeepSpeed's default: the hidden size is not known")
    wanted, why = 10 * model.hidden, "10 h"
    if model.hidden**2 - 1 < wanted:
        wanted, why = model.hidden**2 - 1, "below h^2: no matrix stays whole"
    # Norms and biases: at most about a dozen vectors a layer are below the threshold.
    if model.params and model.layers and 12 * model.layers * model.hidden > PERSISTENT_SHARE * model.params:
        wanted, why = min(wanted, model.hidden - 1), "below h: vectors would keep more than 1 % of the model"
    return Size(max(0, wanted), f"{why}, h = {model.hidden}")


def live_parameters(inputs: DsInputs, prefetch: int) -> Size:
    """Elements of stage3_max_live_parameters and stage3_max_reuse_distance: room for two blocks, the prefetch and an
    embedding, at most 15 % of the memory."""
    model = inputs.model
    if model.block is None or not inputs.gpu_memory_bytes:
        return Size(DEFAULT_LIMIT, "DeepSpeed's default: model or memory unknown")
    needed = 2 * model.block + prefetch + model.embedding
    share = LIVE_SHARE * inputs.gpu_memory_bytes / inputs.dtype_bytes
    limit = min(DEFAULT_LIMIT, max(needed, share))
    return _size(
        limit, f"2 blocks + prefetch + embedding = {needed / 1e6:.0f}M, 15 % of memory = {share / 1e6:.0f}M, 1e9"
    )


def _size(elements: float, reason: str) -> Size:
    whole = int(min(elements, 1e15) // STEP) if elements > STEP else 1
    return Size(whole * STEP, reason)  # rounded down: a cap stays a cap


def _link_text(now: Pace) -> str:
    link = now.cost
    parts = [f"alpha {link.alpha_s * 1e6:.0f} us", f"B {link.bandwidth / 1e9:.3g} GB/s ({link.origin})"]
    parts.append(f"n_half {link.half_bytes / 1e6:.2g} MB")
    if now.gamma is not None:
        parts.append(f"gamma/beta {now.gamma / link.beta:.2g}" if link.beta else "one rank")
    return ", ".join(parts)
