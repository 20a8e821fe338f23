"""Whether the planned bucket is the fast one: gradients at a set pace against collectives on a real link.

`python bench/tune_emulator.py` in the image, one process a rank, with torchrun's variables (RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT). First the link is measured: all-reduces back to back, as DeepSpeed issues them, fitted to
alpha + beta * bytes. Then a backward pass is played: a producer fills buckets at gamma seconds a byte, each full one is
reduced while the next fills, at most two in flight, as in ZeRO-3. Containers side by side have next to no latency, so
each collective first sleeps for --latency-ms: what counts is alpha against the time of all gradients. Each bucket of a
grid is timed beside the bucket that rig's formula chooses from the measured alpha and beta. Rank 0 prints RESULT and
one JSON object; exit status 1 where a chosen bucket is more than 3 % slower than the best of the grid.

Options: --megabytes G (gradients), --latency-ms L, --pace X (gamma/beta of a regime, may be given again), --rounds N.
"""

import argparse
import json
import os
import statistics
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rig.plan.ds_inputs import DsInputs
from rig.plan.ds_link import Cost
from rig.plan.ds_model import Model
from rig.plan.ds_size import STEP, Pace, overlapped_bucket

FLOAT = 4
IN_FLIGHT = 2
FIT_BYTES = (1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
LINGER_S = 1.0  # a node that leaves at once takes with it what its shaped link still holds for the others
SLACK = 1.03


class Fit(NamedTuple):
    """One all-reduce of S bytes takes alpha_s + beta * S seconds."""

    alpha_s: float
    beta: float


def fit(points: list[tuple[int, float]]) -> Fit:
    """Least squares on relative errors, so that small messages count as much as large ones."""
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    x = sum(w * size for w, (size, _) in zip(weights, points, strict=True)) / total
    y = sum(w * seconds for w, (_, seconds) in zip(weights, points, strict=True)) / total
    above = sum(w * (size - x) * (seconds - y) for w, (size, seconds) in zip(weights, points, strict=True))
    below = sum(w * (size - x) ** 2 for w, (size, _) in zip(weights, points, strict=True))
    beta = above / below
    return Fit(max(y - beta * x, 1e-6), max(beta, 1e-15))


class Stream:
    """Collectives one after the other beside the program, as on a stream of NCCL's."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.thread = ThreadPoolExecutor(1)

    def all_reduce(self, data: torch.Tensor) -> "Future[None]":
        return self.thread.submit(self._run, data)

    def _run(self, data: torch.Tensor) -> None:
        time.sleep(self.latency_s)
        dist.all_reduce(data)


def measure(stream: Stream, repeat: int) -> list[tuple[int, float]]:
    """Seconds of one all-reduce in a row of them, for each size; the slowest rank counts."""
    points = []
    for size in FIT_BYTES:
        data = torch.zeros(size // FLOAT)
        stream.all_reduce(data).result()
        count = max(3, repeat if size < 1 << 20 else repeat // 4)
        points.append((size, statistics.median(_row(stream, data, count) for _ in range(3))))
    return points


def _row(stream: Stream, data: torch.Tensor, count: int) -> float:
    start = time.perf_counter()
    for one in [stream.all_reduce(data) for _ in range(count)]:
        one.result()
    return slowest((time.perf_counter() - start) / count)


def slowest(seconds: float) -> float:
    value = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return float(value.item())


def step(stream: Stream, total_bytes: int, bucket_bytes: int, gamma: float) -> float:
    """One backward pass: fill, send, go on; at the end wait for what is in flight."""
    data = torch.zeros(max(1, bucket_bytes // FLOAT))
    waiting: list[Future[None]] = []
    left = total_bytes
    dist.barrier()
    start = time.perf_counter()
    due = start
    while left > 0:
        size = min(bucket_bytes, left)
        due = max(due, time.perf_counter() - gamma * size) + gamma * size
        time.sleep(max(0.0, due - time.perf_counter()))
        if len(waiting) >= IN_FLIGHT:
            waiting.pop(0).result()
        waiting.append(stream.all_reduce(data[: max(1, size // FLOAT)].clone()))
        left -= size
    for one in waiting:
        one.result()
    return slowest(time.perf_counter() - start)


def chosen(link: Fit, total_bytes: int, gamma: float) -> int:
    """The bucket in bytes that rig plans for this link and pace."""
    bandwidth = 1 / link.beta
    cost = Cost(link.alpha_s, link.beta, bandwidth, link.alpha_s * bandwidth, "measured")
    inputs = DsInputs(model=Model(params=total_bytes // FLOAT), dtype_bytes=FLOAT)
    pace = Pace(cost, gamma, None, float(total_bytes), None)
    return overlapped_bucket(inputs, pace, STEP).elements * FLOAT  # a GPU's floor is more than these gradients


def regime(stream: Stream, link: Fit, total_bytes: int, pace: float, rounds: int) -> dict[str, Any]:
    """All buckets in turn, several rounds of it, so that a change of the machine meets all of them; medians."""
    gamma = pace * link.beta
    plan = min(chosen(link, total_bytes, gamma), total_bytes)
    grid = sorted(
        {plan, total_bytes, *(total_bytes >> shift for shift in range(1, 9) if total_bytes >> shift >= 1 << 14)}
    )
    took: dict[int, list[float]] = {size: [] for size in grid}
    for _ in range(rounds):
        for size in grid:
            took[size].append(step(stream, total_bytes, size, gamma))
    median = {size: statistics.median(times) for size, times in took.items()}
    best = min(median.values())
    return {
        "gamma_over_beta": pace,
        "backward_s": round(gamma * total_bytes, 4),
        "grid": [{"bytes": size, "seconds": round(median[size], 4)} for size in grid],
        "chosen_bytes": plan,
        "chosen_s": round(median[plan], 4),
        "best_s": round(best, 4),
        "ratio": round(median[plan] / best, 4),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument(
        "--pace", type=float, action="append", help="gamma/beta: above 1 compute bounds, below the link"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency-ms", type=float, default=10.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=2))
    stream = Stream(options.latency_ms / 1000)
    link = fit(measure(stream, 12))
    total = options.megabytes << 20
    regimes = [regime(stream, link, total, pace, options.rounds) for pace in options.pace or (0.5, 2.0)]
    ranks = dist.get_world_size()
    if dist.get_rank() == 0:
        rate = 2 * (ranks - 1) / ranks / link.beta * 8 / 1e6
        told = {"ranks": ranks, "cpus": os.cpu_count(), "alpha_us": round(link.alpha_s * 1e6)}
        print("RESULT " + json.dumps(told | {"link_mbit": round(rate, 1), "regimes": regimes}), flush=True)
    dist.barrier()
    time.sleep(LINGER_S)
    dist.destroy_process_group()
    return int(any(one["ratio"] > SLACK for one in regimes))


if __name__ == "__main__":
    sys.exit(main())
