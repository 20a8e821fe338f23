"""JUnit XML, as CI systems read it: a test suite for each family, a test case for each check.

A skip is `skipped`, what could not be told an `error`, a warning passes with its words as output (strict: it fails).
Words of a snapshot are `flat`, which leaves no character that XML cannot hold (XML 1.0, production 2).
"""

from xml.etree.ElementTree import Element, SubElement, tostring

from checks.formats import flat, reasons
from checks.running import Judged, Report

COUNTED = ("failure", "error", "skipped")
TOTALS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def write(report: Report) -> str:
    top = Element("testsuites", name="rig check")
    families: dict[str, list[Judged]] = {}
    for one in report.judged:
        families.setdefault(one.check.family, []).append(one)
    for family, judged in families.items():
        suite = SubElement(top, "testsuite", name=family)
        for one in judged:
            _case(suite, one, report.strict)
        _totals(suite)
        if report.taken_at:
            suite.set("timestamp", flat(report.taken_at).removesuffix("Z"))
        if report.hostname:
            suite.set("hostname", flat(report.hostname))
    _totals(top)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(top, encoding="unicode") + "\n"


def _case(suite: Element, one: Judged, strict: bool) -> None:
    case = SubElement(suite, "testcase", classname=f"rig.{one.check.family}", name=one.check.id)
    case.set("time", f"{one.seconds or 0:.3f}")
    lines, outcome = reasons(one), one.result.outcome
    first = lines[0] if lines else outcome
    fixes = dict.fromkeys(flat(finding.fix) for finding in one.result.findings if finding.fix)
    text = "\n".join((*lines, *(f"fix: {fix}" for fix in fixes)))
    if outcome == "skip":
        SubElement(case, "skipped", message=first)
    elif outcome == "unknown":
        SubElement(case, "error", message=first, type="unknown").text = text
    elif outcome == "fail" or (outcome == "warn" and strict):
        SubElement(case, "failure", message=first, type=outcome).text = text
    elif outcome == "warn":
        SubElement(case, "system-out").text = text


def _totals(parent: Element) -> None:
    """The counts of what is below, as attributes."""
    cases = list(parent.iter("testcase"))
    parent.set("tests", str(len(cases)))
    for tag in COUNTED:
        parent.set(TOTALS[tag], str(sum(case.find(tag) is not None for case in cases)))
    parent.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.3f}")
