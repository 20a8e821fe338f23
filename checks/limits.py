"""Limits that the container or the host sets on a training process."""

from checks import check, known, say
from checks.needs import RDMA
from rig.finding import Finding
from rig.lean import Iterator
from rig.machine import UNLIMITED
from rig.snapshot import Snapshot


@check(
    at="boot",
    needs=(RDMA,),
    domain="host",
    fix="docker run --ulimit memlock=-1",
    covers=("MEMLOCK_LIMITED",),
)
def memlock_is_unlimited(now: Snapshot) -> Iterator[Finding]:
    """RDMA buffers can be pinned.

    Memory that a HCA reads and writes must stay in place, and counts against RLIMIT_MEMLOCK of the process. With
    Docker's usual limit registration fails with ENOMEM, and NCCL falls back to TCP without a word.

    Symptom: ten times slower than sold; `ibv_reg_mr failed: Cannot allocate memory`.
    Source: setrlimit(2); NVIDIA/nccl-tests#206, microsoft/superbenchmark#569.
    """
    limit = known(now.machine.limits.memlock_bytes, "the memlock limit")
    if limit != UNLIMITED:
        yield say(f"memlock is {limit} bytes: RDMA falls back to TCP", "memlock", UNLIMITED, limit)
