"""The Test Anything Protocol, version 13 (testanything.org): a line a check, what it said as a YAML block below.

A warning is `ok` with a diagnostic; what could not be told is `not ok`: a stream of tests knows no third answer, and
unknown is never a pass.
"""

from checks.formats import counted, flat, reasons
from checks.running import Judged, Report
from rig.emit import to_json
from rig.lean import Iterator


def write(report: Report) -> str:
    lines = ["TAP version 13", f"1..{len(report.judged)}"]
    for number, one in enumerate(report.judged, 1):
        lines += _line(number, one, report.strict)
    return "\n".join((*lines, f"# {counted(report)}")) + "\n"


def _line(number: int, one: Judged, strict: bool) -> Iterator[str]:
    outcome = one.result.outcome
    good = outcome in ("pass", "skip") or (outcome == "warn" and not strict)
    directive = f" # SKIP {_plain(one.result.why)}" if outcome == "skip" else ""
    yield f"{'ok' if good else 'not ok'} {number} - {one.check.id}{directive}"
    if outcome in ("warn", "fail", "unknown"):
        yield "  ---"
        yield f"  outcome: {outcome}"
        yield f"  severity: {one.check.severity}"
        yield "  said:"
        yield from (f"    - {_quoted(line)}" for line in reasons(one))
        fixes = dict.fromkeys(flat(finding.fix) for finding in one.result.findings if finding.fix)
        if fixes:
            yield "  fix:"
            yield from (f"    - {_quoted(fix)}" for fix in fixes)
        yield "  ..."


def _plain(text: str) -> str:
    """The text of a directive; a `#` would begin another."""
    return flat(text).replace("#", "")


def _quoted(text: str) -> str:
    return to_json(text)  # a JSON string is one of YAML
