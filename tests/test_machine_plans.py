"""What becomes of each machine in tests/machines: the plan in `expected.json`, beside the facts.

`job.env`, where there is one, is the user's environment. BLESS=1 writes the plan anew (and leaves the facts); read the
difference before it is committed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rig.captured import Captured
from rig.detect import detect
from rig.dsconfig import ZERO, copy_of, fill
from rig.job import read_world
from rig.judge import judge_config
from rig.plan.compose import Asked, Composed, make_plan
from tests.machine_answers import answered

HERE = Path(__file__).parent / "machines"
NAMES = sorted(folder.name for folder in HERE.iterdir() if (folder / "tree.txt").is_file())


def job_of(name: str) -> dict[str, str]:
    path = HERE / name / "job.env"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def planned(name: str, job: Mapping[str, str] | None = None) -> Composed:
    """The plan for the job in job.env, or for another one."""
    environ = job_of(name) if job is None else dict(job)
    root = Captured(str(HERE / name / "tree.txt"))
    world, findings = read_world(environ, hostname="node-1", read=root.read, platform_nodes=())
    assert findings == ()
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


def test_jobs_of_several_nodes_are_among_them() -> None:
    nodes = {name: len({one.name: one.value for one in planned(name).plan.ranks}["slots"]) for name in NAMES}
    assert len([name for name, count in nodes.items() if count > 1]) >= 3
    assert len([name for name in NAMES if not job_of(name)]) >= 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_config_is_judged_by_the_plan_that_fills_it(name: str, stage: int) -> None:
    """ "auto" left for the judge and "auto" filled before it must become the same number."""
    composed = planned(name, {"RIG_NODES": "node-[1-2]", "RIG_NODE_RANK": "0"})
    sizes = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
    keys = sizes if stage == 3 else sizes[:1]
    asked = {"train_micro_batch_size_per_gpu": 1, ZERO: {"stage": stage, **dict.fromkeys(keys, "auto")}}
    filled, _ = fill(copy_of(asked), composed.ds_settings(stage))
    judged = judge_config(asked, composed.site()).output
    assert {key: judged[ZERO][key] for key in keys} == {key: filled[ZERO][key] for key in keys}
    assert all(isinstance(filled[ZERO][key], int) for key in keys)
