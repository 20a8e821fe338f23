"""Reports with every outcome, made by real checks, and with the words that break formats."""

from collections.abc import Iterable, Iterator

from checks import Check, Need, evaluate, known, say
from checks.running import Judged, Report
from rig.finding import Finding
from rig.machine import Machine, Surroundings
from rig.snapshot import Probe, Snapshot

NEVER = Need("unicorn", "no unicorn here", lambda now: False)
NASTY = "a\"b'<c>&]]> \\ # {d} | ünï\x00\x1b[31m\u2028\ud800\ufffe --- ... ok 1\nnot ok 2"
NOW = Snapshot(Machine(surroundings=Surroundings(hostname="node-1")))


def made(name: str, findings: Iterable[Finding] = (), needs: tuple[Need, ...] = (), severity: str = "fail") -> Check:
    """A check that yields these findings."""

    def run(now: Snapshot) -> Iterator[Finding]:
        yield from findings

    return Check(name, name.split("_")[0], "boot", needs, severity, "host", "ask the host", run)


def lost(name: str, what: str, severity: str = "fail") -> Check:
    """A check that cannot tell."""

    def run(now: Snapshot) -> Iterator[Finding]:
        known(None, what)
        yield from ()

    return made(name, severity=severity)._replace(run=run)


def report(*checks: Check, strict: bool = False, **more: object) -> Report:
    judged = tuple(Judged(one, evaluate(one, NOW), 1.25 if one.id.endswith("probed") else None) for one in checks)
    told = Report("quick", judged, (), "no GPU, no HCA", "node-1", "2026-12-01T02:00:00Z", 1.5, strict)
    return told._replace(**more)  # type: ignore[arg-type]


PASS = made("gpu_is_there")
PROBED = made("gpu_is_fast_and_probed")
WARN = made("rdma_is_calm", [say("retransmits: 12", "mlx5_0:1", 0, 12, evidence="hw_counters")], severity="warn")
FAIL = made(
    "limits_are_high",
    [
        say("memlock is 65536 bytes", "memlock", "unlimited", 65536, fix="docker run --ulimit memlock=-1"),
        say("too few files", "nofile", {"at least": 65536}, [1024, None], fix="docker run --ulimit nofile=65536"),
    ],
)
SKIP = made("rdma_is_up", needs=(NEVER,))
UNKNOWN = lost("driver_answers", "the driver's version")
MILD = lost("clocks_are_steady", "the clocks", severity="warn")
WILD = made("limits_are_odd", [say(NASTY, NASTY, NASTY, {NASTY: frozenset({NASTY, "b"})}, NASTY, evidence=NASTY)])
LOST = lost("storage_is_odd", NASTY)
CUT = Probe("nccl_node", "unasked", {"asking": "GPU 3"}, "budget: ended after 4.1 s, while it asked GPU 3", 4.1)
NEVER_RUN = Probe("disk", "unasked", error="budget: no time was left to start it")
ALL = (PASS, PROBED, WARN, FAIL, SKIP, UNKNOWN, MILD, WILD, LOST)
STUCK = Probe("gpu_init", "unresponsive", {}, f"did not end within 60 s, while it asked {NASTY}", 60.5)


def every_outcome(strict: bool = False) -> Report:
    """All five outcomes, two results whose words are hostile to every format, and probes in every state of interest."""
    return report(*ALL, strict=strict, probes=(STUCK, Probe("shm", "ok", {}, "", 0.5), CUT, NEVER_RUN))


def nothing() -> Report:
    """A run of no checks, about a machine of which nothing is known."""
    return Report("boot", ())
