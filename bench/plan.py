"""`rig plan` for clusters of growing size, time and memory: `make bench-plan`.

Each run is a process of its own, on a captured 8-GPU machine, with the nodes named by RIG_NODES as a user would. Prints
a table for docs/; exit status 1 when 10,240 nodes take more than 1 s or 100 MB, or when time outgrows the nodes.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parent.parent
TREE = CHECKOUT / "tests" / "machines" / "hgx-h100-ib" / "tree.txt"
NODES = (1, 10, 160, 2560, 10240)
RUNS = 5
GOAL_S, GOAL_MB = 1.0, 100.0


class Cost(NamedTuple):
    seconds: float
    megabytes: float


def plan_once(nodes: int) -> Cost:
    """One `rig plan --json`; wall time, and the peak memory that the kernel counted."""
    environment = {"PATH": os.environ["PATH"], "RIG_NODES": f"gpu-[00001-{nodes:05}]", "RIG_NODE_RANK": "0"}
    command = ["/usr/bin/python3", "-IS", str(CHECKOUT / "entrypoint" / "rig"), "plan", "--json", "--root", str(TREE)]
    started = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if child.returncode != 0 or text.count(b'"gpu-') < nodes:
        raise SystemExit(f"rig plan for {nodes} nodes ended with {child.returncode} after {len(text)} bytes")
    return Cost(seconds, usage.ru_maxrss / 1024)


def main() -> int:
    plan_once(1)  # bytecode and files into the page cache
    costs = {}
    for nodes in NODES:
        runs = [plan_once(nodes) for _ in range(RUNS)]
        costs[nodes] = Cost(statistics.median(run.seconds for run in runs), max(run.megabytes for run in runs))
    print("| nodes x 8 GPUs | ranks | time | peak memory |\n|---|---|---|---|")
    for nodes, cost in costs.items():
        print(f"| {nodes:,} | {nodes * 8:,} | {cost.seconds * 1000:.0f} ms | {cost.megabytes:.0f} MB |")
    largest, quarter = costs[NODES[-1]], costs[NODES[-2]]
    growth = (largest.seconds - costs[1].seconds) / max(quarter.seconds - costs[1].seconds, 1e-3)
    linear = growth <= 1.5 * NODES[-1] / NODES[-2]
    print(f"\n4x the nodes, {growth:.1f}x the time above one node's")
    return 0 if largest.seconds <= GOAL_S and largest.megabytes <= GOAL_MB and linear else 1


if __name__ == "__main__":
    sys.exit(main())
