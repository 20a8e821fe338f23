"""Results as text, one file a format; each has `write(report) -> str`, and knows nothing of where it goes."""

from checks.running import Judged, Report
from rig.lean import Any, Callable

FORMATS = {
    "text": "for people, what failed first",
    "json": "everything (docs/check-results.schema.json)",
    "junit": "JUnit XML, a test suite for each family",
    "tap": "the Test Anything Protocol",
    "prom": "for the textfile collector of Prometheus' node exporter",
    "npd": "one line for a custom plugin of Kubernetes' node-problem-detector",
    "html": "one page, with nothing to load",
}
FILES = {"prom": "prometheus"}
# Sections of a report for people, what matters most first.
HEADINGS = (
    ("fail", "Failed"),
    ("unknown", "Could not tell"),
    ("warn", "Warnings"),
    ("skip", "Do not apply here"),
    ("pass", "Passed"),
)
WORDS = {"pass": "passed", "warn": "warned", "fail": "failed", "skip": "skipped", "unknown": "unknown"}
VERDICTS = {0: "pass", 1: "fail", 2: "could not judge"}


def writer(name: str) -> Callable[[Report], str]:
    """The writer of one of FORMATS."""
    module = __import__(f"checks.formats.{FILES.get(name, name)}", fromlist=["write"])
    write: Callable[[Report], str] = module.write
    return write


def flat(text: str) -> str:
    """One line of printable characters: control characters of device names and values are shown, not obeyed. Whatever
    a writer shows of a snapshot goes through it: words of a snapshot may come from anybody."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def shown(value: Any) -> str:
    """What was wanted or found, in one line."""
    from rig.emit import to_json

    return flat(value if isinstance(value, str) else to_json(plain(value), 0))


def plain(value: Any) -> Any:
    """A value as JSON can hold it: a check may say anything that it wanted, and its words must not break a run."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        items = [plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
    return str(value)


def reasons(one: Judged) -> list[str]:
    """What there is to say of a result, a line each: its findings, or why it was not judged."""
    said = [f"{_about(finding)}{flat(finding.text)}" for finding in one.result.findings]
    return said or ([flat(one.result.why)] if one.result.why else [])


def _about(finding: Any) -> str:
    """The subject, where the text does not name it."""
    return f"{flat(finding.subject)}: " if finding.subject and finding.subject not in finding.text else ""


def counted(report: Report) -> str:
    """`1 failed, 0 unknown, 2 warned, 30 skipped, 120 passed`: all five, whatever they are."""
    return ", ".join(f"{report.counts[outcome]} {WORDS[outcome]}" for outcome, _ in HEADINGS)
