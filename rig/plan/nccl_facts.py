"""What the NCCL rules pass to each other: the scene they judge, and what they say about it."""

from rig.finding import Finding
from rig.lean import TYPE_CHECKING, Any, Mapping, NamedTuple
from rig.machine import Hca, Machine, Port
from rig.plan import Setting

if TYPE_CHECKING:
    from rig.platform import Platform

# What a machine can be found to be, worst first. A plan's verdict is the worst that any of its findings asks for.
FAULTS = ("blocked", "host-fix-needed", "misconfigured", "degraded")
HEALTHY = ("rdma-ok", "rdma-ok-no-gdr", "tcp-only", "no-network-needed")

Version = tuple[int, int, int]
NOTHING: Mapping[str, str] = {}
NO_PATHS: Mapping[tuple[str, str], str | None] = {}


class Peer(NamedTuple):
    """Another node of the job, as far as it is known. None: not known."""

    host: str | None = None
    addresses: tuple[str, ...] = ()
    hcas: tuple[str, ...] | None = None  # the HCAs that NCCL should use there
    gid_index: tuple[tuple[str, int], ...] | None = None
    socket_if: str | None = None
    netdevs: tuple[str, ...] | None = None  # names of its interfaces
    net_plugins: tuple[str, ...] | None = None
    nccl_version: Version | None = None


class GpuGdr(NamedTuple):
    """Whether NCCL can let an HCA read and write this GPU's memory: each gate, then what this NCCL version makes of
    them.

    `gpu_supports`: the GPU and the platform can. `peermem`: a peer-memory file that this version tests is there.
    `dmabuf`: the dma-buf way is open. `distance`: to the nearest chosen HCA, NCCL's word. `within_limit`: that
    distance is allowed. `accepted`: all of it together. None: not known.
    """

    gpu: int
    gpu_supports: bool | None
    peermem: bool | None
    dmabuf: bool | None
    distance: str | None
    within_limit: bool | None
    accepted: bool | None


class NcclPlan(NamedTuple):
    """What NCCL is told on this node, and what was found.

    `environment` holds job-wide settings, `conf` this node's own (for its nccl.conf). `hcas`, `gid_index` and
    `socket_if` say what is right, whether or not it had to be written: `hcas` is None where nothing could be decided,
    () where no HCA can be used. `verdict` is one of FAULTS or HEALTHY.
    """

    environment: tuple[Setting, ...] = ()
    conf: tuple[Setting, ...] = ()
    hcas: tuple[str, ...] | None = None
    gid_index: tuple[tuple[str, int], ...] = ()
    socket_if: str | None = None
    gdr: tuple[GpuGdr, ...] = ()
    verdict: str = "no-network-needed"
    findings: tuple[Finding, ...] = ()


class Scene(NamedTuple):
    """Everything that a rule may look at."""

    machine: Machine
    platform: "Platform | None" = None
    user: Mapping[str, str] = NOTHING
    peers: tuple[Peer, ...] = ()
    version: Version | None = None
    nodes: int | None = None
    symptoms: tuple[str, ...] = ()
    unread: Mapping[str, str] = NOTHING
    p2p_works: bool | None = None
    paths: Mapping[tuple[str, str], str | None] = NO_PATHS  # (bus id of a GPU, of an HCA) -> class

    def user_value(self, name: str) -> str | None:
        """The user's value; an empty one counts as unset, as NCCL treats it for lists."""
        return self.user.get(name) or None


class Candidate(NamedTuple):
    """One port that could carry traffic, with its device."""

    hca: Hca
    port: Port


class Say(NamedTuple):
    """A finding and the verdict it asks for; None: it asks for none."""

    finding: Finding
    verdict: str | None = None


_OUTCOME = {"blocked": "fail", None: "pass"}


def say(
    code: str,
    text: str,
    *,
    verdict: str | None = None,
    domain: str = "host",
    outcome: str | None = None,
    subject: str = "",
    want: Any = None,
    got: Any = None,
    fix: str = "",
) -> Say:
    """A finding whose outcome follows from its verdict: blocked fails, other faults warn, the rest is told for the
    record."""
    return Say(
        Finding(code, outcome or _OUTCOME.get(verdict, "warn"), domain, text, subject, want, got, fix),
        verdict,
    )


def names(candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    """Device names in order, each once."""
    return tuple(dict.fromkeys(one.hca.name for one in candidates))


def listed(words: Any, most: int = 8) -> str:
    """Words for one line of text: the first few, then how many more."""
    words = [str(word) for word in words]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
