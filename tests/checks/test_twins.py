"""No check without both fixtures: one in which it speaks, and a healthy twin in which it passes."""

import importlib

import pytest

from checks import LEVELS, SEVERITIES, evaluate
from checks.catalogue import BOOT, FAMILIES, family_checks
from rig.finding import DOMAINS
from tests.checks.twin import Twin

CHECKS = {one.id: one for family in FAMILIES for one in family_checks(family)}


def twins_of(family: str) -> list[Twin]:
    return list(importlib.import_module(f"tests.checks.twins_{family}").TWINS)


TWINS = [twin for family in FAMILIES for twin in twins_of(family)]


def test_every_check_has_both_fixtures() -> None:
    assert sorted(set(CHECKS) - {twin.id for twin in TWINS}) == []


def test_ids_are_unique() -> None:
    assert len(CHECKS) == sum(len(family_checks(family)) for family in FAMILIES)


@pytest.mark.parametrize("twin", TWINS, ids=[f"{twin.id}-{index}" for index, twin in enumerate(TWINS)])
def test_the_broken_one_is_found(twin: Twin) -> None:
    result = evaluate(CHECKS[twin.id], twin.broken)
    said = [(one.outcome, one.domain, one.text, one.subject, one.fix) for one in result.findings]
    assert result.outcome == twin.outcome, (result.why, said)
    assert any(
        one.id == twin.id
        and one.outcome == twin.outcome
        and one.domain == twin.domain
        and twin.says in f"{one.text} {one.subject}"
        and twin.fix in one.fix
        for one in result.findings
    ), said


@pytest.mark.parametrize("twin", TWINS, ids=[f"{twin.id}-{index}" for index, twin in enumerate(TWINS)])
def test_the_healthy_one_passes(twin: Twin) -> None:
    result = evaluate(CHECKS[twin.id], twin.healthy)
    assert result.outcome == "pass", (result.why, [one.text for one in result.findings])


@pytest.mark.parametrize("one", CHECKS.values(), ids=list(CHECKS))
def test_a_check_is_fit_for_its_page(one: object) -> None:
    check = CHECKS[one.id]  # type: ignore[attr-defined]
    assert check.at in LEVELS and check.severity in SEVERITIES and check.domain in DOMAINS
    assert check.run.__doc__ and check.run.__doc__.splitlines()[0].endswith(".")
    assert check.fix and "\n" not in check.fix
    assert check.at != "boot" or check.family in BOOT
