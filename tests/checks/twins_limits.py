"""Fixtures of the family limits."""

from tests.checks.snapshots import h100
from tests.checks.twin import Twin, changed

TWINS = (
    Twin(
        "memlock_is_unlimited",
        changed(h100(), machine__limits__memlock_bytes=8 << 20),
        h100(),
        says="falls back to TCP",
        fix="--ulimit memlock=-1",
        domain="host",
        reported=("NVIDIA/nccl-tests#206", "microsoft/superbenchmark#569"),
    ),
)
