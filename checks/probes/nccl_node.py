"""An all-reduce over all GPUs of this node: is the sum right, how fast is it, and which way did the data take.

With --network peer access and shared memory are off, so that the same ranks talk through the network transport: what
two nodes would use, tried on one. busbw is nccl-tests' figure, 2 (n - 1) / n of the message per second and GPU; small
messages understate it (NVIDIA/nccl-tests#212), so in the node the message is 4 GiB, or what memory allows. Rehearsed
over gloo. Not seen on hardware yet.
"""

import glob
import os
import sys
import time
from datetime import timedelta
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devices import count, rehearsed
from nccl_log import read_log
from ranks import folder_of_rank, last_words, leave, place, results, start
from telling import die_with_parent, own_folder, run, tell

LARGEST, OVER_NETWORK, REHEARSAL_SIZE = 4 << 30, 256 << 20, 1 << 20
THROUGH_NETWORK = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
LOG_LIMIT = 1 << 20  # bytes read of each rank's log


def message_bytes(memory: int) -> int:
    """A power of two, at most an eighth of the free memory, at most 4 GiB."""
    return min(LARGEST, 1 << max(20, (memory // 8).bit_length() - 1))


def of_one_rank(folder: str) -> None:
    die_with_parent()
    import torch
    from torch import distributed

    rank, world = place()
    on_gpu = rehearsed() is None
    if on_gpu:
        torch.cuda.set_device(rank)
    device = f"cuda:{rank}" if on_gpu else "cpu"
    store = f"file://{folder}/store"
    distributed.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=store, rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    size = message_bytes(torch.cuda.mem_get_info(rank)[0]) if on_gpu else REHEARSAL_SIZE
    if "--network" in sys.argv:
        size = min(size, OVER_NETWORK)  # over sockets 4 GiB would take a minute
    smallest = torch.tensor([size], device=device)
    distributed.all_reduce(smallest, op=distributed.ReduceOp.MIN)
    size = int(smallest.item())
    data = torch.empty(size // 4, device=device)
    first = sums_up(data, rank, world)
    seconds = timed(data.zero_(), on_gpu)
    leave(folder, bytes=size, right=first and sums_up(data, rank, world), seconds=seconds)


def sums_up(data: Any, rank: int, world: int) -> bool:
    """Whether each number of the result is 1 + 2 + ... + world."""
    from torch import distributed

    data.fill_(rank + 1)
    distributed.all_reduce(data)
    return not bool((data != world * (world + 1) // 2).any().item())


def timed(data: Any, on_gpu: bool) -> float:
    """Seconds of one all-reduce, the best of five, after two to warm up."""
    import torch
    from torch import distributed

    best = float("inf")
    for turn in range(7):
        if on_gpu:
            torch.cuda.synchronize()
        began = time.perf_counter()
        distributed.all_reduce(data)
        if on_gpu:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began) if turn > 1 else best
    return best


def whole_log(folder: str) -> str:
    texts = []
    for path in sorted(glob.glob(os.path.join(folder, "log.*"))):
        with open(path, errors="replace") as file:
            texts.append(file.read(LOG_LIMIT))
    return "\n".join(texts)


def main() -> None:
    network = "--network" in sys.argv
    world = count()
    tell(gpus=world, asking="all-reduce of all GPUs" + (" through the network transport" if network else ""))
    if world < 2:
        tell(absent="CUDA sees fewer than two GPUs", asking=None)
        return
    with own_folder("nccl") as folder:
        environ = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": f"{folder}/log.%p"}
        codes = start(__file__, world, folder, {**environ, **(THROUGH_NETWORK if network else {})})
        found = results(folder, world)
        tell(codes=codes, error=last_words(folder, codes), **read_log(whole_log(folder)))
    if len(found) == world:
        size, seconds = found[0]["bytes"], max(one["seconds"] for one in found)
        rate = size / seconds / 1e9
        told = {"seconds": round(seconds, 6), "algbw_gb_s": round(rate, 2)}
        tell(bytes=size, busbw_gb_s=round(rate * 2 * (world - 1) / world, 2), **told)
    if found:
        tell(right=all(one["right"] for one in found))
    tell(asking=None)


if __name__ == "__main__":
    of_rank = folder_of_rank()
    if of_rank is not None:
        of_one_rank(of_rank)
    run(main)
