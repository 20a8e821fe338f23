"""The files of the user's that a launch reads by itself, judged before anything starts."""

from rig.finding import Finding
from rig.job import UNUSABLE
from rig.judge import judge_deepspeed_env, judge_hostfile
from rig.lean import Mapping


def judge_named_hostfile(text: str, path: str, local_ranks: int, named: bool) -> tuple[Finding, ...]:
    """What is wrong with a hostfile. `local_ranks`: slots of a line that gives none; other nodes may have more.

    Where the user named the file for this job (`named`), one that cannot be repaired ends the boot.
    """
    world = {"gpus_per_node": local_ranks, "others_may_differ": True}
    return tuple(
        one._replace(id=UNUSABLE, text=f"{one.subject}: {one.text}") if named and one.outcome == "fail" else one
        for one in judge_hostfile(text, world, path).findings
    )


def judge_env_file(text: str, path: str, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """What DeepSpeed's launcher would make of its environment file. rig's own start does not read it."""
    return judge_deepspeed_env(text, {"env": environ}, path).findings
