"""Twenty steps of a small transformer under DeepSpeed ZeRO-3: does this image train here, and does it learn.

One rank per GPU over NCCL, or one rank over gloo on the CPU. The batch is the same each step, so the loss must fall.
The CPU path is run by the tests; not seen on GPUs yet.
"""

import os
import sys
import time
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devices import count
from ranks import folder_of_rank, last_words, leave, place, results, start
from telling import die_with_parent, own_folder, run, tell

STEPS, WARM = 20, 5  # the first ones compile and allocate
LAYERS, WIDTH, HEADS, WORDS = 2, 128, 4, 256
BATCH, LENGTH = 4, 64


def make_model() -> Any:
    """Each weight is used by the forward of the module that owns it: ZeRO-3 gathers weights module by module."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
            self.out = nn.Sequential(
                nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, x: Any) -> Any:
            heads = self.mix(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            x = x + functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2)
            return x + self.out(x)

    class Model(nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.layers = nn.Embedding(WORDS, WIDTH), nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.head = nn.Linear(WIDTH, WORDS)

        def forward(self, text: Any) -> Any:
            guesses = self.head(self.layers(self.embed(text[:, :-1])))
            return functional.cross_entropy(guesses.float().flatten(0, 1), text[:, 1:].flatten())

    torch.manual_seed(0)
    return Model()


def config(precision: str | None) -> dict[str, Any]:
    chosen: dict[str, Any] = {precision: {"enabled": True}} if precision else {}
    return {
        "train_micro_batch_size_per_gpu": BATCH,
        "zero_optimization": {"stage": 3},
        "steps_per_print": 10**6,
        **chosen,
    }


def of_one_rank(folder: str) -> None:
    die_with_parent()
    import deepspeed
    import torch

    rank, world = place()
    accelerator = deepspeed.get_accelerator()
    on_gpu = accelerator.device_name() == "cuda"
    if on_gpu:
        torch.cuda.set_device(rank)
    backend = accelerator.communication_backend_name()
    deepspeed.init_distributed(
        backend, auto_mpi_discovery=False, init_method=f"file://{folder}/store", rank=rank, world_size=world
    )
    half = "bf16" if on_gpu and torch.cuda.get_device_capability()[0] >= 8 else "fp16"
    model = make_model()
    engine, *_ = deepspeed.initialize(
        model=model,
        config=config(half if on_gpu else None),
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3),
    )
    text = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(1))
    text, losses, began = text.to(accelerator.current_device_name()), [], 0.0
    for step in range(STEPS):
        if step == WARM:
            began = time.perf_counter()
        loss = engine(text)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - began
    rate = (STEPS - WARM) * BATCH * LENGTH / seconds
    leave(folder, losses=losses, tokens_per_s=rate, seconds=seconds / (STEPS - WARM), device=accelerator.device_name())


def main() -> None:
    world = max(1, count())
    tell(ranks=world, asking="training under ZeRO-3")
    with own_folder("zero3") as folder:
        environ = {} if count() else {"GLOO_SOCKET_IFNAME": "lo"}
        codes = start(__file__, world, folder, environ)
        tell(codes=codes, error=last_words(folder, codes))
        found = results(folder, world)
    if len(found) == world:
        tell(
            device=found[0]["device"],
            losses=[round(loss, 4) if loss == loss else None for loss in found[0]["losses"]],  # NaN is no JSON
            tokens_per_s=round(sum(one["tokens_per_s"] for one in found)),
            seconds=round(max(one["seconds"] for one in found), 4),
        )
    tell(asking=None)


if __name__ == "__main__":
    of_rank = folder_of_rank()
    if of_rank is not None:
        of_one_rank(of_rank)
    run(main)
