"""Train a small network with plain torch DistributedDataParallel, without DeepSpeed: on GPUs or on CPUs.

    ddp.py --steps 300

Started once per rank, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, it trains on all of them.
Started alone, without these variables (`python ddp.py`), it trains on one GPU or on the CPU.

The network learns which of 8 directions a noisy point lies in; the data is made on the spot.
"""

import argparse
import math
import os
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

CLASSES = 8


def join_world() -> torch.device:
    """Join the other ranks, if there are any, and return this rank's device."""
    # A world of one still makes a process group, so that the program has no second path for it.
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    if "RANK" not in os.environ:
        os.environ.update(alone)
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)  # before NCCL starts: it takes the current device
        dist.init_process_group("nccl")
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    return device


def draw_batch(step: int, size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Points and the sector each was drawn from; other points on every rank and in every step."""
    generator = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    label = torch.randint(CLASSES, (size,), generator=generator)
    angle = (label + torch.rand(size, generator=generator)) * (2 * math.pi / CLASSES)
    radius = torch.rand(size, generator=generator) + 0.5
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = torch.randn(size, 2, generator=generator) * 0.02
    return (points + noise).to(device), label.to(device)


def mean_over_ranks(loss: Tensor) -> float:
    """The loss of the whole world; DDP averages gradients, not what you print."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def say(line: str) -> None:
    if dist.get_rank() == 0:
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--log-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--batch", type=int, default=256, help="points per rank")
    parser.add_argument("--lr", type=float, default=3e-3)
    arguments = parser.parse_args()

    device = join_world()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    model = DistributedDataParallel(network.to(device), device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)

    first_loss = last_loss = float("nan")
    since = time.monotonic()
    for step in range(1, arguments.steps + 1):
        points, labels = draw_batch(step, arguments.batch, device)
        loss = functional.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()  # the gradients are averaged over all ranks while this runs
        optimizer.step()
        if step == 1:
            first_loss = mean_over_ranks(loss)
        if step % arguments.log_every == 0 or step == arguments.steps:
            last_loss = mean_over_ranks(loss)
            rate = arguments.batch * dist.get_world_size() * step / (time.monotonic() - since)
            say(f"step {step} loss {last_loss:.3f} samples/s {rate:.0f}")

    say(f"done: loss {first_loss:.2f} -> {last_loss:.2f} in {arguments.steps} steps")
    time.sleep(0.1)  # a thread of torch 2.1's gloo that still holds a tensor would keep the next line waiting for ever
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
