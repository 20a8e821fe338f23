"""For the textfile collector of Prometheus' node exporter (text exposition format 0.0.4).

A check is a state set: five series, of which the one with its outcome is 1, so that no series comes and goes.
"""

from checks.running import Report
from rig.finding import OUTCOMES
from rig.lean import Iterator


def write(report: Report) -> str:
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield from _about("rig_check_outcome", "Outcome of a check: 1 for the one that it has.")
    for one in report.judged:
        labels = {"id": one.check.id, "family": one.check.family, "severity": one.check.severity}
        labels["domain"] = one.check.domain
        for outcome in OUTCOMES:
            yield _sample("rig_check_outcome", {**labels, "outcome": outcome}, int(outcome == one.result.outcome))
    yield from _about("rig_checks", "Number of checks with this outcome.")
    for outcome, count in report.counts.items():
        yield _sample("rig_checks", {"outcome": outcome}, count)
    yield from _about("rig_check_exit_code", "0 passed, 1 failed, 2 could not judge.")
    yield _sample("rig_check_exit_code", {"level": report.level}, report.code)
    if (taken_at := _unix(report.taken_at)) is not None:
        yield from _about("rig_check_timestamp_seconds", "When the machine was looked at, as Unix time.")
        yield _sample("rig_check_timestamp_seconds", {}, taken_at)
    if report.seconds is not None:
        yield from _about("rig_check_seconds", "Seconds that the run took.")
        yield _sample("rig_check_seconds", {}, report.seconds)


def _about(name: str, text: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} gauge"


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{told}}} {value}" if told else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _unix(taken_at: str | None) -> float | None:
    from datetime import datetime

    try:
        return datetime.fromisoformat(taken_at or "").timestamp()
    except ValueError:
        return None
