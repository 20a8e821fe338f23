"""One line for a custom plugin of Kubernetes' node-problem-detector, which cuts it at 80 bytes.

The exit code is that of `rig check`: 0 OK, 1 problem, all else unknown (pkg/custompluginmonitor/types)."""

from checks.formats import flat
from checks.running import FAILED, PASSED, Report

LIMIT = 80


def write(report: Report) -> str:
    return _cut(_line(report)) + "\n"


def _line(report: Report) -> str:
    counts = report.counts
    if report.code == PASSED:
        warned = f", {counts['warn']} with warnings" if counts["warn"] else ""
        passed = counts["pass"] + counts["warn"]
        return f"{passed} check{'s' * (passed != 1)} passed{warned}"
    words = {"fail": "failed", "unknown": "unknown", "warn": "warned"}
    if report.code == FAILED and counts["fail"]:
        words = {"fail": "failed"}
    elif report.code != FAILED:
        words = {"unknown": "unknown"}
    named = [one.check.id for outcome in words for one in report.with_outcome(outcome)]
    if not named:
        return "nothing could be judged"
    told = ", ".join(f"{counts[outcome]} {word}" for outcome, word in words.items() if counts[outcome])
    return f"{told}: {', '.join(named)}"


def _cut(line: str) -> str:
    """At most LIMIT bytes: names are ASCII, and what is not is shown as an escape."""
    text = flat(line).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= LIMIT else text[: LIMIT - 3] + "..."
