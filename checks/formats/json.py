"""Everything that is known of a run, for programs. Its form is in docs/check-results.schema.json."""

from checks.formats import plain
from checks.running import Judged, Report
from rig.emit import to_json
from rig.lean import Any

VERSION = 1


def write(report: Report, known: dict[str, tuple[Judged, str]] | None = None) -> str:
    """The whole document, a result a line. `known` keeps their texts for the next time: while a run goes on this is
    written after every check."""
    known = {} if known is None else known
    for one in report.judged:
        if known.get(one.check.id, (None,))[0] is not one:
            known[one.check.id] = (one, to_json(_result(one), 0))
    head = to_json(_head(report), depth=2).removesuffix("\n}")
    results = ",\n    ".join(known[one.check.id][1] for one in report.judged)
    told = f"[\n    {results}\n  ]" if results else "[]"
    return f'{head},\n  "results": {told}\n}}\n'


def _head(report: Report) -> dict[str, Any]:
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
            {
                "name": one.name,
                "state": one.state,
                "cut": one.cut,
                "asking": one.asking,
                "error": one.error,
                "seconds": one.seconds,
            }
            for one in report.probes
        ],
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
