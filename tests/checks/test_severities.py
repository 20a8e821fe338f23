"""A check that can fail a machine must not pass by not knowing: its severity is the worst that it says."""

import importlib

import pytest

from checks.catalogue import FAMILIES, family_checks
from tests.checks.twin import Twin

SEVERITY = {one.id: one.severity for family in FAMILIES for one in family_checks(family)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_severity_of_a_check_is_its_worst(family: str) -> None:
    twins: list[Twin] = list(importlib.import_module(f"tests.checks.twins_{family}").TWINS)
    assert [one.id for one in twins if one.outcome == "fail" and SEVERITY[one.id] != "fail"] == []
