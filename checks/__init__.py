"""The catalogue of checks: pure functions over a Snapshot, a file a family, each function a sentence that should hold.

    @check(at="boot", needs=(RDMA,), domain="user", fix="docker run --ulimit memlock=-1")
    def memlock_is_unlimited(now: Snapshot) -> Iterator[Finding]:
        \"\"\"RDMA buffers can be pinned. ...\"\"\"

A check yields a finding for each thing that is wrong; none means pass. Its name is its id, its docstring its page in
docs/checks.md. What it cannot know it says by raising CannotTell; anything else that it raises counts as that too.
"""

from rig.finding import Finding
from rig.lean import Any, Callable, Iterable, NamedTuple
from rig.snapshot import Snapshot

LEVELS = ("boot", "quick", "full", "deep")
SEVERITIES = ("warn", "fail")


class CannotTell(Exception):
    """The check cannot be judged: one phrase that says what could not be read."""


class Need(NamedTuple):
    """What must be there for a check to apply. `name` is what `--no-skip` takes; `without` says what is missing."""

    name: str
    without: str
    met: Callable[[Snapshot], bool]


class Check(NamedTuple):
    """One check. `at` is the first level (one of LEVELS) at which it runs, `severity` (one of SEVERITIES) and `domain`
    (one of rig.finding.DOMAINS) hold for its findings unless one says otherwise; `probe` names the program
    (checks.probing) whose result it judges, `also` those that it looks at besides: all of them run with it, and it is
    judged once all have ended. One of `also` may have told nothing, which is for the check to say. `covers` are
    findings of the plan that say the same."""

    id: str
    family: str
    at: str
    needs: tuple[Need, ...]
    severity: str
    domain: str
    fix: str
    run: Callable[[Snapshot], Iterable[Finding]]
    probe: str | None = None
    covers: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def probes(self) -> tuple[str, ...]:
        """Names of all probes that it looks at."""
        return (*((self.probe,) if self.probe else ()), *self.also)

    @property
    def title(self) -> str:
        return self.id.replace("_", " ")


class Result(NamedTuple):
    """What a check said. `outcome` is one of rig.finding.OUTCOMES; `why` the reason of skip and unknown."""

    id: str
    family: str
    outcome: str
    findings: tuple[Finding, ...] = ()
    why: str = ""
    missing: str = ""  # name of the need that was not met


def check(
    at: str,
    fix: str,
    domain: str,
    severity: str = "fail",
    needs: tuple[Need, ...] = (),
    probe: str | None = None,
    covers: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
) -> Callable[[Callable[[Snapshot], Iterable[Finding]]], Check]:
    """Make a check of a function; the module's name is its family."""

    def made(run: Callable[[Snapshot], Iterable[Finding]]) -> Check:
        family = run.__module__.rpartition(".")[2]
        return Check(run.__name__, family, at, needs, severity, domain, fix, run, probe, covers, also)

    return made


def say(text: str, subject: str = "", want: Any = None, got: Any = None, fix: str = "", **more: str) -> Finding:
    """A finding; what is left empty (id, outcome, domain, fix) is taken from the check. `more`: evidence, outcome or
    domain, where this one differs."""
    return Finding("", more.pop("outcome", ""), more.pop("domain", ""), text, subject, want, got, fix, **more)


def known(value: Any, what: str) -> Any:
    """`value`, or CannotTell where it is None."""
    if value is None:
        raise CannotTell(f"{what}: not known")
    return value


def silent(told: Iterable[tuple[str, Any]], what: str) -> Iterable[Finding]:
    """Of (name, value) an unknown for each without a value while others have one; CannotTell where none has: one of
    several that says nothing must not pass with the rest."""
    rows = tuple(told)
    if not any(value is not None for _, value in rows):
        raise CannotTell(f"{what}: not known")
    return [say(f"{name}: {what} is not known", name, outcome="unknown") for name, value in rows if value is None]


def evaluate(one: Check, now: Snapshot, no_skip: frozenset[str] = frozenset()) -> Result:
    """The result of one check. A need that is not met is a skip, or a failure where `no_skip` names it."""
    for need in one.needs:
        try:
            met = need.met(now)
        except CannotTell as error:
            return Result(one.id, one.family, "unknown", (), str(error))
        except Exception as error:
            return Result(one.id, one.family, "unknown", (), f"the need {need.name} broke: {_named(error)}")
        if not met:
            if need.name not in no_skip:
                return Result(one.id, one.family, "skip", (), need.without, need.name)
            absent = Finding(one.id, "fail", one.domain, f"{need.without}, and it must be there", fix=one.fix)
            return Result(one.id, one.family, "fail", (absent,), need.without, need.name)
    probe = now.probes.get(one.probe) if one.probe else None
    if probe is not None and probe.state == "unasked":  # no time was left, or an earlier one is stuck
        return Result(one.id, one.family, "unknown", (), probe.error or f"the probe {probe.name} was not run")
    try:
        findings = tuple(_whole(one, finding) for finding in one.run(now))
    except CannotTell as error:
        return Result(one.id, one.family, "unknown", (), str(error))
    except Exception as error:  # a fault of the check itself must never look like a pass
        return Result(one.id, one.family, "unknown", (), f"the check broke: {_named(error)}")
    outcomes = {finding.outcome for finding in findings}
    outcome = next((name for name in ("fail", "unknown", "warn") if name in outcomes), "pass")
    return Result(one.id, one.family, outcome, findings)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _whole(one: Check, finding: Finding) -> Finding:
    """With what the check says for all its findings; words are words, whatever a snapshot held."""
    return finding._replace(
        text=str(finding.text),
        subject=str(finding.subject),
        evidence=str(finding.evidence),
        id=one.id,
        outcome=finding.outcome or one.severity,
        domain=finding.domain or one.domain,
        fix=str(finding.fix or one.fix),
    )
