"""ZeRO-3 step time of several DeepSpeed configs in one process group, in turn: one node's part of `make bench-tune`.

Runs in the image with torchrun's variables set: `tune_step.py PLAN.json`, where the plan holds `shape` (hidden, layers,
tokens), `configs` (name -> zero_optimization section), `rounds` and `steps`. First it measures the link (`alpha_s`,
`bytes_per_s` of all-reduces back to back), if `sweep` is true and nothing else. Rank 0 prints one JSON line.
"""

import json
import statistics
import sys
import time
from typing import Any

import deepspeed
import torch
import torch.distributed as dist

SWEEP_BYTES = (1 << 16, 1 << 18, 1 << 20, 1 << 21)
SWEEP_CALLS = 4
WARM_UP = 2  # DeepSpeed records the order of modules in the first step and prefetches from the second


def gpt(hidden: int, layers: int) -> torch.nn.Module:
    """Transformer blocks of 12 h^2 elements each, without embeddings: only the blocks matter to the network."""
    layer = torch.nn.TransformerEncoderLayer(
        hidden, max(1, hidden // 64), 4 * hidden, dropout=0.0, batch_first=True, norm_first=True
    )
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def slowest(seconds: float) -> float:
    """The largest of all ranks' figures."""
    figure = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(figure, op=dist.ReduceOp.MAX)
    return float(figure)


def sweep() -> dict[str, float]:
    """alpha and bandwidth as DeepSpeed meets them: collectives in a row, a least-squares line through the times.

    Of an all-reduce of S bytes over R ranks: t = alpha + S * 2(R-1)/R / bandwidth.
    """
    ranks = dist.get_world_size()
    points = []
    for size in SWEEP_BYTES:
        data = torch.zeros(size // 4)
        dist.all_reduce(data)
        dist.barrier()
        started = time.perf_counter()
        for _ in range(SWEEP_CALLS):
            dist.all_reduce(data)
        points.append((size * 2 * (ranks - 1) / ranks, slowest((time.perf_counter() - started) / SWEEP_CALLS)))
    slope, intercept = statistics.linear_regression(*zip(*points, strict=True))
    return {"alpha_s": max(intercept, 1e-4), "bytes_per_s": 1 / slope}


def steps(shape: dict[str, int], zero: dict[str, Any], count: int) -> list[float]:
    """Seconds of `count` training steps with this zero_optimization section, the slowest rank's of each."""
    torch.manual_seed(0)
    with torch.device("cpu"):
        model = gpt(shape["hidden"], shape["layers"])
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {**zero, "stage": 3},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)  # the update itself costs next to nothing
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    batch = torch.randn(1, shape["tokens"], shape["hidden"])
    times = []
    for step in range(WARM_UP + count):
        dist.barrier()
        started = time.perf_counter()
        engine.backward(engine(batch).float().pow(2).mean())
        engine.step()
        if step >= WARM_UP:
            times.append(slowest(time.perf_counter() - started))
    engine.destroy()
    return times


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo", verbose=False)
    result: dict[str, Any] = {}
    if plan.get("sweep"):
        result = sweep()
    else:
        result = {name: [] for name in plan["configs"]}
        for _ in range(plan["rounds"]):
            for name, zero in plan["configs"].items():  # in turn: what drifts drifts for all
                result[name] += steps(plan["shape"], zero, plan["steps"])
    if dist.get_rank() == 0:
        print("RESULT " + json.dumps(result), flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
