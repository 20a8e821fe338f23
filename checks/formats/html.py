"""One page, with nothing to load: dark or light as the reader has it, and every outcome a word, not a colour."""

from html import escape

from checks.formats import HEADINGS, VERDICTS, WORDS, flat, reasons, shown
from checks.running import Judged, Report
from rig.finding import Finding
from rig.lean import Iterator

STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --soft: #57606a; --back: #fff; --line: #d0d7de; --fail: #b3261e;
  --unknown: #7a4b00; --warn: #7a4b00; --pass: #1a6e34; --skip: #57606a }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9aa4af; --back: #0d1117; --line: #30363d;
  --fail: #ff8a80; --unknown: #e3b341; --warn: #e3b341; --pass: #6fce85; --skip: #9aa4af } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; border-bottom: 1px solid var(--line); margin-top: 2rem }
h3 { font-size: 1rem; margin: 1rem 0 0 } code, dd { font-family: ui-monospace, monospace; overflow-wrap: anywhere }
p { margin: .2rem 0 } .soft, dt { color: var(--soft) } .counts { list-style: none; padding: 0;
  display: flex; gap: 1.5rem; flex-wrap: wrap }
dl { display: grid; grid-template-columns: 4rem 1fr; margin: .2rem 0 .6rem 1rem }
dd { margin: 0 }
.fail { color: var(--fail) } .unknown { color: var(--unknown) } .warn { color: var(--warn) }
.pass { color: var(--pass) } .skip { color: var(--skip) } section > ul { padding-left: 1.2rem }
@media print { body { margin: 0; max-width: none } }
"""


def write(report: Report) -> str:
    title = f"Checks of {flat(report.hostname)}" if report.hostname else "Checks"
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}: {_verdict(report)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
            f"<h1>{_text(title)}: {_verdict(report)}</h1>",
            *_head(report),
            *_sections(report),
            "</body>\n</html>\n",
        )
    )


def _text(text: str) -> str:
    return escape(flat(text))


def _verdict(report: Report) -> str:
    return VERDICTS[report.code] + (" (strict)" if report.strict else "") + (", so far" if report.partial else "")


def _head(report: Report) -> Iterator[str]:
    facts = [f"level {report.level}", report.taken_at or ""]
    facts += [f"{report.seconds:.1f} s"] if report.seconds is not None else []
    yield f'<p class="soft">{_text(", ".join(filter(None, facts)))}</p>'
    if report.machine:
        yield f"<p>{_text(report.machine)}</p>"
    counts = (f'<li class="{name}">{report.counts[name]} {WORDS[name]}</li>' for name, _ in HEADINGS)
    yield f'<ul class="counts">{"".join(counts)}</ul>'


def _sections(report: Report) -> Iterator[str]:
    for outcome, heading in HEADINGS:
        found = report.with_outcome(outcome)
        if not found:
            continue
        yield f'<section>\n<h2 class="{outcome}">{heading} ({len(found)})</h2>'
        if outcome in ("pass", "skip"):
            yield "<ul>"
            yield from (f"<li>{_named(one)}{_because(one)}</li>" for one in found)
            yield "</ul>"
        else:
            for one in found:
                yield from _told(one)
        yield "</section>"


def _named(one: Judged) -> str:
    return f'<code>{one.check.id}</code> <span class="soft">{one.check.family}</span>'


def _because(one: Judged) -> str:
    return f": {_text(one.result.why)}" if one.result.why else ""


def _told(one: Judged) -> Iterator[str]:
    yield f"<h3>{_named(one)}</h3>"
    if not one.result.findings:
        yield from (f"<p>{_text(line)}</p>" for line in reasons(one))
    for finding, line in zip(one.result.findings, reasons(one), strict=False):
        yield f"<p>{_text(line)}</p>"
        yield from _details(finding)


def _details(finding: Finding) -> Iterator[str]:
    rows = [
        ("got", finding.got),
        ("want", finding.want),
        ("from", finding.evidence or None),
        ("fix", finding.fix or None),
    ]
    told = [f"<dt>{name}</dt><dd>{escape(shown(value))}</dd>" for name, value in rows if value is not None]
    if finding.domain:
        told.append(f"<dt>who</dt><dd>{_text(finding.domain)}</dd>")
    if told:
        yield f"<dl>{''.join(told)}</dl>"
