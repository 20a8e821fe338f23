"""Where a GPU's memory goes under ZeRO, in bytes, and how much of it communication buffers may have."""

from rig.lean import NamedTuple
from rig.plan.ds_model import VOCABULARY, Model

RESERVE = 2e9  # CUDA context, NCCL's own buffers, fragmentation
SUB_GROUP = 1_000_000_000  # DeepSpeed's default optimizer tile, elements
SHARE_OF_FREE, SHARE_MIN, SHARE_MAX = 0.25, 0.02, 0.10  # of free memory, and of all memory


class Room(NamedTuple):
    """Bytes: model states, activations, what is left, and the largest reduce and prefetch buckets that fit there."""

    states: float
    activations: float
    free: float
    reduce_cap: float
    prefetch_cap: float


def states(stage: int, params: int, ranks: int, dtype_bytes: int) -> float:
    """Bytes a GPU for weights, gradients and Adam. Half precision keeps an fp32 copy and two moments: 12 a parameter.

    ZeRO-1 shards the 12, ZeRO-2 the gradients too, ZeRO-3 everything. The fp32 gradient of the optimizer's tile comes
    on top at the step (runtime/zero/stage3.py). fp32 training has no copy: 4 + 4 + 8.
    """
    weights, gradients, adam = dtype_bytes, dtype_bytes, 12 if dtype_bytes < 4 else 8
    shared = {0: 0, 1: adam, 2: adam + gradients, 3: adam + gradients + weights}[stage]
    held = (weights + gradients + adam - shared) * params + shared * params / ranks
    return held + (4 * min(SUB_GROUP, params / ranks) if stage == 3 and dtype_bytes < 4 else 0)


def activations(model: Model, tokens: int | None, dtype_bytes: int) -> float:
    """Bytes with full recompute: the input of each block, one block at work (34 bytes a token and hidden unit,
    Megatron), and the logits with their gradient. 0 where shape or tokens are unknown."""
    if not tokens or not model.hidden:
        return 0.0
    blocks = tokens * model.hidden * ((model.layers or 1) * dtype_bytes + 34)
    return float(blocks + tokens * (model.vocab or VOCABULARY) * 8)


def room(memory_bytes: int | None, states_bytes: float, activation_bytes: float) -> Room | None:
    """The budget for buckets: a quarter of what is free, within 2-10 % of the card; half of it for each direction.

    A reduce bucket costs up to four times its size (held, concatenated, in flight), a prefetch bucket twice. None where
    the memory is unknown.
    """
    if not memory_bytes:
        return None
    free = memory_bytes - states_bytes - activation_bytes - RESERVE
    budget = min(max(SHARE_OF_FREE * free, SHARE_MIN * memory_bytes), SHARE_MAX * memory_bytes)
    return Room(states_bytes, activation_bytes, free, budget / 2 / 4, budget / 2 / 2)


def fits(
    stage: int, model: Model, ranks: int, dtype_bytes: int, memory_bytes: int | None, tokens: int | None
) -> bool | None:
    """Whether states and activations leave the reserve free; None where model or memory are unknown."""
    if not model.params or not memory_bytes:
        return None
    needed = states(stage, model.params, ranks, dtype_bytes) + activations(model, tokens, dtype_bytes)
    return needed + RESERVE <= memory_bytes
