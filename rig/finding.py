"""What a check or a plan rule has to say, and how it is said to a machine."""

from rig.lean import Any, NamedTuple

OUTCOMES = ("pass", "warn", "fail", "skip", "unknown")
# Who builds the image; who owns the machine; who runs the cluster, the marketplace, the network; who types `docker run`
# or writes the job.
DOMAINS = ("image", "host", "platform", "user")


class Finding(NamedTuple):
    """One statement about the machine, the image or the user's input, with its remedy.

    `id` is stable and never reused. `outcome` is one of OUTCOMES, `domain` (who must act) one of DOMAINS. `text` is one
    line in the field's words; `subject` names the thing (`mlx5_0:1`, `ds_config.json: zero_optimization.stage`);
    `want` and `got` hold what was expected and found; `fix` is what to type or whom to ask; `evidence` where it was
    read.
    """

    id: str
    outcome: str
    domain: str
    text: str
    subject: str = ""
    want: Any = None
    got: Any = None
    fix: str = ""
    evidence: str = ""
