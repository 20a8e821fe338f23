"""One item a check: `pytest checks --hosts=docker://NAME`. checks/conftest.py takes the snapshots."""

import pytest

from checks import Check, Result
from checks.formats import flat
from rig.finding import Finding


def test_check(one: Check, result: Result, request: pytest.FixtureRequest) -> None:
    """Fails as `rig check` does not exit with 0: also where what would be a failure could not be judged."""
    strict = request.config.getini("strict")  # pytest's own --strict
    told = "\n".join(_lines(finding) for finding in result.findings)
    if result.outcome == "fail" or (strict and result.outcome == "warn"):
        pytest.fail(f"{result.id}: {told}", pytrace=False)
    if result.outcome == "unknown":
        why = f"could not be judged: {flat(result.why) or told}"
        if strict or one.severity == "fail":
            pytest.fail(f"{result.id}: {why}", pytrace=False)
        pytest.skip(why)
    if result.outcome == "skip":
        pytest.skip(flat(result.why))
    assert result.outcome in ("pass", "warn")


def _lines(finding: Finding) -> str:
    """A finding as a person reads it: what it says, then want, got, fix, who must act."""
    about = f" ({finding.subject})" if finding.subject else ""
    rows = {"want": finding.want, "got": finding.got, "fix": finding.fix, "who": finding.domain}
    shown = [f"    {name:5}{flat(str(value))}" for name, value in rows.items() if value not in (None, "")]
    return "\n".join([flat(f"{finding.text}{about}"), *shown])
