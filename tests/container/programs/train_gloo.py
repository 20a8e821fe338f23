"""Two or more ranks count steps together over gloo; SIGTERM ends it after a checkpoint, and it goes on from there.

    train_gloo.py STEPS [SECONDS_FOR_A_CHECKPOINT]

Prints `rank R step S`, `rank R told T` (seconds of the clock) and, on rank 0, `saved S` and `resumed S`.
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

steps, slow = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
told: list[float] = []


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one write, so that lines of two ranks do not mix


def stop(number: int, frame: object) -> None:
    told.append(time.time())
    say(f"rank {os.environ['RANK']} told {told[-1]}")


signal.signal(signal.SIGTERM, stop)
dist.init_process_group("gloo")
rank, path = dist.get_rank(), "checkpoint.txt"
step = 0
if os.path.exists(path):
    with open(path) as file:
        step = int(file.read())
    if rank == 0:
        say(f"resumed {step}")
while step < steps:
    step += 1
    # Each rank adds one and says whether it was told to stop: all leave after the same step.
    votes = torch.tensor([1.0, float(bool(told))])
    dist.all_reduce(votes)
    assert votes[0] == dist.get_world_size()
    if votes[1] > 0:
        break
    say(f"rank {rank} step {step}")
    time.sleep(0.1)
if rank == 0:
    time.sleep(slow)
    with open(path + ".new", "w") as file:
        file.write(str(step))
    os.rename(path + ".new", path)
    say(f"saved {step}")
dist.barrier()
time.sleep(0.1)  # torch 2.1's gloo: see patches/deepspeed-0.12.6-cpu-gloo.patch
dist.destroy_process_group()
