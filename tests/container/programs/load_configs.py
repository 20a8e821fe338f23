"""Loads DeepSpeed configs as the pinned DeepSpeed does: `load_configs.py FILE`, a JSON list of {name, ranks, config}.

Prints for each name what DeepSpeed understood of it. A config that it refuses ends the program.
"""

import json
import os
import sys
from typing import Any

import deepspeed
from deepspeed.runtime.config import DeepSpeedConfig


class Ranks:
    """Stands for a process group of that size: all that DeepSpeedConfig asks of one."""

    def __init__(self, count: int) -> None:
        self.count = count

    def get_data_parallel_world_size(self) -> int:
        return self.count


def understood(config: dict[str, Any], ranks: int) -> dict[str, Any]:
    loaded = DeepSpeedConfig(config, mpu=Ranks(ranks))
    zero = loaded.zero_config
    return {
        "stage": int(zero.stage),
        "reduce_bucket_size": zero.reduce_bucket_size,
        "stage3_prefetch_bucket_size": zero.prefetch_bucket_size,
        "stage3_param_persistence_threshold": zero.param_persistence_threshold,
        "overlap_comm": zero.overlap_comm,
        "bf16": loaded.bfloat16_enabled,
        "fp16": loaded.fp16_enabled,
        "train_batch_size": loaded.train_batch_size,
    }


def main() -> None:
    # Without a process group DeepSpeed takes the world for one rank, whatever it is told.
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    deepspeed.init_distributed("gloo", verbose=False)
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    print("RESULT " + json.dumps({one["name"]: understood(one["config"], one["ranks"]) for one in cases}))


if __name__ == "__main__":
    main()
