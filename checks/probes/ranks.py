"""Starts the ranks of a small training on this node: the same program again, once per device."""

import json
import os
import subprocess
import sys
import time
from typing import Any

GRACE_S = 5.0  # for the others, after one has failed: they would wait for it for ever


def start(program: str, count: int, folder: str, environ: dict[str, str]) -> list[int]:
    """Run `count` ranks of a program to their end; their exit codes. `folder` is where they meet (a file store), and
    where they leave their results and what they say (errors.RANK)."""
    words = [sys.executable, program, "--rank", folder, *sys.argv[1:]]
    ranks: list[subprocess.Popen[bytes]] = []
    for number in range(count):
        env = {**os.environ, "OMP_NUM_THREADS": "1", **environ, **_place(number, count)}
        with open(os.path.join(folder, f"errors.{number}"), "wb") as errors:
            ranks.append(subprocess.Popen(words, env=env, stdout=errors, stderr=errors))
    until = None
    while None in (codes := [rank.poll() for rank in ranks]):
        if until is None and any(codes):
            until = time.monotonic() + GRACE_S
        if until is not None and time.monotonic() > until:
            for rank in ranks:
                rank.kill()
        time.sleep(0.02)
    return [rank.returncode for rank in ranks]


def last_words(folder: str, codes: list[int]) -> str | None:
    """What the first rank that failed said last, as one line; None where none did. One that was killed because
    another had failed says nothing new."""
    failed = [rank for rank, code in enumerate(codes) if code > 0] or [rank for rank, code in enumerate(codes) if code]
    if not failed:
        return None
    with open(os.path.join(folder, f"errors.{failed[0]}"), errors="replace") as file:
        lines = [" ".join(line.split()) for line in file if line.strip()]
    return f"rank {failed[0]}: {lines[-1][-300:] if lines else f'ended with {codes[failed[0]]}'}"


def _place(rank: int, count: int) -> dict[str, str]:
    """As torchrun and DeepSpeed's launcher name it; all of them are on this node."""
    mine = dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank))
    return {**mine, **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_SIZE"), str(count))}


def folder_of_rank() -> str | None:
    """The folder, where this process is a rank."""
    words = sys.argv[1:]
    return words[words.index("--rank") + 1] if "--rank" in words else None


def place() -> tuple[int, int]:
    """Rank and world size."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def leave(folder: str, **result: Any) -> None:
    """Write the result of this rank, and end at once: the farewell of gloo and of NCCL can abort or wait."""
    with open(os.path.join(folder, f"result.{os.environ['RANK']}"), "w") as file:
        json.dump(result, file)
    sys.stderr.flush()
    os._exit(0)


def results(folder: str, count: int) -> list[dict[str, Any]]:
    """What the ranks left, in their order; those that left nothing are not there."""
    found = []
    for rank in range(count):
        path = os.path.join(folder, f"result.{rank}")
        if os.path.exists(path):
            with open(path) as file:
                found.append(json.load(file))
    return found
