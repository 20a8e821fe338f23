"""Healthy snapshots: machines on paper with a healthy host, image and probe results around them."""

import functools

from rig.captured import Captured
from rig.detect import detect
from rig.expected import Expected
from rig.host import Host
from rig.image import Image
from rig.machine import Machine
from rig.plan import Plan
from rig.snapshot import Snapshot
from tests.checks.healthy_fabric import with_healthy_fabric
from tests.checks.healthy_gpus import with_healthy_gpus
from tests.checks.healthy_image import healthy_image
from tests.checks.healthy_probes import healthy_probes
from tests.checks.healthy_system import with_healthy_system
from tests.test_machine_plans import HERE, planned


@functools.cache
def healthy(name: str) -> Snapshot:
    """The machine of that name in tests/machines, with nothing wrong."""
    return prepared(detect(Captured(str(HERE / name / "tree.txt"))), planned(name).plan)


def prepared(machine: Machine, plan: Plan) -> Snapshot:
    """A machine and its plan with a healthy host, image and probe results."""
    now = Snapshot(machine, plan, Expected(), {}, {"NCCL_VERSION": "2.21.5"}, Host(), Image())
    now = now._replace(image=healthy_image())
    for prepared in (with_healthy_system, with_healthy_gpus, with_healthy_fabric):
        now = prepared(now)
    return now._replace(probes=healthy_probes(now))


def h100() -> Snapshot:
    """Eight H100 SXM with NVSwitch and nine InfiniBand HCAs, in a container."""
    return healthy("hgx-h100-ib")


def a100() -> Snapshot:
    return healthy("dgx-a100")


def roce() -> Snapshot:
    """Eight H100 with RoCE bonds."""
    return healthy("h100-roce-bonds")


def rtx4090() -> Snapshot:
    """Eight consumer cards: no peer access, no GPUDirect RDMA, no ECC."""
    return healthy("rtx4090-no-p2p")


def no_gpu() -> Snapshot:
    return healthy("nothing")
