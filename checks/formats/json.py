"""Everything that is known of a run, for programs. Its form is in docs/check-results.schema.json."""

from checks.formats import plain
from checks.running import Judged, Report
from rig.emit import to_json
from rig.lean import Any

VERSION = 1


def write(report: Report) -> str:
    return to_json(document(report), depth=2) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "version": VERSION,
        "partial": report.partial,
        "level": report.level,
        "strict": report.strict,
        "exit_code": report.code,
        "counts": report.counts,
        "hostname": report.hostname,
        "machine": report.machine,
        "taken_at": report.taken_at,
        "seconds": report.seconds,
        "probes": [
            {"name": one.name, "state": one.state, "error": one.error, "seconds": one.seconds} for one in report.probes
        ],
        "results": [_result(one) for one in report.judged],
    }


def _result(one: Judged) -> dict[str, Any]:
    return {
        "id": one.check.id,
        "family": one.check.family,
        "title": one.check.title,
        "level": one.check.at,
        "outcome": one.result.outcome,
        "severity": one.check.severity,
        "domain": one.check.domain,
        "why": one.result.why,
        "missing": one.result.missing,
        "seconds": one.seconds,
        "findings": [plain(finding) for finding in one.result.findings],
    }
