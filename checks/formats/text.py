"""For people: what failed first, with what to do about it; counts of all five outcomes last."""

from checks.formats import HEADINGS, VERDICTS, counted, flat, reasons, shown
from checks.running import Judged, Report
from rig.finding import Finding
from rig.lean import Iterator

WIDTH = 110


def write(report: Report) -> str:
    return "\n".join((*_head(report), *_sections(report), f"{_verdict(report)}: {counted(report)}")) + "\n"


def _head(report: Report) -> Iterator[str]:
    where = f" of {flat(report.hostname)}" if report.hostname else ""
    when = f", {flat(report.taken_at)}" if report.taken_at else ""
    took = f", {report.seconds:.1f} s" if report.seconds is not None else ""
    yield f"checks{where}, level {report.level}{when}{took}"
    if report.machine:
        yield f"  {flat(report.machine)}"
    for probe in report.probes:
        if probe.state not in ("ok", "unasked") or probe.cut:
            state = "cut" if probe.cut else flat(probe.state)
            yield f"  probe {flat(probe.name)}: {state}" + (f" ({flat(probe.error)})" if probe.error else "")
    yield ""


def _verdict(report: Report) -> str:
    return VERDICTS[report.code] + (" (strict)" if report.strict else "") + (", so far" if report.partial else "")


def _sections(report: Report) -> Iterator[str]:
    for outcome, heading in HEADINGS:
        found = report.with_outcome(outcome)
        if not found:
            continue
        yield f"{heading} ({len(found)})"
        if outcome in ("skip", "pass"):
            yield from _names(found)
        else:
            for one in found:
                yield from _told(one)
        yield ""


def _told(one: Judged) -> Iterator[str]:
    """A check with its findings."""
    yield f"  {one.check.id}  [{one.check.family}]"
    if not one.result.findings:
        yield from (f"    {line}" for line in reasons(one))
    last = ""
    for finding, line in zip(one.result.findings, reasons(one), strict=False):
        yield f"    {line}"
        yield from (f"      {detail}" for detail in _details(finding) if detail != last)
        last = f"fix   {flat(finding.fix)} ({finding.domain})"  # the same for each of eight GPUs is said once


def _details(finding: Finding) -> Iterator[str]:
    if finding.got is not None:
        yield f"got   {shown(finding.got)}"
    if finding.want is not None:
        yield f"want  {shown(finding.want)}"
    if finding.evidence:
        yield f"from  {flat(finding.evidence)}"
    if finding.fix:
        yield f"fix   {flat(finding.fix)} ({finding.domain})"


def _names(found: list[Judged]) -> Iterator[str]:
    """Ids under what they share: the reason of a skip, else the family."""
    from textwrap import wrap

    groups: dict[str, list[str]] = {}
    for one in found:
        groups.setdefault(flat(one.result.why) or one.check.family, []).append(one.check.id)
    for title, ids in groups.items():
        indent = " " * 4
        yield f"  {title}"
        yield from wrap(", ".join(ids), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
