"""COUNT processes that join gloo through DeepSpeed, reduce once and end; prints how they ended as JSON, code -> times.

Forked, so that torch is imported once, and four at a time. One that has not ended after 20 s counts as "hang".
"""

import json
import os
import sys
import time
from collections import Counter

import deepspeed
import torch

AT_A_TIME = 4


def reduce_once() -> int:
    """The pid of a process that does."""
    pid = os.fork()
    if pid == 0:
        # A store in memory: no ports are needed.
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
        deepspeed.comm.all_reduce(torch.ones(1))
        sys.exit(0)
    return pid


def end_of(pid: int, until: float) -> str:
    """Its exit code, negative for a signal; "hang" where it does not come in time."""
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return str(os.waitstatus_to_exitcode(status))
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hang"


ends: Counter[str] = Counter()
for _ in range(int(sys.argv[1]) // AT_A_TIME):
    pids = [reduce_once() for _ in range(AT_A_TIME)]
    ends.update(end_of(pid, time.monotonic() + 20) for pid in pids)
print("RESULT " + json.dumps(ends))
