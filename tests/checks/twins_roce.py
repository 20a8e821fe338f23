"""Fixtures of the family roce."""

from tests.checks.twin import Twin

TWINS: tuple[Twin, ...] = ()
