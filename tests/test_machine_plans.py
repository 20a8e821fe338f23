"""What becomes of each machine in tests/machines: the plan in `expected.json`, beside the facts.

`job.env`, where there is one, is the user's environment. BLESS=1 writes the plan anew (and leaves the facts); read the
difference before it is committed.
"""

from pathlib import Path
from typing import Any

import pytest

from rig.captured import Captured
from rig.detect import detect
from rig.job import read_world
from rig.plan.compose import Asked, Composed, make_plan
from tests.machine_answers import answered

HERE = Path(__file__).parent / "machines"
NAMES = sorted(folder.name for folder in HERE.iterdir() if (folder / "tree.txt").is_file())


def planned(name: str) -> Composed:
    path = HERE / name / "job.env"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    environ = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    root = Captured(str(HERE / name / "tree.txt"))
    world, _ = read_world(environ, hostname="node-1", read=root.read, platform_nodes=())
    return make_plan(detect(root), world, Asked(environ))


def digest(composed: Composed) -> dict[str, Any]:
    """Values, with who said so; the wording of reasons is free."""
    plan = composed.plan
    lines = {"ranks": plan.ranks, "environment": plan.environment, "nccl.conf": plan.nccl}
    return {
        **{part: {one.name: [one.value, one.source] for one in settings} for part, settings in lines.items()},
        "ds_config": composed.ds_config(),
        "hostfile": [f"{host} slots={slots}" for host, slots in plan.hostfile],
        "findings": sorted({f"{one.id} {one.outcome} {one.domain}" for one in plan.findings}),
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_is_as_expected(name: str) -> None:
    found, wanted = answered(HERE / name, "plan", digest(planned(name)))
    assert found == wanted


@pytest.mark.parametrize("name", NAMES)
def test_every_line_says_who_decided_and_why(name: str) -> None:
    plan = planned(name).plan
    for one in (*plan.ranks, *plan.environment, *plan.nccl, *plan.ds_config):
        assert one.source in ("command line", "environment", "user file", "platform file", "detection", "default"), one
        assert len(one.reason) > 3, one


@pytest.mark.parametrize("name", NAMES)
def test_node_local_values_never_reach_the_environment(name: str) -> None:
    """DeepSpeed's launcher copies every NCCL variable of the first node to all others."""
    local = {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME"}
    assert not local & {one.name for one in planned(name).plan.environment}
