"""Fixtures of the family system."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()
