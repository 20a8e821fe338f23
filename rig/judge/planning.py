"""A planned run: stage, model, tokens and link, before anybody pays for the nodes."""

from rig.dsconfig import ZERO
from rig.judge.ruling import Edit, Ruling
from rig.judge.site import inputs_at, site_of
from rig.lean import Any, Iterator, Mapping
from rig.plan.ds_advice import advice
from rig.plan.ds_size import pace

Facts = Mapping[str, Any]


def network(given: Facts, world: Facts) -> Iterator[Ruling]:
    """Whether the link carries what the stage sends each micro step."""
    stage = given.get("stage")
    if stage not in (1, 2, 3):
        return
    site = site_of(world, {**given, "gpus_per_node": world.get("gpus_per_node", 1)})
    inputs = inputs_at(site, stage)
    told, suggest = advice(inputs, stage, pace(inputs, stage), False)
    for finding in told:
        if finding.id == "comm-bound":
            text = f"{finding.text}. {finding.fix}" if not suggest else finding.text
            yield Ruling("warn", finding.id, text, finding.subject, finding.fix, suggest=suggest)


def experts(given: Facts, world: Facts) -> Iterator[Ruling]:
    """A module order that changes invalidates the prefetch trace every step and can hang."""
    size = given.get("stage3_prefetch_bucket_size")
    if given.get("moe") is not True or given.get("stage") != 3 or size == 0:
        return
    text = (
        "a changing module order (MoE) invalidates the prefetch trace every step and can hang: prefetch and reuse off"
    )
    edits = (Edit((ZERO, "stage3_prefetch_bucket_size"), 0), Edit((ZERO, "stage3_max_reuse_distance"), 0))
    yield Ruling("fix", "moe-prefetch", text, f"{ZERO}.stage3_prefetch_bucket_size", "Set both to 0", edits)


RULES = (network, experts)
