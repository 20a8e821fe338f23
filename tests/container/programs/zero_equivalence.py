"""ZeRO on two CPU ranks gives the losses of one rank with the same global batch. Prints one JSON object.

    python zero_equivalence.py        starts its own ranks over loopback; exit 0 if all cases hold, else 1

Each case (stage 0-3, fp32 or fp16, two micro steps per optimizer step) runs on one rank and on two. The reference is
plain torch without DeepSpeed. "unreduced" is what plain torch gives on half of the batch: a run that forgets to reduce
its gradients looks like that, and it must lie outside the tolerance, or the comparison would prove nothing.
SGD, because Adam divides by the size of the gradient and so would hide a sum that should be a mean; the case with
AdamW shows that a config written for the fused op trains here.
The model and its buckets are small and odd, so that padding, several buckets and resident parameters all occur.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

STEPS = 6
SAVED_AT = 3
GLOBAL_BATCH = 16
MICRO_STEPS = 2
OPTIMIZERS = {"sgd": {"lr": 0.05, "momentum": 0.9}, "adamw": {"lr": 0.01, "weight_decay": 0.0}}
# Largest relative difference of a loss. fp32: other order of the same sums. fp16: 11 bits in weights and gradients.
TOLERANCE = {"fp32": 1e-5, "fp16": 1e-2}


class Case(NamedTuple):
    """One way to train: ZeRO stage, type of weights and gradients, optimizer."""

    stage: int
    precision: str
    optimizer: str = "sgd"

    def __str__(self) -> str:
        return f"zero{self.stage}-{self.precision}-{self.optimizer}"


CASES = [*(Case(stage, precision) for precision in TOLERANCE for stage in range(4)), Case(3, "fp32", "adamw")]


class Linear(nn.Linear):
    """Computes in fp32: the matrix product of torch 2.1 has no fp16 on CPUs. Weights and gradients keep their type."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.float(), self.bias.float())


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(Linear(7, 33), nn.GELU(), Linear(33, 29), nn.GELU(), Linear(29, 5))


def micro_batch(step: int, micro_step: int, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """The share of one rank: equal parts, so the mean of the ranks' mean losses is the mean of the whole."""
    generator = torch.Generator().manual_seed(1000 * step + micro_step)
    x = torch.randn(GLOBAL_BATCH // MICRO_STEPS, 7, generator=generator)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin(), x[:, 3], x[:, 4].abs(), x[:, 5] - x[:, 6]], dim=1)
    return x.chunk(world_size)[rank], y.chunk(world_size)[rank]


def plain_losses(optimizer_name: str, world_size: int = 1) -> list[float]:
    """Plain torch on the share of rank 0: of one rank the whole batch, of two the half of it."""
    model = make_model()
    make_optimizer: Any = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[optimizer_name]
    optimizer = make_optimizer(model.parameters(), **OPTIMIZERS[optimizer_name])
    if optimizer_name == "adamw":
        # ZeRO steps once without a gradient to allocate the optimizer's state: Adam's step count is one ahead.
        functional.mse_loss(model(torch.zeros(1, 7)) * 0, torch.zeros(1, 5)).backward()
        optimizer.step()
        optimizer.zero_grad()
    losses = []
    for step in range(STEPS):
        total = 0.0
        for micro_step in range(MICRO_STEPS):
            x, y = micro_batch(step, micro_step, 0, world_size)
            loss = functional.mse_loss(model(x), y) / MICRO_STEPS
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses


def ds_config(case: Case, world_size: int) -> dict[str, object]:
    return {
        "train_batch_size": GLOBAL_BATCH,
        "train_micro_batch_size_per_gpu": GLOBAL_BATCH // MICRO_STEPS // world_size,
        "gradient_accumulation_steps": MICRO_STEPS,
        "optimizer": {
            "type": {"sgd": "SGD", "adamw": "AdamW"}[case.optimizer],
            "params": dict(OPTIMIZERS[case.optimizer]),
        },
        "zero_allow_untested_optimizer": True,
        "fp16": {"enabled": case.precision == "fp16", "loss_scale": 128},
        "zero_optimization": {
            "stage": case.stage,
            "reduce_bucket_size": 300,
            "stage3_prefetch_bucket_size": 200,
            "stage3_param_persistence_threshold": 30,
        },
        "steps_per_print": 10**9,
    }


def train(case: Case, steps: range, load: str = "", save: str = "") -> list[float]:
    """Losses of the given steps, averaged over all ranks; with `load` from a checkpoint, with `save` to one."""
    import deepspeed
    from deepspeed import comm

    rank, world_size = comm.get_rank(), comm.get_world_size()
    engine, *_ = deepspeed.initialize(
        model=(model := make_model()),
        model_parameters=list(model.parameters()),
        config=ds_config(case, world_size),
    )
    if load:
        path, state = engine.load_checkpoint(load)
        if path is None or state["step"] != steps.start:
            raise RuntimeError(f"checkpoint in {load} not loaded: {path}, {state}")
    losses = []
    for step in steps:
        total = torch.zeros(1)
        for micro_step in range(MICRO_STEPS):
            x, y = micro_batch(step, micro_step, rank, world_size)
            loss = functional.mse_loss(engine(x).float(), y)
            total += loss.detach() / MICRO_STEPS
            engine.backward(loss)
            engine.step()
        comm.all_reduce(total)
        losses.append(total.item() / world_size)
    if save:
        engine.save_checkpoint(save, client_state={"step": steps.stop})
    engine.destroy()
    return losses


def check_collectives() -> None:
    """The collectives that DeepSpeed builds for gloo, against values worked out by hand. Raises on the first wrong."""
    from deepspeed import comm

    rank, world_size = comm.get_rank(), comm.get_world_size()
    mine = torch.arange(3.0) + 10 * rank
    gathered = torch.empty(3 * world_size)
    handle = comm.all_gather_into_tensor(gathered, mine, async_op=True)
    handle.wait()
    expected = torch.cat([torch.arange(3.0) + 10 * other for other in range(world_size)])
    expect("all_gather_into_tensor", gathered, expected)

    whole = torch.arange(2.0 * world_size) * (rank + 1)
    ones = torch.arange(2.0 * world_size).chunk(world_size)[rank]  # this rank's part of what rank 0 contributes
    ranks_sum = world_size * (world_size + 1) / 2
    factors = {comm.ReduceOp.SUM: ranks_sum, comm.ReduceOp.AVG: ranks_sum / world_size, comm.ReduceOp.MAX: world_size}
    for op, factor in factors.items():
        for name, source in (("reduce_scatter_tensor", whole), ("reduce_scatter", list(whole.chunk(world_size)))):
            part = torch.empty(2)
            getattr(comm, name)(part, source, op=op)
            expect(f"{name} {op}", part, ones * factor)
    expect("input of reduce_scatter", whole, torch.arange(2.0 * world_size) * (rank + 1))


def expect(what: str, found: Tensor, expected: Tensor) -> None:
    if not torch.equal(found, expected):
        raise RuntimeError(f"{what}: {found.tolist()} instead of {expected.tolist()}")


def rank_main(folder: str) -> None:
    """All cases on this rank; rank 0 leaves the losses in `folder`."""
    import deepspeed
    from deepspeed import comm

    deepspeed.init_distributed(verbose=False)
    check_collectives()
    results: dict[str, list[float]] = {}
    for case in CASES:
        results[str(case)] = train(case, range(STEPS))
        if case.stage:
            saved = os.path.join(folder, f"{case}-{comm.get_world_size()}")
            results[f"{case}-resumed"] = [
                *train(case, range(SAVED_AT), save=saved),
                *train(case, range(SAVED_AT, STEPS), load=saved),
            ]
    if comm.get_rank() == 0:
        with open(os.path.join(folder, f"losses-{comm.get_world_size()}.json"), "w") as file:
            json.dump(results, file)


def run_ranks(world_size: int, folder: str) -> dict[str, list[float]]:
    """Start the ranks over loopback, as torchrun would, and collect what rank 0 left."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        **os.environ,
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "rank", folder],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=sys.stderr,
        )
        for rank in range(world_size)
    ]
    codes = [rank.wait(timeout=600) for rank in ranks]
    if any(codes):
        raise RuntimeError(f"exit codes of {world_size} ranks: {codes}")
    with open(os.path.join(folder, f"losses-{world_size}.json")) as file:
        losses: dict[str, list[float]] = json.load(file)
    return losses


def difference(losses: list[float], reference: list[float]) -> float:
    """Largest relative difference of two loss curves of the same steps."""
    return max(abs(a - b) / abs(b) for a, b in zip(losses, reference, strict=True))


def judge(case: Case, one: list[float], two: list[float]) -> dict[str, object]:
    """The differences of one case, and whether they are within its tolerance."""
    reference = plain_losses(case.optimizer)
    unreduced = difference(plain_losses(case.optimizer, 2), reference)
    tolerance = TOLERANCE[case.precision]
    to_one, to_plain = difference(two, one), difference(two, reference)
    return {
        "ok": max(to_one, to_plain) <= tolerance < unreduced,
        "losses": two,
        "two_ranks_to_one": to_one,
        "two_ranks_to_plain_torch": to_plain,
        "tolerance": tolerance,
        "unreduced": unreduced,
    }


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        one, two = run_ranks(1, folder), run_ranks(2, folder)
    cases = {
        name: judge(case, one[name], two[name])
        for case in CASES
        for name in (str(case), f"{case}-resumed")
        if name in two
    }
    ok = all(case["ok"] for case in cases.values())
    print(json.dumps({"ok": ok, "cases": cases}, indent=2))
    return 0 if ok else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank_main(sys.argv[2])
    else:
        sys.exit(main())
